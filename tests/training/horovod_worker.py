"""What each process of the tests with Horovod does; see `test_horovod.py`.

horovodrun -np 2 python -m tests.training.horovod_worker RESULTS WORDS SENTENCES

The last two are `word_records` and `sentence_records` of `tests.worlds`.
"""

import contextlib
import dataclasses
import io
import json
import pathlib
import shutil
import sys
from unittest import mock

import numpy as np
import tensorflow as tf

from seg_tf import files
from seg_tf.config import AdamWConfig, LossScaleConfig, RunConfig
from seg_tf.training import build, command, tensorflow_engine
from seg_tf.training.errors import TrainingStopped
from seg_tf.training.step import LaneMemory
from tests.training import engine_runs, word_runs
from tests.training.stand_ins import (
    ArithmeticInputs,
    At,
    as_built,
    make_updates,
    pretrain,
    small_config,
    terminate,
    validate,
)

NUM_UPDATES = 10


def train_config(**training) -> RunConfig:
    """Lengths, predictions and, on two ranks, numbers of rows differ by rank."""
    config = small_config(batch_size=6, micro_batch_size=2, **training)
    return dataclasses.replace(
        config, optimizer=AdamWConfig(learning_rate=1e-3, epsilon=1e-4)
    )


# Several checks train with it, and have one graph.
CONFIG = train_config()
# By the name of the file of their weights.
CONFIGS = {
    "compiled": dataclasses.replace(
        train_config(jit_compile=True, dropout=0.0), optimizer=engine_runs.MUON
    ),
    "plain": CONFIG,  # last, as further checks use its graph
}


def fit(config, processes, inputs=None, updates=NUM_UPDATES):
    """Trains some updates and returns the learner."""
    inputs = inputs or ArithmeticInputs()
    learner = as_built(config, inputs, processes)
    dataset = inputs.train_dataset(
        config.training.batch_size,
        rank=processes.rank,
        num_ranks=processes.size,
        micro_batch_size=config.training.micro_batch_size,
    )
    make_updates(learner, dataset, updates)
    return learner


def validation_loss(learner, processes):
    """The loss that all ranks find together; the second has half of the last rows."""
    batches = ArithmeticInputs().validation_dataset(
        6 * processes.size, rank=processes.rank, num_ranks=processes.size
    )
    return validate(learner, batches)["loss"]


def weights_of(learner) -> list[np.ndarray]:
    return [variable.numpy() for variable in learner.trainable_variables]


class BadInputs(ArithmeticInputs):
    """Samples `first` to `end - 1` have a weight that is not finite."""

    def __init__(self, first, end):
        self._bad = (first, end)

    def _features(self, samples):
        features = super()._features(samples)
        bad = (samples >= self._bad[0]) & (samples < self._bad[1])
        factor = tf.where(bad, np.inf, 1.0)[:, tf.newaxis]
        return {**features, "masked_weights": features["masked_weights"] * factor}


def check_training(processes, folder):
    for name, config in CONFIGS.items():
        learner = fit(config, processes)
        np.savez(folder / f"{name}.npz", *weights_of(learner))
    return validation_loss(learner, processes)


def check_groups(processes, folder):
    # In as many groups as there are gradients, and in fewer, some of several.
    step = as_built(CONFIG, ArithmeticInputs(), processes)._step
    rng = np.random.default_rng(processes.rank)
    gradients = [
        tf.constant(rng.normal(size=one.shape), tf.float32) for one in step.variables
    ]
    options, sums = step.options, {}
    for number in (1, 4, len(gradients)):
        step.options = dataclasses.replace(options, gradient_groups=number)
        sums[number], _ = tf.function(lambda: step._reduce(gradients, 1.0, None))()
    step.options = options
    np.savez(folder / "own_gradients.npz", *gradients)
    for number, arrays in sums.items():
        np.savez(folder / f"sums_{min(number, 5)}.npz", *arrays)
    compressed = processes.sum(gradients, "compressed", as_float16=True)
    np.savez(folder / "sums_compressed.npz", *compressed)


