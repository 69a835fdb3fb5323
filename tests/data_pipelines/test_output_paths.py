"""Results go to file systems: a URL is refused before anything is read or made."""

import pytest

from seg_tf import output_paths
from tests import command_calls

TEXT = ("--format=json_lines", "--input=missing.jsonl")
FILE = "`--output` must be a file of this machine or of a shared file system"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "function, value, reason",
    [
        (output_paths.file_path, "", "Received: '', which is no name"),
        (output_paths.file_path, "folder", "Received: folder, which is a folder"),
        (output_paths.file_path, "new/", "Received: new/, which ends as a folder does"),
        (output_paths.file_path, "missing/file", "whose folder does not exist"),
        (output_paths.file_path, "file/file", "whose folder does not exist"),
        (output_paths.folder_path, "", "Received: '', which is no name"),
        (output_paths.folder_path, "file", "Received: file, and file is a file"),
        (output_paths.folder_path, "file/a/b", "/file is a file"),
    ],
)
def test_unusable_paths_are_refused(folder, function, value, reason):
    (folder / "folder").mkdir()
    (folder / "file").write_text("text")
    with pytest.raises(ValueError, match=r"^`--page` must name a f") as error:
        function(value, "page")
    assert str(error.value).endswith(reason)


@pytest.mark.parametrize(
    "script, arguments, message",
    [
        ("build_vocab", (*TEXT, "--output=gs://bucket/x"), FILE),
        ("readers", (*TEXT, "--output=gs://bucket/x"), FILE),
    ],
)
def test_commands_refuse_urls_before_they_read(folder, script, arguments, message):
    # The inputs are missing, which would be reported if they were looked for.
    result = command_calls.call(f"data_pipelines.{script}", *arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Received: 'gs://bucket/x'" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(folder.iterdir()) == []
