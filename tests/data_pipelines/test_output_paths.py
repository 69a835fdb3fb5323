"""Results go to file systems: a URL is refused before anything is read or made."""

import pathlib

import pytest

from seg_tf import output_paths
from tests import command_calls

TEXT = ("--format=json_lines", "--input=missing.jsonl")
FILE = "`--output` must be a file of this machine or of a shared file system"


@pytest.mark.parametrize("url", ["gs://bucket/x", "S3://bucket", "file:///tmp/x"])
def test_urls_are_refused_by_name(url):
    with pytest.raises(ValueError, match=rf"^`--page` must be a file .*: '{url}'$"):
        output_paths.local_path(url, "page", "file")
    # One slash, which `pathlib` makes of two, is no URL; nor is a colon.
    for path in ("a/b", "gs:/b", "/x:y"):
        assert output_paths.local_path(path, "page") == pathlib.Path(path)


@pytest.mark.parametrize(
    ("value", "file_reason", "folder_reason"),
    [
        ("", "Received: '', which is no name", "Received: '', which is no name"),
        ("folder", "Received: folder, which is a folder", None),
        ("new/", "Received: new/, which ends as a folder does", None),
        ("missing/file", "missing/file, whose folder does not exist", None),
        ("file", None, "Received: file, and file is a file"),
        ("file/a", "whose folder does not exist", "file is a file"),
    ],
)
def test_impossible_outputs(tmp_path, monkeypatch, value, file_reason, folder_reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("text")
    for make_path, kind, reason in (
        (output_paths.file_path, "file", file_reason),
        (output_paths.folder_path, "folder", folder_reason),
    ):
        if reason is None:
            assert make_path(value, "page") == pathlib.Path(value)
            continue
        with pytest.raises(ValueError, match=rf"^`--page` must name a {kind}") as error:
            make_path(value, "page")
        assert str(error.value).endswith(reason)


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("build_vocab", ("--output=gs://bucket/x",), FILE),
        ("readers", ("--output=gs://bucket/x",), "`--output` must be a file or"),
        (
            "build_records",
            (
                "--vocab_file=missing.txt",
                "--output_dir=records",
                "--report=gs://bucket/x",
            ),
            "`--report` must be a file of this machine or of a shared file system",
        ),
    ],
)
def test_commands_refuse_urls_before_they_read(
    tmp_path, monkeypatch, command, arguments, message
):
    # The inputs are missing, which would be an error if they were read.
    monkeypatch.chdir(tmp_path)
    result = command_calls.call(f"data_pipelines.{command}", *TEXT, *arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Received: 'gs://bucket/x'" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []
