"""Results go to file systems: a URL is refused before anything is read or made."""

import pathlib

import pytest

from seg_tf import output_paths
from tests import command_calls

pytestmark = pytest.mark.slow

TEXT = ("--format=json_lines", "--input=missing.jsonl")
DOCUMENTS = (*TEXT, "--vocab_file=missing.txt")
FILE = "`--output` must be a file of this machine or of a shared file system"


def test_paths_of_the_machine_are_paths():
    assert output_paths.local_path("a/b", "output_dir") == pathlib.Path("a/b")
    # One slash, as `pathlib` makes of two, is no URL; nor is a colon.
    assert output_paths.local_path("gs:/b", "output_dir") == pathlib.Path("gs:/b")
    assert output_paths.local_path("/x:y", "output_dir") == pathlib.Path("/x:y")


@pytest.mark.parametrize("url", ["gs://bucket/x", "S3://bucket", "file:///tmp/x"])
def test_urls_are_refused_by_name(url):
    with pytest.raises(ValueError, match=rf"^`--page` must be a file .*: '{url}'$"):
        output_paths.local_path(url, "page", "file")


@pytest.mark.parametrize(
    "value, reason",
    [
        ("", "Received: '', which is no name"),
        ("folder", "Received: folder, which is a folder"),
        ("new/", "Received: new/, which ends as a folder does"),
        ("missing/file", "Received: missing/file, whose folder does not exist"),
        ("file/file", "whose folder does not exist"),
    ],
)
def test_no_file_can_become_these(tmp_path, monkeypatch, value, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("text")
    with pytest.raises(ValueError, match=r"^`--page` must name a file") as error:
        output_paths.file_path(value, "page")
    assert str(error.value).endswith(reason)
    # What is there is replaced.
    assert output_paths.file_path("file", "page") == pathlib.Path("file")
    assert output_paths.file_path("folder/new", "page") == pathlib.Path("folder/new")


@pytest.mark.parametrize(
    "value, reason",
    [
        ("", "Received: '', which is no name"),
        ("file", "Received: file, and file is a file"),
        ("file/a/b", "/file is a file"),
    ],
)
def test_no_folder_can_become_these(tmp_path, monkeypatch, value, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("text")
    with pytest.raises(
        ValueError, match=r"^`--output_dir` must name a folder"
    ) as error:
        output_paths.folder_path(value)
    assert str(error.value).endswith(reason)
    for free in (".", "a/b/c"):
        assert output_paths.folder_path(free) == pathlib.Path(free)


@pytest.mark.parametrize(
    "script, arguments, message",
    [
        ("build_vocab", (*TEXT, "--output=gs://bucket/x"), FILE),
        (
            "build_word_vocab",
            (*TEXT, "--tokenizer=words", "--min_count=1", "--output=gs://bucket/x"),
            FILE,
        ),
        ("readers", (*TEXT, "--output=gs://bucket/x"), "`--output` must be a file or"),
        (
            "build_records",
            (*DOCUMENTS, "--output_dir=records", "--report=gs://bucket/x"),
            "`--report` must be a file of this machine or of a shared file system",
        ),
    ],
)
def test_commands_refuse_urls_before_they_read(
    tmp_path, monkeypatch, script, arguments, message
):
    # The inputs are missing, which would be told if they were looked for.
    monkeypatch.chdir(tmp_path)
    result = command_calls.call(f"data_pipelines.{script}", *arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Received: 'gs://bucket/x'" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []
