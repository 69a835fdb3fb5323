"""A run that two processes share, on JAX: see `test_jax_engine.py`.

  KERAS_BACKEND=jax JAX_COORDINATOR_ADDRESS=… JAX_NUM_PROCESSES=2 JAX_PROCESS_ID=0 \
      python -m tests.training.jax_pair RECORDS TENSORFLOW OUTPUT

As in `jax_process.py`; what this process came to goes to OUTPUT/PROCESS_ID.
"""

import json
import pathlib
import sys

import numpy as np
import tensorflow as tf

from seg_tf.training import engine
from tests.training import engine_runs, jax_process
from tests.training.stand_ins import validate

NAME, UPDATES = "Sega-Transformer-XL", 6


def main(records, tensorflow, output):
    processes = engine.current().join()
    folder = pathlib.Path(output) / str(processes.rank)
    folder.mkdir()
    learner, _ = jax_process.continued(
        NAME,
        pathlib.Path(records),
        pathlib.Path(tensorflow) / NAME,
        UPDATES,
        processes=processes,
        dropout=True,
    )
    np.savez(folder / "values.npz", **engine_runs.values_of(learner))

    # As many rows on each process as its number says, and a stop for the second alone.
    learner.stop_requested = lambda: processes.rank == 1
    batch = engine_runs.some_rows(NAME, pathlib.Path(records), 1 + processes.rank)
    dataset = tf.data.Dataset.from_tensors(batch)
    validation = validate(learner, dataset)
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
    told = engine_runs.disagreements(
        processes, pathlib.Path(records) / "windows", pathlib.Path(output)
    )
    (folder / "disagreements.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
