"""Two objectives on sentences that docs/study.md compares with SLM's.

Shape key: B rows, L row length, D width, W windows of a batch.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from seg_tf.config import configured_by, register_config
from seg_tf.data import randomness
from seg_tf.data.configs import PackedWindowInputsConfig
from seg_tf.data.packed_window_inputs import PackedWindowInputs, join_windows
from seg_tf.data.window_records import Features, Rows, WindowRecords
from seg_tf.objectives.base import ObjectiveLayer, ObjectiveOutput
from seg_tf.ops.losses import masked_accuracy, masked_cross_entropy


@dataclasses.dataclass(frozen=True, kw_only=True)
class _SentenceObjectiveConfig:
    loss_weight: float = 1.0


@register_config
class SentenceOrderConfig(_SentenceObjectiveConfig):
    """Arguments of `SentenceOrder`."""


@register_config
class NextWindowConfig(_SentenceObjectiveConfig):
    """Arguments of `NextWindow`."""


class _Classifier(ObjectiveLayer):
    """Base class of objectives with a dense layer on vectors of the encoder."""

    units = 2

    def __init__(self, encoder: Any, loss_weight: float = 1.0, **kwargs: Any):
        super().__init__(encoder, loss_weight, **kwargs)
        self.dense = keras.layers.Dense(self.units, dtype="float32", name="dense")

    def build(self, sequence_output_shape: Any, features_shape: Any = None) -> None:
        self.dense.build((None, sequence_output_shape[-1]))

    def _output(self, logits: Any, labels: Any, weights: Any) -> ObjectiveOutput:
        return ObjectiveOutput(
            loss=masked_cross_entropy(logits, labels, weights),
            metrics={"accuracy": masked_accuracy(logits, labels, weights)},
        )


@configured_by(SentenceOrderConfig)
class SentenceOrder(_Classifier):
    """Sentence order prediction (ALBERT, section 3.1) from the output at `[CLS]`.

    Reads rows of `ShuffledWindowInputs` with `max_sentences` 2. Each row is divided
    into two parts at a random boundary of sentences. The label is whether the second
    part is presented first. Rows of one sentence count as unswapped.
    """

    def count(self, features: Mapping[str, Any]) -> Any:
        return ops.cast(ops.shape(features["position_index"])[0], "float32")

    def call(
        self, sequence_output: Any, features: Mapping[str, Any], training: bool = False
    ) -> ObjectiveOutput:
        # Tokens stay in the order of the text. Only indices tell their new places.
        labels_B = ops.cast(features["position_index"][:, 1] != 1, "int32")
        logits_B2 = self.dense(ops.cast(sequence_output[:, 0], "float32"))
        return self._output(logits_B2, labels_B, ops.ones_like(labels_B, "float32"))


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class PairInputsConfig(PackedWindowInputsConfig):
    """Settings of rows of two consecutive windows, which attend only to themselves."""

    max_windows_per_row: int = 2

    @property
    def row_length(self) -> int:
        return 2 * self.window_length


@configured_by(PairInputsConfig)
class PairInputs(PackedWindowInputs):
    """Reads windows 2n and 2n + 1 of the records as row n."""

    def build_rows(self, windows: WindowRecords) -> Rows:
        row_length = 2 * windows.window_length

        def read(
            numbers: tf.Tensor, epoch_places: tf.Tensor, epoch_streams: tf.Tensor
        ) -> Features:
            del epoch_places
            members = tf.reshape(2 * numbers[:, tf.newaxis] + [0, 1], [-1])
            streams = tf.repeat(epoch_streams, 2)
            read_windows = windows.read_masked(
                members, randomness.extend_key(streams, members)
            )
            rows = join_windows(
                read_windows,
                tf.fill([tf.size(numbers)], tf.constant(2, tf.int64)),
                row_length=row_length,
                max_predictions=2 * read_windows["masked_ids"].shape[1],
                pad_id=windows.special_ids["pad"],
            )
            return {
                name: tf.ensure_shape(values, [*numbers.shape, *values.shape[1:]])
                for name, values in rows.items()
            }

        return Rows(
            count=len(windows) // 2,
            length=row_length,
            num_tokens=windows.num_tokens,
            read=read,
            prefetch=windows.prefetch,
        )


@configured_by(NextWindowConfig)
class NextWindow(_Classifier):
    """Contrastive prediction of the next and previous window, as CONPONO does.

    Of the output at each window's `[CLS]`, two linear maps predict the vectors
    of its neighbors. All other windows of the batch are the wrong answers (Iter et al.,
    2020, section 3, with k = ±1 and windows of 64 positions as segments). Pairs that
    begin a document with their second window do not count.
    """

    def __init__(self, encoder: Any, loss_weight: float = 1.0, **kwargs: Any):
        self.units = 2 * encoder.hidden_size
        super().__init__(encoder, loss_weight, **kwargs)

    def _is_pair(self, features: Mapping[str, Any]) -> Any:
        """Returns 1.0 for rows whose second window continues the first, `(B,)`."""
        second_B1 = self._starts(features)[:, 1:]
        indices_B1 = sum(
            ops.take_along_axis(features[name], second_B1, axis=1)
            for name in ("paragraph_index", "sentence_index", "token_index")
        )
        return ops.cast(indices_B1[:, 0] > 0, "float32")

    def _starts(self, features: Mapping[str, Any]) -> Any:
        """Returns the positions of both `[CLS]`, int `(B, 2)`."""
        second_B = ops.argmax(features["window_number"] == 2, axis=1)
        return ops.stack([ops.zeros_like(second_B), second_B], axis=1)

    def count(self, features: Mapping[str, Any]) -> Any:
        return 2 * ops.sum(self._is_pair(features))

    def call(
        self, sequence_output: Any, features: Mapping[str, Any], training: bool = False
    ) -> ObjectiveOutput:
        starts_B2 = self._starts(features)
        vectors_B2D = ops.cast(
            ops.take_along_axis(sequence_output, starts_B2[:, :, None], axis=1),
            "float32",
        )
        width = ops.shape(vectors_B2D)[-1]
        # The first window predicts the next one, and the second the previous one.
        predicted_B2D = ops.stack(
            [
                self.dense(vectors_B2D[:, 0])[:, :width],
                self.dense(vectors_B2D[:, 1])[:, width:],
            ],
            axis=1,
        )
        candidates_WD = ops.reshape(vectors_B2D, (-1, width))
        logits_WW = ops.matmul(
            ops.reshape(predicted_B2D, (-1, width)), ops.transpose(candidates_WD)
        ) / ops.sqrt(ops.cast(width, "float32"))
        number_W = ops.arange(ops.shape(candidates_WD)[0])
        # A window is no candidate for itself.
        is_itself_WW = number_W[:, None] == number_W
        logits_WW = ops.where(is_itself_WW, -1e9, logits_WW)
        # Windows 2n and 2n + 1 are each other's answers.
        labels_W = number_W + 1 - 2 * (number_W % 2)
        return self._output(logits_WW, labels_W, ops.repeat(self._is_pair(features), 2))