def check_half_precision(processes, folder):
    # Of all types, Horovod has neither sums nor broadcasts of bfloat16.
    memory = LaneMemory({"hidden": tf.zeros([3], tf.bfloat16)})
    memory.own({"lane": tf.constant([[0], [1, 2]][processes.rank])})
    (hidden,) = memory.variables
    hidden.assign(tf.fill([3], tf.cast(1.5 + processes.rank, tf.bfloat16)))
    memory.collect(processes)
    collected = np.asarray(hidden, "float32").tolist()
    hidden.assign(hidden.value + processes.rank)
    processes.broadcast([hidden])
    broadcast = np.asarray(hidden, "float32").tolist()
    return {"dtype": hidden.dtype, "collected": collected, "broadcast": broadcast}


def check_memory(processes, folder):
    # Shares differ, so that each rank has the lanes of its own rows alone.
    learner = fit_words(processes, sys.argv[2])
    learner.memory.collect(processes)
    np.savez(folder / "words.npz", *weights_of(learner))
    np.savez(folder / "memory.npz", *(one.numpy() for one in learner.memory.variables))


def fit_words(processes, records):
    """Trains a model with memory of lanes."""
    training = dataclasses.replace(
        word_runs.CONFIG.training, batch_size=3, micro_batch_size=1
    )
    config = dataclasses.replace(word_runs.CONFIG, training=training)
    inputs = build.build_inputs(config, str(records), processes)
    return fit(config, processes, inputs, updates=8)


def check_overflow(processes, folder):
    # Of the second step, only the rows of the last rank overflow.
    loss_scale = LossScaleConfig(initial=64.0)
    config = train_config(
        dtype_policy="mixed_float16", loss_scale=loss_scale, compress_gradients=True
    )
    learner = fit(config, processes, BadInputs(10, 12), updates=3)
    return {
        "updates": learner.updates,
        "samples": learner.samples,
        "skipped": learner.skipped_steps,
        "loss_scale": float(learner.options.loss_scale.value),
        "loss": learner.interval_results()["loss"],
    }


def _stopped_run(config, inputs, processes, folder, *events):
    learner = as_built(config, inputs, processes)
    try:
        pretrain(folder, config, inputs, *events, learner=learner)
    except TrainingStopped as stop:
        return {
            "updates": learner.updates,
            "message": str(stop),
            # Commands print it once.
            "is_common": stop.is_common,
            # The end of the first process makes the launcher kill the others.
            "curve": (folder.parent / "by-0" / "loss_curve.png").exists(),
        }
    return {"updates": learner.updates}


def check_stop(processes, folder):
    stopped = []
    for signalled in range(processes.size):
        events = [At(3, terminate)] if processes.rank == signalled else []
        own = folder.parent / f"stopped-{signalled}" / f"by-{processes.rank}"
        stopped.append(
            _stopped_run(CONFIG, ArithmeticInputs(), processes, own, *events)
        )
    return stopped


def check_disagreements(processes, folder):
    # What each rank is told, by name, if the second differs from the first.
    records, other = pathlib.Path(sys.argv[3]), folder.parent / "other"
    if processes.is_chief:
        shutil.copytree(records, other)
        manifest = files.read_json(other / "manifest.json")
        manifest["options"]["seed"] += 1
        files.write_json(other / "manifest.json", manifest)
    processes.gather(None)
    told = {}
    for name, settings, records_dir in (
        ("config.training.num_updates", {"num_updates": 77}, records),
        ("records.manifest_checksum", {}, other),
        ("nowhere", {}, folder / "nowhere"),
        ("nothing", {}, records),
    ):
        if processes.is_chief:
            settings, records_dir = {}, records
        options = command.RunOptions(
            records_dir=str(records_dir),
            output_dir=str(folder.parent / "run"),
            dry_run=True,
        )
        errors = io.StringIO()
        with (
            mock.patch.object(build, "build_learner", as_built),
            contextlib.redirect_stderr(errors),
            contextlib.suppress(SystemExit),
        ):
            command.run(engine_runs.config_of("SLM", **settings), options)
        told[name] = errors.getvalue()
    return told


CHECKS = {
    # Of one graph.
    "training": check_training,
    "stop": check_stop,
    "groups": check_groups,
    "half_precision": check_half_precision,
    "memory": check_memory,
    "overflow": check_overflow,
    "disagreements": check_disagreements,
}


def main() -> None:
    results = pathlib.Path(sys.argv[1])
    processes = tensorflow_engine.join()
    folder = results / f"rank-{processes.rank}"
    folder.mkdir(parents=True)
    found = {name: check(processes, folder) for name, check in CHECKS.items()}
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
