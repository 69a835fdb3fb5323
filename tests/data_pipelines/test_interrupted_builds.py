"""Builds that were stopped go on to the same bytes."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from data_pipelines import BuildError
from data_pipelines.builds import makers
from data_pipelines.builds.makers import SliceMaker
from tests import command_calls, full_disks
from tests.data_pipelines.small_corpus import (
    build,
    command,
    contents,
    interrupted,
    noted,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("fail_after", [0, 1, 4])
def test_bytes_are_the_same_after_an_interrupted_build(
    corpus, built, tmp_path, fail_after
):
    with interrupted(SliceMaker, fail_after):
        build(corpus, tmp_path)
    with noted(SliceMaker) as made:
        build(corpus, tmp_path)
    assert made[0] == fail_after  # What was finished is not done again.
    assert contents(tmp_path) == contents(built)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_build_goes_on_to_the_same_bytes(corpus, built, tmp_path, number):
    arguments = command(corpus, tmp_path, "--num_workers=2")
    with open(tmp_path / "errors.txt", "w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "seg_tf", *arguments],
            cwd=command_calls.REPOSITORY,
            stderr=errors,
            start_new_session=True,
        )
        progress = tmp_path / "documents" / ".progress"
        wait_until(lambda: list(progress.glob("task-*")))
        # Two workers, the server that starts them, and what tracks semaphores.
        assert len(processes_of_session(process.pid)) >= 4
        # Nobody tells the others.
        process.send_signal(number)
        process.wait()
        wait_until(lambda: not processes_of_session(process.pid))
        errors.seek(0)
        said = errors.read()
    (tmp_path / "errors.txt").unlink()
    if number == signal.SIGTERM:
        assert process.returncode == 128 + signal.SIGTERM
        assert "terminated. Run the same command again to continue" in said
        assert "Traceback" not in said
    assert not (tmp_path / "manifest.json").exists()
    finished = command_calls.call(*command(corpus, tmp_path, "--num_workers=1"))
    assert finished.returncode == 0, finished.stderr
    assert contents(tmp_path) == contents(built)
    assert "120 documents" not in finished.stderr
    assert "malformed_json" in finished.stdout


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def processes_of_session(session):
    """The processes that a process started as the first of a session, and itself."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getsid(process.pid) == session and (
                process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process.pid)
    return found


class DeadlyMaker:
    """Kills its process."""

    def __init__(self, options, duplicates):
        del options, duplicates

    def make(self, payload, folder):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_dead_worker_is_reported_and_the_build_goes_on(
    corpus, built, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(makers, "SliceMaker", DeadlyMaker)
        with pytest.raises(BuildError, match="a worker process died"):
            build(corpus, tmp_path, num_workers=2)
    build(corpus, tmp_path)
    assert contents(tmp_path) == contents(built)


def test_a_full_disk_is_reported_and_the_build_goes_on(corpus, built, tmp_path):
    with full_disks.largest_file(1500):
        code, _, errors = command_calls.call(*command(corpus, tmp_path))
    assert code == 1
    assert "could not be written" in errors, errors
    assert "Traceback" not in errors
    assert not list(tmp_path.rglob(".aside-*"))
    assert not (tmp_path / "documents" / "manifest.json").exists()
    build(corpus, tmp_path)
    assert contents(tmp_path) == contents(built)
