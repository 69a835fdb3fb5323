"""Runs on JAX beside the same on TensorFlow, from the same checkpoints."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.training import engine_runs, jax_process

pytestmark = pytest.mark.slow

each_run = pytest.mark.parametrize("name", list(engine_runs.RUNS))


@pytest.fixture(scope="module")
def records(sentence_records, word_records):
    """The folder of the records of all runs."""
    assert sentence_records.parent == word_records.parent
    return word_records.parent


@pytest.fixture(scope="module")
def tensorflow(records, tmp_path_factory):
    """Losses and values after the updates of each run, and its folders."""
    folder = tmp_path_factory.mktemp("engines")
    found = {}
    for name in engine_runs.RUNS:
        inputs, learner = engine_runs.build_run(name, records)
        engine_runs.save(learner, folder / "tensorflow" / name)
        batch_size = engine_runs.config_of(name).training.batch_size
        loss = engine_runs.make_updates(
            inputs, learner, engine_runs.UPDATES, batch_size
        )
        found[name] = learner, loss, engine_runs.values_of(learner)
    return folder, found


def start(*folders, **environment):
    """Starts a process on JAX."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.jax_process", *map(str, folders)],
        env={
            **os.environ,
            "KERAS_BACKEND": "jax",
            "JAX_PLATFORMS": "cpu",
            **environment,
        },
    )


@pytest.fixture(scope="module")
def jax(records, tensorflow):
    """The folder of what the same runs on JAX wrote."""
    folder, _ = tensorflow
    (folder / "jax").mkdir()
    devices = f"--xla_force_host_platform_device_count={jax_process.DEVICES}"
    flags = f"{os.environ['XLA_FLAGS']} {devices}"
    folders = (records, folder / "tensorflow", folder / "jax")
    assert start(*folders, XLA_FLAGS=flags).wait(timeout=900) == 0
    return folder / "jax"


@pytest.fixture(scope="module")
def pair(records, tensorflow):
    """Folders of what two processes wrote that shared a run."""
    folder, _ = tensorflow
    (folder / "pair").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    processes = [
        start(
            *(records, folder / "tensorflow", folder / "pair"),
            JAX_COORDINATOR_ADDRESS=address,
            JAX_NUM_PROCESSES="2",
            JAX_PROCESS_ID=str(number),
        )
        for number in range(2)
    ]
    assert [process.wait(timeout=900) for process in processes] == [0, 0]
    return [folder / "pair" / str(number) for number in range(2)]


@each_run
def test_updates_on_jax_equal_those_on_tensorflow(name, tensorflow, jax):
    _, runs = tensorflow
    learner, loss, expected = runs[name]
    stored = engine_runs.checkpoints(jax / name)
    stored.restore(learner, engine_runs.UPDATES)
    assert learner.updates == engine_runs.UPDATES
    for key, value in engine_runs.values_of(learner).items():
        np.testing.assert_allclose(value, expected[key], atol=1e-5, err_msg=key)
    losses = json.loads((jax / "found.json").read_text())["losses"]
    assert losses[name] == pytest.approx(loss, rel=1e-5)


def test_steps_that_are_not_finite_change_nothing_but_the_loss_scale(jax):
    found = json.loads((jax / "found.json").read_text())["skipped_steps"]
    skipped = found["skipped"]
    assert 0 < skipped < 30
    assert found["scale"] == 2.0 ** (40 - skipped)
    assert found["samples"] == 4 * (skipped + 1)
    assert (found["updates"], found["weights_stay"]) == (1, True)


@pytest.mark.parametrize("kind", ["resumed", "shared"])
def test_a_run_on_jax_does_not_depend_on(kind, jax):
    with np.load(jax / "whole.npz") as whole, np.load(jax / f"{kind}.npz") as other:
        assert whole.files == other.files
        for name in whole.files:
            if kind == "resumed":
                np.testing.assert_array_equal(other[name], whole[name], err_msg=name)
            else:  # sums over devices are rounded in another order
                np.testing.assert_allclose(
                    other[name], whole[name], atol=1e-6, err_msg=name
                )


def test_two_processes_train_as_one_does_dropout_included(jax, pair):
    first, second = (np.load(folder / "values.npz") for folder in pair)
    with np.load(jax / "whole.npz") as whole:
        assert first.files == whole.files
        for name in whole.files:
            np.testing.assert_array_equal(first[name], second[name], err_msg=name)
            np.testing.assert_allclose(
                first[name], whole[name], atol=1e-6, err_msg=name
            )


def test_two_processes_agree_on_flags_objects_and_validations(pair):
    first, second = (json.loads((one / "found.json").read_text()) for one in pair)
    assert first == second
    assert first["size"] == 2
    assert first["gathered"] == [[""], ["x"]]
    assert first["flags"] is True
    assert first["broadcast"] == 0
    assert np.isfinite(first["validation"])
