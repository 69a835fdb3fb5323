"""Causal language modelling: predict the next word."""

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
    """Transformer-XL's loss: an adaptive softmax at every position (Dai et al., 2019).

    The loss is in nats, so its exponential is the perplexity. There is no accuracy,
    which would need the probabilities of all words.

    Args:
        encoder: the decoder whose output is read. Its `token_embedding`, an
            `AdaptiveEmbedding`, is tied to the softmax, which has its dtype policy.
        loss_weight: as for `ObjectiveLayer`.
        static_shapes, vocab_multiple: as for `seg_tf.layers.AdaptiveSoftmax`.

    Call arguments:
        sequence_output: float tensor `(B, L, D)` from the encoder.
        features: dict with `target_ids` int `(B, L)` and bool or int `padding_mask`
            `(B, L)`, True at words to predict.
        training: ignored; the softmax has no dropout.

    Returns:
        `ObjectiveOutput` without metrics. A batch without predictions has loss
        `(0, 0)`.
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
        """Log probability of every next word, float32 `(B, L, V)`."""
        return self.softmax.log_probabilities(sequence_output)

    def count(self, features: Features) -> Any:
        """Number of predicted words of a batch, a float32 scalar."""
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
        """The perplexity."""
        return {"perplexity": ops.exp(results["loss"])}
