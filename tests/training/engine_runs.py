"""Small runs, as both engines make them.

`tests/conformance` compares every model on both.
"""

import dataclasses
import pathlib

import keras

from seg_tf.config import LambConfig, MuonConfig
from seg_tf.training import build, checkpoint
from seg_tf.training.checkpoint import Checkpoints
from tests.training import stand_ins, test_sentence_unshuffling_run, word_runs

UPDATES = 5
SLM = test_sentence_unshuffling_run.CONFIG
RECOMPUTED = dataclasses.replace(
    word_runs.CONFIG,
    optimizer=LambConfig(learning_rate=1e-3, warmup_updates=1),
    training=dataclasses.replace(word_runs.CONFIG.training, recompute_layers=True),
)
MUON = MuonConfig(learning_rate=1e-3, matrix_learning_rate=1e-2, warmup_updates=1)
MODERN = dataclasses.replace(
    SLM,
    model=dataclasses.replace(
        SLM.model,
        trunk="modern",
        rotary_shares={"position_index": 1, "sentence_index": 1},
        local_window=6,
        global_every=2,
        layer_norm_epsilon=1e-6,
    ),
    optimizer=MUON,
)
# Config, and the fixture of its records, whose folder has the same name.
RUNS = {
    "SLM": (MODERN, "sentence_records"),
    "Sega-Transformer-XL": (RECOMPUTED, "word_records"),
}


def config_of(name, dropout=False, **training):
    """The config of a run; without dropout, both engines compute the same."""
    config, _ = RUNS[name]
    if not dropout:
        rates = {
            field.name: 0.0
            for field in dataclasses.fields(config.model)
            if field.name in ("dropout", "attention_dropout")
        }
        config = dataclasses.replace(
            config, model=dataclasses.replace(config.model, **rates)
        )
    settings = dataclasses.replace(config.training, **training)
    return dataclasses.replace(config, training=settings)


def build_run(name, records, processes=None, **changes):
    """Inputs and learner of a run."""
    config = config_of(name, **changes)
    inputs = build.build_inputs(config, str(records / RUNS[name][1]), processes)
    return inputs, build.build_learner(config, inputs, processes)


def some_rows(name, records, number):
    """The first rows of a run."""
    config = config_of(name)
    inputs = build.build_inputs(config, str(records / RUNS[name][1]))
    batch = next(iter(inputs.train_dataset(config.training.batch_size)))
    return {key: value[:number] for key, value in batch.items()}


def make_updates(inputs, learner, number, batch_size):
    """Makes updates from where the learner is; returns the loss over all of them."""
    processes = learner.options.distribution
    dataset = inputs.train_dataset(
        batch_size,
        first_sample=learner.samples,
        rank=processes.rank,
        num_ranks=processes.size,
    )
    learner.reset_interval()
    stand_ins.make_updates(learner, dataset, number)
    return learner.interval_results()["loss"]


def checkpoints(folder):
    return Checkpoints(pathlib.Path(folder), keep=10, report=str)


def save(learner, folder):
    """Writes the checkpoint of the updates done, in `folder`."""
    return checkpoints(folder).save(
        learner, updates=learner.updates, samples=learner.samples
    )


def values_of(learner):
    """Weights, optimizer, counters and memory of lanes, as arrays by number."""
    metrics = {id(one) for one in learner.counters}
    return {
        str(number): keras.ops.convert_to_numpy(variable)
        for number, variable in enumerate(checkpoint.all_variables(learner))
        if "seed_generator" not in variable.path and id(variable) not in metrics
    }
