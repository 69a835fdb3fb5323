"""Set-up: what it skips, what it makes anew, and what it refuses; installs nothing."""

import json
import subprocess
import sys

import pytest

from tools import set_up


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A folder with three lock files, in the place of the repository."""
    monkeypatch.setattr(set_up, "REPOSITORY", tmp_path)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "run.txt").write_text("a==1\n")
    (tmp_path / "requirements" / "corpora.txt").write_text("a==1\nb==2\n")
    (tmp_path / "requirements" / "dev.txt").write_text("a==1\nb==2\nc==3\n")
    return tmp_path


@pytest.fixture
def installed(monkeypatch):
    """Names of the lock files whose packages were installed."""
    names = []
    monkeypatch.setattr(
        set_up.Environment, "_install", lambda self, lock: names.append(lock.name)
    )
    return names


def make_environment(folder, record):
    """Something that looks like a working environment, with that record."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    if record is not None:
        (folder / "set-up.json").write_text(json.dumps(record))
    return set_up.Environment(folder)


def test_packages_are_installed_once_for_each_lock(repository, installed):
    environment = make_environment(repository / "venv", {"made_here": True})
    environment.ensure_packages("run")
    environment.ensure_packages("run")
    environment.ensure_packages("dev")
    # The packages of `dev` include those of the others.
    environment.ensure_packages("run")
    environment.ensure_packages("corpora")
    assert installed == ["run.txt", "dev.txt"]


def test_a_changed_lock_is_installed_and_horovod_checked_again(repository, installed):
    environment = make_environment(repository / "venv", {"horovod": "abc"})
    environment.ensure_packages("run")
    assert environment.read_record()["horovod"] != "abc"
    environment.write_record({**environment.read_record(), "horovod": "abc"})
    (repository / "requirements" / "run.txt").write_text("a==2\n")
    environment.ensure_packages("run")
    assert installed == ["run.txt", "run.txt"]
    assert environment.read_record()["horovod"] != "abc"


@pytest.mark.parametrize(
    ("code", "error", "mark"),
    [
        # A refusal leaves the environment whole; a kill leaves a mark.
        ("echo no such package >&2; exit 1", "no such package", {}),
        ("kill -9 $$", "SIGKILL", {"unfinished": "run"}),
    ],
)
def test_failures_of_pip(repository, code, error, mark):
    environment = make_environment(repository / "venv", {"made_here": True})
    (repository / ".cache").mkdir()
    # Instead of `-m pip`.
    environment.python.unlink()
    environment.python.write_text(f"#!/bin/sh\n{code}\n")
    environment.python.chmod(0o755)
    with pytest.raises((set_up.SetUpError, subprocess.CalledProcessError), match=error):
        environment.ensure_packages("run")
    assert environment.read_record() == {"made_here": True, **mark}


@pytest.mark.parametrize(
    ("version", "is_supported"),
    [((3, 10, 13), False), ((3, 11, 0), True), ((3, 13, 9), True), ((3, 14), False)],
)
def test_unsupported_python_is_named(version, is_supported):
    if is_supported:
        set_up.check_version(version, "/usr/bin/python")
    else:
        with pytest.raises(set_up.SetUpError, match=r"3\.11 to 3\.13 .*PYTHON="):
            set_up.check_version(version, "/usr/bin/python")


def test_a_half_installed_environment_is_made_anew(repository, monkeypatch):
    record = {"made_here": True, "unfinished": "run"}
    environment = make_environment(repository / "venv", record)
    (environment.folder / "half").touch()
    made = []
    monkeypatch.setattr(subprocess, "check_call", made.append)
    environment.ensure_made()
    assert made == [[sys.executable, "-m", "venv", str(environment.folder)]]
    assert not (environment.folder / "half").exists()
    assert environment.read_record() == {"made_here": True}


def test_an_environment_of_others_is_never_removed(repository, monkeypatch):
    monkeypatch.setattr(subprocess, "check_call", lambda _: pytest.fail("made one"))
    working = make_environment(repository / "theirs", {"unfinished": "run"})
    working.ensure_made()
    assert working.python.exists()
    broken = set_up.Environment(repository / "broken")
    (broken.folder).mkdir()
    (broken.folder / "thesis.txt").touch()
    with pytest.raises(set_up.SetUpError, match="no working virtual environment"):
        broken.ensure_made()
    assert (broken.folder / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("mode", "status", "recorded", "error"),
    [
        pytest.param("auto", 0, True, None, id="built"),
        pytest.param("auto", set_up.NO_COMPILER_STATUS, False, None, id="no_compiler"),
        pytest.param("auto", 1, False, "HOROVOD=skip", id="failed"),
        pytest.param("require", 0, True, None, id="required_and_built"),
        pytest.param(
            "require", set_up.NO_COMPILER_STATUS, False, "not installed", id="required"
        ),
        pytest.param("skip", None, False, None, id="skipped"),
    ],
)
def test_horovod_modes(repository, monkeypatch, mode, status, recorded, error):
    def build(_):
        assert status is not None, "was built"
        return status

    monkeypatch.setattr(subprocess, "call", build)
    environment = make_environment(repository / "venv", {"dev": "abc"})
    if error:
        with pytest.raises(set_up.SetUpError, match=error):
            environment.ensure_horovod(mode)
    else:
        environment.ensure_horovod(mode)
    assert ("horovod" in environment.read_record()) == recorded


def test_one_environment_is_set_up_by_one_process(tmp_path):
    code = f"""
import fcntl, pathlib, time
from tools import set_up
with set_up.only_one(pathlib.Path({str(tmp_path)!r}) / "lock"):
    print("held", flush=True)
    time.sleep(1)
    print("released", flush=True)
"""
    command = [sys.executable, "-c", code]
    cwd = set_up.pathlib.Path(set_up.__file__).parent.parent
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with set_up.only_one(tmp_path / "lock"):
            # The other one wrote this before it let go.
            assert other.stdout.readline() == "released\n"
