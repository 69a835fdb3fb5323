"""A model that the suite does not know: a config, a model, a layout, an objective.

Its rows are `[CLS] p1 [SEP] p2 [SEP] …`, a `[SEP]` after every paragraph. A position's
vector is made of its word piece and of the mean over the row; from the mean it learns
how many tokens there are.
"""

# Shape key: B rows, L row length, D width.

import dataclasses
import types
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from seg_tf.config import configured_by, register_config
from seg_tf.data import randomness
from seg_tf.data.inputs import WindowInputsConfig
from seg_tf.data.window_inputs import WindowInputs
from seg_tf.data.window_records import Rows
from seg_tf.layers.common import select_features
from seg_tf.layouts.windows import WindowLayout, window_rows
from seg_tf.objectives.base import ObjectiveLayer, ObjectiveOutput

FEATURES = ("token_ids", "padding_mask")


# === Configs, layout and inputs ===


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanConfig:
    vocab_size: int | None = None
    hidden_size: int = 8
    initializer_range: float = 0.1

    @property
    def inputs_arguments(self) -> Mapping[str, Any]:
        return {"index_tables": {}, "vocab_size": self.vocab_size}


class ParagraphLayout(WindowLayout):
    """`window_rows`, every paragraph a text."""

    def rows(self, trees, row_length=None):
        first = trees.paragraphs[:, :1]
        return super().rows(
            dataclasses.replace(trees, texts=trees.paragraphs - first), row_length
        )


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class ParagraphInputsConfig(WindowInputsConfig):
    pass


@configured_by(ParagraphInputsConfig)
class ParagraphInputs(WindowInputs):
    layout = ParagraphLayout
    index_features = ()

    def build_rows(self, windows):
        # There may be as many paragraphs as pieces.
        row_length = 2 * windows.window_length

        def read(numbers, epoch_places, epoch_streams):
            trees, _, _ = windows.read(numbers)
            first = trees.paragraphs[:, :1]
            rows = window_rows(
                dataclasses.replace(trees, texts=trees.paragraphs - first),
                special_ids=windows.special_ids,
                row_length=row_length,
                caps={},
            )
            masked = windows.masking(
                rows["token_ids"],
                rows.pop("sentence_number"),
                randomness.extend_key(epoch_streams, epoch_places),
            )
            return {**rows, **masked}

        return Rows(
            count=len(windows),
            length=row_length,
            num_tokens=windows.num_tokens,
            read=read,
            prefetch=windows.prefetch,
        )


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class RowSizeConfig:
    loss_weight: float = 1.0


# === Model ===


@configured_by(MeanConfig)
@keras.saving.register_keras_serializable(package="tests")
class MeanEncoder(keras.Model):
    index_tables: Mapping[str, int] = types.MappingProxyType({})
    index_caps = index_tables

    def __init__(
        self, vocab_size: int, hidden_size: int, initializer_range: float, **kwargs: Any
    ):
        dtype = kwargs.pop("dtype", None)
        inputs = {
            "token_ids": keras.Input([None], dtype="int32", name="token_ids"),
            "padding_mask": keras.Input([None], dtype="bool", name="padding_mask"),
        }
        embedding = keras.layers.Embedding(vocab_size, hidden_size, dtype=dtype)
        dense = keras.layers.Dense(hidden_size, activation="tanh", dtype=dtype)
        embedded_BLD = embedding(inputs["token_ids"])
        is_token_BL1 = ops.cast(inputs["padding_mask"], embedded_BLD.dtype)[:, :, None]
        sum_B1D = ops.sum(embedded_BLD * is_token_BL1, axis=1, keepdims=True)
        mean_B1D = sum_B1D / ops.sum(is_token_BL1, axis=1, keepdims=True)
        super().__init__(inputs, dense(embedded_BLD + mean_B1D), **kwargs)
        self.feature_names = FEATURES
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.initializer_range = initializer_range

    def __call__(self, inputs: Mapping[str, Any], **kwargs: Any) -> Any:
        return super().__call__(select_features(inputs, FEATURES), **kwargs)

    def get_config(self) -> dict[str, Any]:
        names = ("vocab_size", "hidden_size", "initializer_range")
        return {"name": self.name, **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)


# === Objective ===


@configured_by(RowSizeConfig)
@keras.saving.register_keras_serializable(package="tests")
class RowSize(ObjectiveLayer):
    def __init__(self, encoder: Any, loss_weight: float = 1.0, **kwargs: Any):
        super().__init__(encoder, loss_weight, **kwargs)
        self.regression = keras.layers.Dense(1, name="regression")

    def build(self, sequence_output_shape, features_shape=None):
        self.regression.build((None, sequence_output_shape[-1]))

    def count(self, features):
        return ops.cast(ops.shape(features["token_ids"])[0], "float32")

    def call(self, sequence_output, features, training=None):
        size_B = ops.sum(ops.cast(features["padding_mask"], "float32"), axis=1)
        guess_B = self.regression(ops.mean(sequence_output, axis=1))[:, 0]
        squares_B = ops.square(guess_B - ops.log(size_B))
        count = self.count(features)
        return ObjectiveOutput(loss=(tf.reduce_sum(squares_B), count), metrics={})
