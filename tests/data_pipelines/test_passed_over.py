"""Files of an input that are not read are counted, named and reported."""

import logging
import os

import pytest

from data_pipelines.builds.documents import build_documents, summary
from data_pipelines.builds.windows import WindowOptions, build_windows
from data_pipelines.readers import get_reader
from data_pipelines.readers.base import PassedOver, passed_over_summary
from data_pipelines.report import page
from seg_tf.data.manifest import Manifest
from tests.data_pipelines import small_corpus


def write(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("A sentence.\n")


def passed_over_by(format, input_path):
    passed_over = PassedOver()
    get_reader(format).files(input_path, passed_over)
    return passed_over.names


@pytest.fixture
def text(tmp_path):
    folder = tmp_path / "text"
    write(folder, "a.txt", "c", "sub/e.md")
    return folder


def test_each_reason_has_its_names(text, memory):
    write(text, ".DS_Store", ".git/config", ".git/objects/ab", "sub/.old.txt")
    os.symlink(text / "nowhere", text / "gone.txt")
    assert passed_over_by("plain_text", text) == {
        "hidden": [".DS_Store", "sub/.old.txt"],
        "hidden_folder": [".git"],
        "not_a_file": ["gone.txt"],
        "other_name": ["c", "sub/e.md"],
    }
    for name in ("a.txt", "c", "sub/e.md", ".x", ".git/config", ".git/a/b"):
        memory.pipe(f"/corpus/{name}", b"A sentence.\n")
    assert passed_over_by("plain_text", "memory://corpus") == {
        "hidden": [".x"],
        "hidden_folder": [".git"],
        "other_name": ["c", "sub/e.md"],
    }
    (text / "empty").mkdir()
    (text / "empty" / "__init__.py").touch()
    write(text / "empty", "code.py")
    empty = {"empty": ["__init__.py"]}
    assert passed_over_by("python_docs", text / "empty") == empty


def test_a_file_that_a_glob_matches_is_not_passed_over(text):
    # The glob matches the files, and the folder in which names decide.
    assert passed_over_by("plain_text", f"{text}/**") == {}
    write(text, "sub/f.txt")
    assert passed_over_by("plain_text", f"{text}/su*") == {"other_name": ["sub/e.md"]}


def test_without_a_file_the_error_counts_what_there_is(text):
    (text / "a.txt").unlink()
    with pytest.raises(ValueError, match=r"\*\.txt.*contains none, but 2 different"):
        get_reader("plain_text").files(text)


def test_a_summary_names_a_few_and_counts_the_rest():
    passed_over = PassedOver()
    for number in range(1007):
        passed_over.add("other_name", f"{number}.md")
    passed_over.add("hidden", ".x")
    assert passed_over_summary(passed_over.described()) == (
        "passed over: 1 hidden (.x); 1,007 with a name that is not of the format "
        "(0.md, 1.md, 2.md, 3.md, 4.md and 1,002 more)"
    )


def test_builds_manifests_and_reports_name_them(tmp_path, text, caplog):
    vocabulary = small_corpus.write_vocabulary(tmp_path)
    options = small_corpus.options_of(text, vocabulary, format="plain_text")
    manifests = [build_documents(options, tmp_path / "documents")]
    window_options = WindowOptions(window_length=32)
    manifests.append(
        build_windows(window_options, tmp_path / "documents", tmp_path / "windows")
    )
    assert "(c, sub/e.md)" in caplog.text
    for manifest in manifests:
        entry = {"other_name": {"count": 2, "first": ["c", "sub/e.md"]}}
        assert manifest.passed_over == entry
        assert "passed over: 2 with a name" in summary(manifest)
    assert "(c, sub/e.md)" in page.left_out(Manifest.load(tmp_path / "documents"))

    # With two inputs, names begin with the split.
    write(tmp_path / "validation", "b.txt", "d")
    options = small_corpus.options_of(
        text,
        vocabulary,
        format="plain_text",
        validation_input=str(tmp_path / "validation"),
    )
    manifest = build_documents(options, tmp_path / "split")
    names = ["train/c", "train/sub/e.md", "validation/d"]
    assert manifest.passed_over == {"other_name": {"count": 3, "first": names}}

    (tmp_path / "validation" / "d").unlink()
    caplog.clear()
    options = small_corpus.options_of(
        tmp_path / "validation", vocabulary, format="plain_text"
    )
    with caplog.at_level(logging.WARNING):
        manifest = build_documents(options, tmp_path / "all")
    assert "passed over" not in caplog.text + summary(manifest)
    assert manifest.passed_over is None
