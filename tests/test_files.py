"""Results that appear whole, also beside other processes and after kills."""

import multiprocessing
import os
import signal

import pytest

from seg_tf import files

# Tests of one file share no state with others, and these processes compute nothing.
_PROCESSES = multiprocessing.get_context("fork")


def write(folder, content, overwrite=True):
    """Writes a folder of two files, as an exported model is one."""
    with files.written_aside(folder, overwrite=overwrite) as aside:
        aside.mkdir()
        for name in ("graph", "variables"):
            (aside / name).write_text(content)


def read(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def whole(content):
    return {"graph": content, "variables": content}


def killed(function, *arguments):
    """Runs a function in a process that kills itself in it."""
    process = _PROCESSES.Process(target=function, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def write_and_die(folder, before_rename):
    """Dies before one of the renames of `write`; before the block ends, for None."""
    rename, renames = os.replace, []

    def counted(*arguments):
        if len(renames) == before_rename:
            os.kill(os.getpid(), signal.SIGKILL)
        renames.append(rename(*arguments))

    os.replace = counted
    with files.written_aside(folder) as aside:
        aside.mkdir()
        (aside / "graph").write_text("half")
        if before_rename is None:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("before_rename", [None, 0, 1, 2])
@pytest.mark.parametrize("clean", ["write", "check_not_in_use", "remove_leftovers"])
def test_a_kill_loses_no_result(tmp_path, before_rename, clean):
    folder = tmp_path / "model [1]"
    write(folder, "old")
    if before_rename == 2:  # There is no third one: all is done but the clean-up.
        killed(_write_and_die_at_the_end, folder)
        expected = whole("new")
    else:
        killed(write_and_die, folder, before_rename)
        expected = whole("old")
    assert folder.exists() == (before_rename != 1)
    if clean == "write":
        with pytest.raises(ValueError, match="must be new"):
            write(folder, "newer", overwrite=False)
    elif clean == "check_not_in_use":
        files.check_not_in_use(folder)
    else:
        files.remove_leftovers(tmp_path)
    assert read(folder) == expected
    assert names(tmp_path) == ["model [1]"]
    write(folder, "newer")
    assert read(folder) == whole("newer")
    assert names(tmp_path) == ["model [1]"]


def _write_and_die_at_the_end(folder):
    files._discard = lambda aside: os.kill(os.getpid(), signal.SIGKILL)
    write(folder, "new")


@pytest.mark.parametrize("overwrite", [False, True])
def test_of_two_writers_one_is_refused(tmp_path, overwrite):
    folder = tmp_path / "model"
    with files.written_aside(folder, overwrite=overwrite) as aside:
        aside.mkdir()
        for refused in (
            lambda: write(folder, "other", overwrite),
            lambda: files.check_not_in_use(folder),
        ):
            with pytest.raises(ValueError, match=r"in use.*model, which another"):
                refused()
        (aside / "graph").write_text("first")
    assert read(folder) == {"graph": "first"}
    assert names(tmp_path) == ["model"]
    write(folder, "second", overwrite=True)
    assert read(folder) == whole("second")


def _write_many(folder, content, overwrite, start, outcomes):
    start.wait()
    try:
        write(folder, content, overwrite)
        outcomes.put(content)
    except ValueError as error:
        outcomes.put(f"refused: {error}")


@pytest.mark.parametrize("overwrite", [False, True])
def test_of_many_processes_results_are_never_mixed(tmp_path, overwrite):
    folder = tmp_path / "model"
    start, outcomes = _PROCESSES.Event(), _PROCESSES.Queue()
    processes = [
        _PROCESSES.Process(
            target=_write_many, args=(folder, str(number), overwrite, start, outcomes)
        )
        for number in range(12)
    ]
    for process in processes:
        process.start()
    start.set()
    found = [outcomes.get() for _ in processes]
    for process in processes:
        process.join()
    written = [content for content in found if not content.startswith("refused")]
    assert len(written) == 1 or (overwrite and written)
    assert len(written) + sum("Received: " in content for content in found) == 12
    assert read(folder) in map(whole, written)
    assert names(tmp_path) == ["model"]


def test_a_link_under_the_name_of_what_is_unfinished_is_not_followed(tmp_path):
    other = tmp_path / "other"
    other.write_text("stays")
    for name in (".aside-a", ".aside-a.lock"):
        (tmp_path / name).symlink_to(other)
    with pytest.raises(OSError, match=r"a\.lock"):
        files.write_text(tmp_path / "a", "content")
    (tmp_path / ".aside-a.lock").unlink()
    files.write_text(tmp_path / "a", "content")
    assert other.read_text() == "stays"


def test_written_aside_replaces_only_on_success(tmp_path):
    path = tmp_path / "x.json"
    files.write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        files.write_json(path, {"a": object()})
    assert files.read_json(path) == {"a": 1}
    assert names(tmp_path) == ["x.json"]
    path.write_text('{"a": 1,\n "b" 2}')
    with pytest.raises(ValueError, match=r"x\.json:2:6: not valid JSON"):
        files.read_json(path)
