"""Training steps on synthetic batches. Flags set the sizes of the model and rows."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import flags

from benchmarks import made_batches, run_step
from seg_tf.config import (
    AdamWConfig,
    EncoderConfig,
    MaskedLMConfig,
    RunConfig,
    TrainingConfig,
)
from seg_tf.data.inputs import MaskingConfig, WindowInputsConfig
from seg_tf.training.distribution import Distribution

LAYERS = flags.DEFINE_integer("layers", 4, "Transformer layers.")
HIDDEN_SIZE = flags.DEFINE_integer("hidden_size", 768, "Width; the inner is 4 times.")
NUM_HEADS = flags.DEFINE_integer("num_heads", 12, "Attention heads.")
VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 30522, "Rows of the token table.")
LENGTH = flags.DEFINE_integer("length", 128, "Positions of a row.")
PREDICTIONS = flags.DEFINE_integer("predictions", 20, "Predictions of a row.")
DTYPE_POLICY = flags.DEFINE_enum(
    "dtype_policy",
    "float32",
    ["float32", "mixed_bfloat16", "mixed_float16"],
    "Precision of all sides.",
)

SEGABERT = {"paragraph_index": 50, "sentence_index": 100, "token_index": 256}
LEARNING_RATE = 1e-4
DROPOUT = 0.1


def run_config(
    index_tables: Mapping[str, int], rows: int, **training: Any
) -> RunConfig:
    """Returns the run that the flags specify.

    Args:
        index_tables: sizes of the encoder's index tables, by index name.
        rows: number of rows in a batch.
        **training: further fields of `TrainingConfig`.
    """
    return RunConfig(
        name="benchmark",
        paper="bert_base",
        model=EncoderConfig(
            index_tables=index_tables,
            num_layers=LAYERS.value,
            hidden_size=HIDDEN_SIZE.value,
            num_heads=NUM_HEADS.value,
            intermediate_size=4 * HIDDEN_SIZE.value,
            dropout=DROPOUT,
            approximate_gelu=True,
        ),
        inputs=WindowInputsConfig(
            window_length=LENGTH.value,
            masking=MaskingConfig(max_predictions=PREDICTIONS.value),
        ),
        objectives={"masked_lm": MaskedLMConfig()},
        optimizer=AdamWConfig(learning_rate=LEARNING_RATE),
        training=TrainingConfig(
            batch_size=rows,
            num_updates=100_000,
            dtype_policy=DTYPE_POLICY.value,
            **training,
        ),
    )


def make_batch(config: RunConfig) -> made_batches.Batch:
    """Returns a batch of full rows for a run of `run_config`."""
    return made_batches.make_batch(config, VOCAB_SIZE.value, config.training.batch_size)


def seg_tf_step(
    config: RunConfig, distribution: Distribution | None = None
) -> Callable[[], object]:
    """Returns a function that makes one update of a run and waits for it."""
    return run_step.training_step(
        config, VOCAB_SIZE.value, make_batch(config), distribution
    )


def endless(batch: Any) -> tf.data.Iterator:
    """Returns an iterator that repeats a batch forever."""
    return iter(tf.data.Dataset.from_tensors(batch).repeat())


def keras_step(model: keras.Model, batch: Any) -> Callable[[], None]:
    """Returns a function that runs a step of `fit` on a compiled model and waits."""
    model.make_train_function()
    iterator = endless(batch)

    def step() -> None:
        logs = model.train_function(iterator)
        np.asarray(logs["loss"])  # waits for the step

    return step
