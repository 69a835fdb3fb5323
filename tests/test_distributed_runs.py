"""`horovodrun … run_pretraining.py`, killed; `training/test_horovod.py` has signals."""

import contextlib
import os
import pathlib
import re
import signal
import sys

import numpy as np
import psutil
import pytest

from tests import scripted_runs
from tests.scripted_runs import arguments_of, log_of, read_until, run_here, variables_of

pytestmark = pytest.mark.slow

pytest.importorskip("horovod", reason="Horovod is not installed")

HOROVODRUN = pathlib.Path(sys.executable).parent / "horovodrun"
# So many that the run has not ended when it is killed.
NUM_UPDATES = 80
# The same micro-batches whichever ranks take them, so also the same dropout.
SHARED = (
    "--config.training.batch_size=6",
    "--config.training.micro_batch_size=1",
    f"--config.training.num_updates={NUM_UPDATES}",
    "--config.training.validation_interval=10",
    "--config.training.checkpoint_interval=20",
)


def workers(folder):
    """The processes that train into a folder, in the order of their first ranks."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            is_script = command[1:2] == ["run_pretraining.py"]
            if is_script and f"--output_dir={folder}" in command:
                rank = int(process.environ()["HOROVOD_RANK"])
                found.append((rank, process.pid, process))
    return [process for _, _, process in sorted(found)]


def kill_all(process, folder):
    """Kills a launcher, then what it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    left = workers(folder)
    for worker in left:
        worker.kill()
    process.communicate()
    psutil.wait_procs(left)


@pytest.fixture
def process(records, tmp_path):
    """Two ranks that train into `tmp_path / "killed"`."""
    folder = tmp_path / "killed"
    launcher = [HOROVODRUN, "--gloo", "-np", "2"]
    process = scripted_runs.start(records, folder, *SHARED, launcher=launcher)
    yield process
    kill_all(process, folder)


def test_killed_rank_ends_the_run_and_one_process_takes_it_up(
    records, process, tmp_path
):
    folder, unbroken = tmp_path / "killed", tmp_path / "unbroken"
    read_until(process, f"update 25/{NUM_UPDATES}")
    workers(folder)[1].kill()
    # Whichever rank notices first.
    assert re.search(r"Rank \d of", read_until(process, "Run the same command again"))
    _, errors = process.communicate(timeout=120)
    of_ranks = [line for line in errors.splitlines() if line.startswith("[")]
    assert not [line for line in of_ranks if "Traceback" in line]
    assert process.returncode != 0

    code, output, errors = run_here(*arguments_of(records, folder, *SHARED))
    assert code == 0, errors
    assert "Resuming from" in output
    code, _, errors = run_here(*arguments_of(records, unbroken, *SHARED))
    assert code == 0, errors
    # Row for row the same log: so, the same samples.
    assert len(log_of(folder)) == len(log_of(unbroken))
    for ours, theirs in zip(log_of(folder), log_of(unbroken), strict=True):
        assert ours.pop("kind") == theirs.pop("kind")
        assert ours == pytest.approx(theirs, rel=1e-4)
    last = pathlib.Path("checkpoints", f"update-{NUM_UPDATES:08d}")
    ours, theirs = variables_of(folder / last), variables_of(unbroken / last)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(
            value, theirs[name], rtol=1e-4, atol=1e-4, err_msg=name
        )
