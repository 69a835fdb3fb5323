"""`horovodrun … run_pretraining.py`: killed and stopped.

The tests are one run in one folder: each takes up what the one before left, and the
last compares its end with a run that nothing disturbed.
"""

import contextlib
import os
import pathlib
import re
import signal
import sys

import numpy as np
import psutil
import pytest

from seg_tf.training.checkpoint import Checkpoints
from tests import command_calls, scripted_runs
from tests.scripted_runs import arguments_of, log_of, read_until, run_here, variables_of

pytestmark = pytest.mark.slow

pytest.importorskip("horovod", reason="Horovod is not installed")

HOROVODRUN = pathlib.Path(sys.executable).parent / "horovodrun"
# So many that no test sees the end of the run before it has done what it does.
NUM_UPDATES = 120
# The same micro-batches whichever ranks take them, so also the same dropout.
SHARED = (
    "--config.training.batch_size=6",
    "--config.training.micro_batch_size=1",
    f"--config.training.num_updates={NUM_UPDATES}",
    "--config.training.validation_interval=50",
    "--config.training.checkpoint_interval=20",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The output folder of the run."""
    return tmp_path_factory.mktemp("run")


@pytest.fixture
def start(records, folder):
    """Starts processes that take the run up."""
    started = []

    def start_processes(*launcher):
        command = [HOROVODRUN, "--gloo", *launcher]
        process = scripted_runs.start(records, folder, *SHARED, launcher=command)
        started.append(process)
        return process

    yield start_processes
    for process in started:
        kill_all(process, folder)


def workers(folder):
    """The processes that train into a folder, in the order of their first ranks."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            is_python = command[2:4] == ["tests.quick_script", "run_pretraining.py"]
            if is_python and f"--output_dir={folder}" in command:
                rank = int(process.environ()["HOROVOD_RANK"])
                found.append((rank, process.pid, process))
    return [process for _, _, process in sorted(found)]


def kill_all(process, folder):
    """Kills what `start` started, the launcher first."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    left = workers(folder)
    for worker in left:
        worker.kill()
    process.communicate()
    psutil.wait_procs(left)


def saved_updates(folder):
    """Updates of the newest checkpoint."""
    return max(Checkpoints(folder / "checkpoints", keep=1).updates(), default=0)


def test_killed_rank_ends_the_run(folder, start):
    process = start("-np", "3")
    read_until(process, f"update 5/{NUM_UPDATES}")
    workers(folder)[1].kill()
    # Whichever rank notices first.
    assert re.search(r"Rank \d of", read_until(process, "Run the same command again"))
    _, errors = process.communicate(timeout=120)
    of_ranks = [line for line in errors.splitlines() if line.startswith("[")]
    assert not [line for line in of_ranks if "Traceback" in line]
    assert process.returncode != 0


def test_signal_to_another_rank_leaves_a_checkpoint(folder, start):
    before = saved_updates(folder)
    process = start("-np", "2")
    read_until(process, f"update {before // 5 * 5 + 5}/{NUM_UPDATES}")
    (folder / "loss_curve.png").unlink(missing_ok=True)
    workers(folder)[1].terminate()
    _, errors = process.communicate(timeout=300)
    assert process.returncode != 0
    (line,) = [line for line in errors.splitlines() if "Stopped by SIGTERM" in line]
    updates = int(re.search(rf"after update (\d+) of {NUM_UPDATES}", line).group(1))
    assert before < updates == saved_updates(folder) < NUM_UPDATES
    assert (folder / f"checkpoints/update-{updates:08d}/state.json").exists()
    # Drawn before the first process left, whose end makes the launcher kill the others.
    command_calls.check_image(folder / "loss_curve.png")
    assert "Traceback" not in errors.split("Stopped by SIGTERM")[0]


def test_one_process_ends_the_run_as_if_nothing_had_happened(records, folder, tmp_path):
    if not saved_updates(folder):
        pytest.skip("ends the run of the tests above")
    code, output, errors = run_here(*arguments_of(records, folder, *SHARED))
    assert code == 0, errors
    assert "Resuming from" in output
    code, _, errors = run_here(*arguments_of(records, tmp_path, *SHARED))
    assert code == 0, errors
    # Row for row the same log: so, the same samples. The first row that differs says
    # which of the tests above the run was in.
    assert len(log_of(folder)) == len(log_of(tmp_path))
    for ours, theirs in zip(log_of(folder), log_of(tmp_path), strict=True):
        assert ours.pop("kind") == theirs.pop("kind")
        assert ours == pytest.approx(theirs, rel=1e-4)
    last = pathlib.Path("checkpoints", f"update-{NUM_UPDATES:08d}")
    ours, theirs = variables_of(folder / last), variables_of(tmp_path / last)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(
            value, theirs[name], rtol=1e-4, atol=1e-4, err_msg=name
        )
