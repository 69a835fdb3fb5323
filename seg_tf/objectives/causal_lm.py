"""Causal language modeling, which predicts the next word."""

# Shape key: B batch, L sequence length, D hidden size, V vocabulary.

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from seg_tf.config import CausalLMConfig, configured_by
from seg_tf.layers.adaptive import AdaptiveEmbedding, AdaptiveSoftmax
from seg_tf.objectives.base import Features, ObjectiveLayer, ObjectiveOutput


@configured_by(CausalLMConfig)
@keras.saving.register_keras_serializable(package="seg_tf")
class CausalLM(ObjectiveLayer):
    """Transformer-XL's loss, with an adaptive softmax (Dai et al., 2019).

    The loss is in nats, so its exponential is the perplexity. There is no accuracy
    metric, because it would need the probabilities of all words.

    Args:
        encoder: the decoder whose output is read. Its `token_embedding` must be an
            `AdaptiveEmbedding`, whose weights the softmax shares.
        loss_weight: float. Weight of this loss in the total loss.
        static_shapes, vocab_multiple: see `seg_tf.layers.AdaptiveSoftmax`.

    Call arguments:
        sequence_output: float tensor `(B, L, D)` from the encoder.
        features: dict with int `target_ids` `(B, L)` and bool or int `padding_mask`
            `(B, L)`, which is True at words to predict.
        training: bool. Ignored, because the softmax has no dropout.

    Returns:
        `ObjectiveOutput` without metrics. Its loss is `(0, 0)` without predictions.
    """

    def __init__(
        self,
        encoder: Any,
        loss_weight: float = 1.0,
        static_shapes: bool = False,
        vocab_multiple: int = 1,
        **kwargs: Any,
    ):
        super().__init__(encoder, loss_weight, **kwargs)
        embedding = getattr(encoder, "token_embedding", None)
        if not isinstance(embedding, AdaptiveEmbedding):
            raise ValueError(
                "`encoder` must have an `AdaptiveEmbedding` as its `token_embedding`. "
                f"Received: token_embedding={embedding}"
            )
        self.static_shapes = static_shapes
        self.vocab_multiple = vocab_multiple
        self.softmax = AdaptiveSoftmax(
            embedding,
            static_shapes=static_shapes,
            vocab_multiple=vocab_multiple,
            dtype=encoder.dtype_policy,
            name="softmax",
        )

    def build(self, sequence_output_shape: Any, features_shape: Any = None) -> None:
        self.softmax.build(sequence_output_shape)

    def log_probabilities(self, sequence_output: Any) -> Any:
        """Computes log probabilities of the next word, float32 `(B, L, V)`."""
        return self.softmax.log_probabilities(sequence_output)

    def count(self, features: Features) -> Any:
        """Returns the number of predicted words in a batch, a float32 scalar."""
        return ops.sum(ops.cast(features["padding_mask"], "float32"))

    def call(
        self, sequence_output: Any, features: Features, training: bool | None = None
    ) -> ObjectiveOutput:
        losses_BL = self.softmax(
            sequence_output, features["target_ids"], features["padding_mask"]
        )
        return ObjectiveOutput(
            loss=(ops.sum(losses_BL), self.count(features)), metrics={}
        )

    def derived_metrics(self, results: Mapping[str, Any]) -> dict[str, Any]:
        """Returns `perplexity`, the exponential of the mean loss."""
        return {"perplexity": ops.exp(results["loss"])}
