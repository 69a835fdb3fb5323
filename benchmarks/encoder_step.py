"""Our training step on a full batch of any size: what several benchmarks time."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import flags

from seg_tf import configuration
from seg_tf.training.pretrainer import Pretrainer
from seg_tf.training.step import StepOptions

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
MASKED_LM = {"masked_lm": configuration.MaskedLMConfig()}
LEARNING_RATE = 1e-4
DROPOUT = 0.1


def make_batch(rows: int) -> dict[str, np.ndarray]:
    """A full batch: indices as real text has them, no padding."""
    rng = np.random.default_rng(0)
    length = LENGTH.value
    positions = np.tile(np.arange(length, dtype="int32"), (rows, 1))
    shape = (rows, PREDICTIONS.value)
    choices = [rng.permutation(length)[: shape[1]] for _ in range(rows)]
    return {
        "token_ids": rng.integers(0, VOCAB_SIZE.value, (rows, length), "int32"),
        "padding_mask": np.ones((rows, length), bool),
        "position_index": positions,
        "paragraph_index": positions // 100,
        "sentence_index": positions % 100 // 25,
        "token_index": positions % 25,
        "masked_positions": np.sort(choices).astype("int32"),
        "masked_ids": rng.integers(0, VOCAB_SIZE.value, shape, "int32"),
        "masked_weights": np.ones(shape, "float32"),
        "sample_number": np.arange(rows),
    }


def endless(batch: Any) -> tf.data.Iterator:
    """Gives the same batch for ever."""
    return iter(tf.data.Dataset.from_tensors(batch).repeat())


def seg_tf_step(
    index_tables: Mapping[str, int],
    rows: int,
    objectives: Mapping[str, Any] = MASKED_LM,
    more_features: Mapping[str, np.ndarray] | None = None,
    **options: Any,
) -> Callable[[], None]:
    """A function that makes one update, as `fit` does, and waits for it.

    Args:
        index_tables: of the encoder.
        rows: of a batch.
        objectives: their configs.
        more_features: of the batch, beside those of `make_batch`.
        **options: of `StepOptions`.
    """
    keras.config.set_dtype_policy(DTYPE_POLICY.value)
    encoder = configuration.build(
        configuration.EncoderConfig(
            vocab_size=VOCAB_SIZE.value,
            index_tables=index_tables,
            num_layers=LAYERS.value,
            hidden_size=HIDDEN_SIZE.value,
            num_heads=NUM_HEADS.value,
            intermediate_size=4 * HIDDEN_SIZE.value,
            dropout=DROPOUT,
            approximate_gelu=True,
        )
    )
    built = {
        name: configuration.build(objective, encoder=encoder)
        for name, objective in objectives.items()
    }
    optimizer = configuration.build(
        configuration.AdamWConfig(learning_rate=LEARNING_RATE), num_updates=100_000
    )
    if DTYPE_POLICY.value == "mixed_float16":
        options["loss_scale"] = configuration.build(configuration.LossScaleConfig())
    pretrainer = Pretrainer(encoder, built, StepOptions(**options))
    pretrainer.compile(optimizer=optimizer, jit_compile=False)
    batch = {**make_batch(rows), **(more_features or {})}
    pretrainer.build_from({name: tf.constant(value) for name, value in batch.items()})
    return keras_step(pretrainer, batch)


def keras_step(model: keras.Model, batch: Any) -> Callable[[], None]:
    """One step of a compiled Keras model, as `fit` takes it."""
    model.make_train_function()
    iterator = endless(batch)

    def step() -> None:
        logs = model.train_function(iterator)
        np.asarray(logs["loss"])  # waits for the step

    return step
