"""Results go to file systems: a URL is refused before anything is read or made."""

import pathlib

import pytest

from seg_tf import command_line
from tests import command_calls


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_local_paths_are_accepted_and_urls_refused(folder):
    # One slash, to which `pathlib` reduces two, is no URL; nor is a colon.
    for path in ("a/b", "gs:/b", "/x:y"):
        assert command_line.local_path(path, "page") == pathlib.Path(path)
    for url in ("gs://bucket/x", "S3://bucket", "file:///tmp/x"):
        with pytest.raises(ValueError, match=rf"^`--page` must be a file .*: '{url}'$"):
            command_line.local_path(url, "page", "file")
    (folder / "file").write_text("text")
    (folder / "folder").mkdir()
    for path in ("file", "folder/new"):
        assert command_line.file_path(path, "page") == pathlib.Path(path)
    for path in (".", "a/b/c"):
        assert command_line.folder_path(path) == pathlib.Path(path)


def test_unusable_paths_are_refused(folder):
    (folder / "folder").mkdir()
    (folder / "file").write_text("text")
    for function, values in {
        command_line.file_path: ("", "folder", "new/", "missing/file", "file/file"),
        command_line.folder_path: ("", "file", "file/a/b"),
    }.items():
        for value in values:
            with pytest.raises(ValueError, match=f"^`--page` must name .*'{value}'"):
                function(value, "page")


def test_a_command_refuses_a_url_before_it_reads(folder):
    # The input is missing, which would be reported if it were looked for.
    text = ("--format=json_lines", "--input=missing.jsonl")
    result = command_calls.call("build-vocab", *text, "--output=gs://bucket/x")
    assert result.returncode == 1
    assert "`--output` must be a file of this machine or of a shared" in result.stderr
    assert "Received: 'gs://bucket/x'" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(folder.iterdir()) == []
