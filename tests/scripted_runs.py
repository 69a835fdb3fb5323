"""Runs `run_pretraining.py` on the tiny records of `tests.worlds`."""

import contextlib
import subprocess
import sys
from unittest import mock

import h5py
import keras
import numpy as np

from seg_tf.training import build, run_folder, throughput
from tests import command_calls
from tests.command_calls import REPOSITORY
from tests.training import stand_ins
from tests.worlds import LENGTH

CONFIG = (
    "--config=configs/segabert.py:tiny",
    f"--config.inputs.window_length={LENGTH}",
    "--config.inputs.masking.max_predictions=4",
    "--config.model.num_layers=1",
    "--config.model.hidden_size=16",
    "--config.model.intermediate_size=32",
    "--config.optimizer.learning_rate=1e-3",
    "--config.optimizer.warmup_updates=1",
    "--config.training.num_updates=60",
    "--config.training.batch_size=4",
    "--config.training.log_interval=5",
    "--config.training.validation_interval=20",
    "--config.training.validation_batches=2",
    "--config.training.checkpoint_interval=7",
)


def arguments_of(records, folder, *arguments):
    """A tiny run's flags, then further ones, which override them."""
    where = (f"--records_dir={records}", f"--output_dir={folder}")
    return [*CONFIG, *where, *map(str, arguments)]


def run_here(*arguments):
    """Runs the script in this process; returns (exit code, stdout, stderr).

    Runs of the same config share their graphs.
    """
    # Variables are called as in a process of its own.
    keras.utils.clear_session(free_memory=False)
    shared = mock.patch.object(build, "build_learner", stand_ins.as_built)
    with contextlib.chdir(REPOSITORY), shared:
        finished = command_calls.call("run_pretraining.py", *arguments)
    assert "Traceback" not in finished.stderr
    return finished


def start(records, folder, *arguments, launcher=()):
    """Starts the script, below a launcher if there is one; its pipes are text."""
    command = [*map(str, launcher), sys.executable, "run_pretraining.py"]
    command += arguments_of(records, folder, *arguments)
    return subprocess.Popen(
        command,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def read_until(process, text):
    """Reads what a process prints as errors up to a line with a text; returns it."""
    read = []
    for line in process.stderr:
        read.append(line)
        if text in line:
            return line
    process.communicate()
    raise AssertionError(f"ended before it wrote {text!r}: {''.join(read)}")


def variables_of(folder):
    """Every array of a checkpoint by name, random state and optimizer included."""
    with np.load(folder / "training_state.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    with h5py.File(folder / "encoder.weights.h5") as file:
        file.visititems(
            lambda name, item: (
                arrays.__setitem__(name, item[()])
                if isinstance(item, h5py.Dataset)
                else None
            )
        )
    return arrays


def log_of(folder):
    rows = run_folder.read_log(folder / "log.jsonl")
    return [
        {name: value for name, value in row.items() if name not in throughput.FIGURES}
        for row in rows
    ]
