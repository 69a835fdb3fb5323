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
    ("mode", "status", "error"),
    [
        ("auto", 0, None),
        ("auto", set_up.NO_COMPILER_STATUS, None),
        ("auto", 1, "HOROVOD=skip"),
        ("require", 0, None),
        ("require", set_up.NO_COMPILER_STATUS, "not installed"),
        ("skip", None, None),
    ],
)
def test_horovod_modes(repository, monkeypatch, mode, status, error):
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
    assert ("horovod" in environment.read_record()) == (status == 0)
