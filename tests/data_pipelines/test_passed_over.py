"""Files of an input that are not read are counted, named and reported."""

import os

import pytest

from data_pipelines import report
from data_pipelines.builds.documents import build_documents, summary
from data_pipelines.builds.windows import WindowOptions, build_windows
from data_pipelines.readers import get_reader
from data_pipelines.readers.base import describe_passed_over, passed_over_summary
from tests.data_pipelines import small_corpus
from tests.test_file_listing import write_files


@pytest.fixture
def text(tmp_path):
    folder = tmp_path / "text"
    write_files(folder, "a.txt", "c", "sub/e.md")
    return folder


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
    report.write_report(tmp_path / "documents", tmp_path / "page.html")
    assert "(c, sub/e.md)" in (tmp_path / "page.html").read_text()

    # With two inputs, names begin with the split.
    write_files(tmp_path / "validation", "b.txt", "d")
    options = small_corpus.options_of(
        text,
        vocabulary,
        format="plain_text",
        validation_input=str(tmp_path / "validation"),
    )
    manifest = build_documents(options, tmp_path / "split")
    names = ["train/c", "train/sub/e.md", "validation/d"]
    assert manifest.passed_over == {"other_name": {"count": 3, "first": names}}


def passed_over_by(format, input_path):
    passed_over = {}
    get_reader(format).sources(input_path, passed_over)
    return passed_over


def test_each_reason_has_its_names(text, memory):
    write_files(text, ".DS_Store", ".git/config", ".git/objects/ab", "sub/.old.txt")
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
    (text / "code").mkdir()
    (text / "code/__init__.py").touch()
    write_files(text / "code", "code.py")
    assert passed_over_by("python_docs", text / "code") == {}
    write_files(text / "dumps", "wiki.xml", "wiki1.xml-p1p42-short.bz2", "index.txt")
    assert passed_over_by("mediawiki", text / "dumps") == {"other_name": ["index.txt"]}
    passed_over = {"other_name": [f"{n}.md" for n in range(1007)], "hidden": [".x"]}
    assert passed_over_summary(describe_passed_over(passed_over)) == (
        "passed over: 1 hidden (.x); 1,007 with a name that is not of the format "
        "(0.md, 1.md, 2.md, 3.md, 4.md and 1,002 more)"
    )
