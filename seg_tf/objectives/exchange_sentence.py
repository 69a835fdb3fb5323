"""Exchange sentence prediction, which detects sentences that were moved."""

# Shape key: B batch, L row length, N sentences per row, D hidden size.

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from seg_tf.config import ExchangeSentenceConfig, configured_by
from seg_tf.layers.common import select_features
from seg_tf.objectives.base import Features, ObjectiveLayer, ObjectiveOutput
from seg_tf.ops.losses import (
    binary_counts,
    binary_summary,
    masked_cross_entropy,
    pair_accuracy,
)

_FEATURES = ("sentence_starts", "is_moved", "can_move")


@configured_by(ExchangeSentenceConfig)
@keras.saving.register_keras_serializable(package="seg_tf")
class ExchangeSentence(ObjectiveLayer):
    """ReAT's second objective, which detects displaced sentences (section II.E).

    A linear classifier reads the pooled `<SS>` of each sentence. Texts of one sentence
    are ignored. If sentences are moved as often as in the paper, always predicting the
    majority class has accuracy 0.8 (the paper reports 0.797).

    Args:
        encoder: the model whose output is read. Its `pool` computes sentence vectors.
        loss_weight: float. Weight of this loss in the total loss.

    Call arguments:
        sequence_output: float tensor `(B, L, D)` from the encoder.
        features: dict with int `sentence_starts` `(B, N)` and bool `is_moved` and
            `can_move` `(B, N)`. See `seg_tf.features`.
        training: bool. Ignored, because the classifier has no dropout.

    Returns:
        `ObjectiveOutput` with `pair_accuracy` and the metrics of `binary_counts`. Moved
        sentences are the positive class. If no sentence can move, the loss is `(0, 0)`.
    """

    def __init__(self, encoder: Any, loss_weight: float = 1.0, **kwargs: Any):
        super().__init__(encoder, loss_weight, **kwargs)
        self.classifier = keras.layers.Dense(
            2,
            kernel_initializer=keras.initializers.TruncatedNormal(
                stddev=encoder.initializer_range
            ),
            dtype=encoder.dtype_policy,
            name="classifier",
        )

    def build(self, sequence_output_shape: Any, features_shape: Any = None) -> None:
        self.classifier.build((None, None, sequence_output_shape[-1]))

    def count(self, features: Features) -> Any:
        """Returns the number of sentences that can move, a float32 scalar."""
        return ops.sum(ops.cast(features["can_move"], "float32"))

    def call(
        self, sequence_output: Any, features: Features, training: bool | None = None
    ) -> ObjectiveOutput:
        select_features(features, _FEATURES)
        pooled_BND = self.encoder.pool(sequence_output, features["sentence_starts"])
        logits_BN2 = self.classifier(pooled_BND)
        is_moved_BN = ops.cast(features["is_moved"], "bool")
        weights_BN = ops.cast(features["can_move"], "float32")
        labels_BN = ops.cast(is_moved_BN, "int32")
        scores_BN = logits_BN2[:, :, 1] - logits_BN2[:, :, 0]
        return ObjectiveOutput(
            loss=masked_cross_entropy(logits_BN2, labels_BN, weights_BN),
            metrics={
                **binary_counts(scores_BN > 0, is_moved_BN, weights_BN),
                "pair_accuracy": pair_accuracy(scores_BN, is_moved_BN, weights_BN),
            },
        )

    def derived_metrics(self, results: Mapping[str, Any]) -> dict[str, Any]:
        """Computes the metrics of `seg_tf.ops.losses.binary_summary`."""
        return binary_summary(results)
