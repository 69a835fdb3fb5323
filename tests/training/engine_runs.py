"""Small runs of every model, as both engines make them."""

import dataclasses
import pathlib

import keras

from seg_tf import configuration
from seg_tf.training import pretraining, training_state
from seg_tf.training.checkpoint import Checkpoints
from tests.training import (
    test_reat_run,
    test_sentence_unshuffling_run,
    word_runs,
)

UPDATES = 10
SLM = test_sentence_unshuffling_run.CONFIG
WINDOW_LENGTH = test_sentence_unshuffling_run.WINDOW_LENGTH
SEGABERT = dataclasses.replace(
    SLM,
    model=dataclasses.replace(
        SLM.model,
        index_tables={"paragraph_index": 4, "sentence_index": 8, "token_index": 16},
    ),
    inputs=configuration.WindowInputsConfig(
        window_length=WINDOW_LENGTH,
        masking=configuration.MaskingConfig(max_predictions=8),
    ),
    objectives={"masked_lm": configuration.MaskedLMConfig()},
    optimizer=configuration.LambConfig(learning_rate=1e-3, warmup_updates=1),
)
# Config, and the folder of its records below that of `write_records`.
RUNS = {
    "SegaBERT, LAMB": (SEGABERT, "windows"),
    "SLM": (SLM, "windows"),
    "Sega-Transformer-XL": (word_runs.CONFIG, "words"),
    "ReAT": (test_reat_run.CONFIG, "long"),
}


def write_records(folder):
    """The records of all runs, in `folder`."""
    for name in ("windows", "words", "long"):
        (folder / name).mkdir()
    test_sentence_unshuffling_run.write_records(folder / "windows")
    test_reat_run.write_records(folder / "windows", folder / "long")
    word_runs.write_records(folder / "words")


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


def build(name, records, processes=None, **changes):
    """Inputs and pretrainer of a run."""
    config = config_of(name, **changes)
    inputs = pretraining.build_inputs(config, str(records / RUNS[name][1]), processes)
    return inputs, pretraining.build_pretrainer(config, inputs, processes)


def some_rows(name, records, number):
    """The first rows of a run."""
    config = config_of(name)
    inputs = pretraining.build_inputs(config, str(records / RUNS[name][1]))
    batch = next(iter(inputs.train_dataset(config.training.batch_size)))
    return {key: value[:number] for key, value in batch.items()}


def make_updates(inputs, pretrainer, number, batch_size):
    """Makes updates from where the pretrainer is; returns the last loss."""
    processes = pretrainer.step_options.distribution
    dataset = inputs.train_dataset(
        batch_size,
        first_sample=pretrainer.samples,
        rank=processes.rank,
        num_ranks=processes.size,
    )
    return pretrainer.fit(
        dataset, steps_per_epoch=number, verbose=0, shuffle=False
    ).history["loss"][-1]


def checkpoints(folder):
    return Checkpoints(pathlib.Path(folder), keep=10, report=str)


def save(pretrainer, folder):
    """Writes the checkpoint of the updates done, in `folder`."""
    return checkpoints(folder).save(
        pretrainer, updates=pretrainer.updates, samples=pretrainer.samples
    )


def values_of(pretrainer):
    """Weights, optimizer, counters and memory of lanes, as arrays by number."""
    metrics = {
        id(one) for metric in pretrainer.interval_metrics for one in metric.variables
    }
    return {
        str(number): keras.ops.convert_to_numpy(variable)
        for number, variable in enumerate(training_state.all_variables(pretrainer))
        if "seed_generator" not in variable.path and id(variable) not in metrics
    }
