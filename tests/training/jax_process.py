"""Runs on JAX, in a process, which has one Keras backend: see `test_jax_engine.py`.

  KERAS_BACKEND=jax python -m tests.training.jax_process RECORDS TENSORFLOW JAX

RECORDS is the folder of `engine_runs.write_records`. TENSORFLOW has a folder for each
run with a checkpoint of no updates, from which the run in JAX begins.
What runs that were resumed and shared by devices came to goes to JAX/KIND.npz.
"""

import json
import pathlib
import sys

import jax
import numpy as np

from seg_tf.training import jax_step
from tests.training import engine_runs

DEVICES = 2


def use_devices(number):
    """Has what is built from now on compute on the first devices."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:number]), ("rows",))
    jax_step.mesh = lambda: mesh


def continued(name, records, folder, updates, **changes):
    """A pretrainer that made updates from the newest checkpoint in `folder`."""
    inputs, pretrainer = engine_runs.build(name, records, **changes)
    stored = engine_runs.checkpoints(folder)
    stored.restore(pretrainer, stored.updates()[-1])
    batch_size = engine_runs.config_of(name, **changes).training.batch_size
    loss = engine_runs.make_updates(inputs, pretrainer, updates, batch_size)
    return pretrainer, loss


def main(records, tensorflow, output):
    records, tensorflow, output = map(pathlib.Path, (records, tensorflow, output))
    losses = {}
    use_devices(1)
    for name in engine_runs.RUNS:
        pretrainer, losses[name] = continued(
            name, records, tensorflow / name, engine_runs.UPDATES
        )
        engine_runs.save(pretrainer, output / name)

    # Dropout is a function of the samples: it is the same after a restart, and on
    # whichever device.
    name = "Sega-Transformer-XL"
    whole, _ = continued(name, records, tensorflow / name, 6, dropout=True)
    half, _ = continued(name, records, tensorflow / name, 3, dropout=True)
    engine_runs.save(half, output / "half")
    resumed, _ = continued(name, records, output / "half", 3, dropout=True)
    use_devices(DEVICES)
    shared, _ = continued(name, records, tensorflow / name, 6, dropout=True)
    for kind, pretrainer in (
        ("whole", whole),
        ("resumed", resumed),
        ("shared", shared),
    ):
        np.savez(output / f"{kind}.npz", **engine_runs.values_of(pretrainer))
    (output / "losses.json").write_text(json.dumps(losses))


if __name__ == "__main__":
    main(*sys.argv[1:])
