"""Runs on JAX, in a process, which has one Keras backend: see `test_jax_engine.py`.

  KERAS_BACKEND=jax python -m tests.training.jax_process RECORDS TENSORFLOW JAX

RECORDS holds the folders of records that `engine_runs.RUNS` names, TENSORFLOW one for
each run with a checkpoint of no updates, from which the run in JAX begins. Values of
runs that were resumed and shared by devices go to JAX/KIND.npz. As one of two
processes, by the environment, this one shares a run, whose values go to
JAX/PROCESS_ID.
"""

import contextlib
import json
import os
import pathlib
import sys

import jax
import numpy as np
import tensorflow as tf

from seg_tf.config import LossScaleConfig
from seg_tf.training import engine, step_jax
from seg_tf.training.errors import NonFiniteLossError
from tests.training import engine_runs, stand_ins

DEVICES = 2


def use_devices(number):
    """Has what is built from now on compute on the first devices."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:number]), ("rows",))
    step_jax.mesh = lambda: mesh


def continued(name, records, folder, updates, processes=None, **changes):
    """A learner that made updates from the checkpoint in `folder`, and their loss.

    And a function that makes more updates, and returns their loss.
    """
    with stand_ins.no_draws():
        inputs, learner = engine_runs.build_run(name, records, processes, **changes)
    engine_runs.checkpoints(folder).restore(learner, 0)
    batch_size = engine_runs.config_of(name, **changes).training.batch_size

    def train(updates):
        return engine_runs.make_updates(inputs, learner, updates, batch_size)

    return learner, train(updates), train


def skipped_steps():
    """Results of a run whose loss overflows until its scale is small enough.

    And then of one with a weight that is no number, which ends.
    """
    config = stand_ins.small_config(
        micro_batch_size=2,
        dtype_policy="mixed_float16",
        compress_gradients=True,
        loss_scale=LossScaleConfig(initial=2.0**40, growth_interval=100),
        max_skipped_steps=30,
    )
    with stand_ins.no_draws():
        learner = stand_ins.small_learner(config)
    batches = iter(stand_ins.ArithmeticInputs().train_dataset(4))
    learner.make_update(batches)
    found = {
        "skipped": learner.skipped_steps,
        "scale": float(learner.options.loss_scale.value),
        "samples": learner.samples,
    }
    weights = learner.trainable_variables
    weights[0].assign(np.full(weights[0].shape, np.nan))
    before = [np.array(one.value) for one in weights]
    with contextlib.suppress(NonFiniteLossError):
        learner.make_update(batches)
    found["updates"] = learner.updates
    found["weights_stay"] = all(
        np.array_equal(one.value, value, equal_nan=True)
        for one, value in zip(weights, before, strict=True)
    )
    return found


def share_a_run(records, tensorflow, output):
    """Trains as one of two processes."""
    processes = engine.current().join()
    folder = output / str(processes.rank)
    folder.mkdir()
    name = "Sega-Transformer-XL"
    learner, *_ = continued(
        name, records, tensorflow / name, 6, processes, dropout=True
    )
    np.savez(folder / "values.npz", **engine_runs.values_of(learner))

    # As many rows on each process as its number says, and a stop for the second alone.
    learner.stop_requested = lambda: processes.rank == 1
    batch = engine_runs.some_rows(name, records, 1 + processes.rank)
    dataset = tf.data.Dataset.from_tensors(batch)
    validation = stand_ins.validate(learner, dataset)
    bias = learner.trainable_variables[-1]
    bias.assign(np.full(bias.shape, processes.rank, "float32"))
    processes.broadcast([bias])
    found = {
        "size": processes.size,
        "gathered": processes.gather(["x" * processes.rank]),
        "flags": learner.stop_agreed,
        "validation": validation["loss"],
        "broadcast": float(np.abs(np.asarray(bias.value)).max()),
    }
    (folder / "found.json").write_text(json.dumps(found))


def compute_runs(records, tensorflow, output):
    losses = {}
    use_devices(1)
    for name in engine_runs.RUNS:
        learner, losses[name], _ = continued(
            name, records, tensorflow / name, engine_runs.UPDATES
        )
        engine_runs.save(learner, output / name)
        jax.clear_caches()  # programs take memory

    # Dropout is a function of the samples: it is the same after a restart, and on
    # whichever device.
    name = "Sega-Transformer-XL"
    learner, _, train = continued(name, records, tensorflow / name, 3, dropout=True)
    engine_runs.save(learner, output / "half")
    train(3)
    np.savez(output / "whole.npz", **engine_runs.values_of(learner))
    engine_runs.checkpoints(output / "half").restore(learner, 3)
    train(3)
    np.savez(output / "resumed.npz", **engine_runs.values_of(learner))
    use_devices(DEVICES)
    shared, *_ = continued(name, records, tensorflow / name, 6, dropout=True)
    np.savez(output / "shared.npz", **engine_runs.values_of(shared))
    found = {"losses": losses, "skipped_steps": skipped_steps()}
    (output / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    compute = share_a_run if "JAX_PROCESS_ID" in os.environ else compute_runs
    compute(*map(pathlib.Path, sys.argv[1:]))
