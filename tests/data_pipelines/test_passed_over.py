"""Files of an input that are not read are counted, named and said."""

import json
import logging
import os

import pytest

from data_pipelines import build_windows
from data_pipelines.builds import document_build
from data_pipelines.builds.window_building import WindowOptions
from data_pipelines.readers import get_reader
from data_pipelines.readers.base import PassedOver, passed_over_summary
from data_pipelines.report import page
from seg_tf.data.manifest import Manifest
from tests.data_pipelines import small_corpus

OTHER_NAME = {"other_name": {"count": 2, "first": ["c", "sub/e.md"]}}


def make(folder, *names):
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
    make(folder, "a.txt", "c", "sub/e.md")
    return folder


@pytest.fixture
def options(text, tmp_path):
    vocabulary = small_corpus.write_vocabulary(tmp_path)
    return small_corpus.options_of(text, vocabulary, format="plain_text")


def test_each_reason_has_its_names(text):
    make(text, ".DS_Store", ".git/config", ".git/objects/ab", "sub/.old.txt")
    os.symlink(text / "nowhere", text / "gone.txt")
    assert passed_over_by("plain_text", text) == {
        "hidden": [".DS_Store", "sub/.old.txt"],
        "hidden_folder": [".git"],
        "not_a_file": ["gone.txt"],
        "other_name": ["c", "sub/e.md"],
    }


def test_a_file_that_a_glob_matches_is_not_passed_over(text):
    # The glob matches the files, and the folder in which names decide.
    assert passed_over_by("plain_text", f"{text}/**") == {}
    make(text, "sub/f.txt")
    assert passed_over_by("plain_text", f"{text}/su*") == {"other_name": ["sub/e.md"]}


def test_remote_files_are_passed_over_as_local_ones_are(memory):
    for name in ("a.txt", "c", "sub/e.md", ".x", ".git/config", ".git/a/b"):
        memory.pipe(f"/corpus/{name}", b"A sentence.\n")
    assert passed_over_by("plain_text", "memory://corpus") == {
        "hidden": [".x"],
        "hidden_folder": [".git"],
        "other_name": ["c", "sub/e.md"],
    }


def test_files_beside_a_dump_and_empty_modules_are_named(tmp_path):
    make(tmp_path, "wiki-pages-articles.xml", "md5sums.txt")
    assert passed_over_by("mediawiki", tmp_path) == {"other_name": ["md5sums.txt"]}
    make(tmp_path, "package/code.py")
    (tmp_path / "package" / "__init__.py").touch()
    assert passed_over_by("python_docs", tmp_path / "package") == {
        "empty": ["__init__.py"]
    }


def test_the_error_of_no_file_counts_what_there_is(text):
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


def test_a_build_warns_and_its_manifest_and_report_name_them(options, tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        documents = document_build.build_documents(options, tmp_path / "documents")
    assert "(c, sub/e.md)" in caplog.text
    assert documents.passed_over == OTHER_NAME
    windows = build_windows.build_windows(
        WindowOptions(window_length=32), tmp_path / "documents", tmp_path / "windows"
    )
    for built in (documents, windows):
        assert "passed over: 2 with a name" in document_build.summary(built)
    written = json.loads((tmp_path / "windows" / "manifest.json").read_text())
    assert written["passed_over"] == OTHER_NAME
    assert "(c, sub/e.md)" in page.left_out(Manifest.load(tmp_path / "documents"))


def test_names_begin_with_the_split_where_there_are_two_inputs(options, tmp_path, text):
    validation = tmp_path / "validation"
    make(validation, "b.txt", "d")
    vocabulary = small_corpus.write_vocabulary(tmp_path)
    with_validation = small_corpus.options_of(
        text, vocabulary, format="plain_text", validation_input=str(validation)
    )
    manifest = document_build.build_documents(with_validation, tmp_path / "out")
    assert manifest.passed_over == {
        "other_name": {
            "count": 3,
            "first": ["train/c", "train/sub/e.md", "validation/d"],
        }
    }


def test_nothing_passed_over_leaves_no_trace(options, tmp_path, text, caplog):
    for name in ("c", "sub/e.md"):
        (text / name).unlink()
    manifest = document_build.build_documents(options, tmp_path / "out")
    assert "passed over" not in caplog.text + document_build.summary(manifest)
    assert manifest.passed_over is None
