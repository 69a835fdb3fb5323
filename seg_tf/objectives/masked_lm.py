"""Masked language modeling, which predicts masked word pieces."""

# Shape key: B batch, L sequence length, D hidden size, P predictions, V vocabulary.

from typing import Any

import keras
import keras_hub
from keras import ops

from seg_tf.config import MaskedLMConfig, configured_by
from seg_tf.layers.common import gelu
from seg_tf.objectives.base import Features, ObjectiveLayer, ObjectiveOutput
from seg_tf.ops.losses import masked_accuracy, masked_cross_entropy, pad_vocabulary


@configured_by(MaskedLMConfig)
@keras.saving.register_keras_serializable(package="seg_tf")
class MaskedLM(ObjectiveLayer):
    """BERT's masked-LM head and loss at the masked positions (Devlin et al., 2018).

    The head is a dense layer with GELU and LayerNorm, followed by the encoder's
    transposed token embedding and a bias. With the modern trunk, which ends with a
    norm, the dense layer and LayerNorm are omitted. Only `P` positions have logits.

    Args:
        encoder: the encoder whose output is read. Its token embedding is tied to the
            head, which uses the same sizes, epsilon and dtype policy.
        loss_weight: float. Weight of this loss in the total loss.
        vocab_multiple: int. Pads the vocabulary dimension of the logits to a multiple
            of this, for GPU kernels. Results do not depend on it.

    Call arguments:
        sequence_output: float tensor `(B, L, D)` from the encoder.
        features: dict with `masked_positions` int `(B, P)`, `masked_ids` int `(B, P)`
            and `masked_weights` float `(B, P)`.
        training: bool. Ignored, because the head has no dropout.

    Returns:
        `ObjectiveOutput` with `accuracy`. Its loss is `(0, 0)` without predictions.
    """

    def __init__(
        self,
        encoder: Any,
        loss_weight: float = 1.0,
        vocab_multiple: int = 1,
        **kwargs: Any,
    ):
        super().__init__(encoder, loss_weight, **kwargs)
        self.vocab_multiple = vocab_multiple
        self.head = _Head(
            token_embedding=encoder.token_embedding,
            intermediate_activation=gelu(encoder.approximate_gelu),
            layer_norm_epsilon=encoder.layer_norm_epsilon,
            kernel_initializer=keras.initializers.TruncatedNormal(
                stddev=encoder.initializer_range
            ),
            has_dense=getattr(encoder, "trunk", "bert") == "bert",
            dtype=encoder.dtype_policy,
            name="head",
        )
        # Without autocast, keras-hub adds a float32 bias to half-precision logits.
        self.head.autocast = True

    def build(self, sequence_output_shape: Any, features_shape: Any = None) -> None:
        self.head.build(sequence_output_shape)

    def logits(self, sequence_output: Any, masked_positions: Any) -> Any:
        """Computes the logits `(B, P, V)` of all word pieces at the given positions."""
        return self.head(sequence_output, masked_positions)

    def count(self, features: Features) -> Any:
        """Returns the number of predictions in a batch, a float32 scalar."""
        return ops.sum(ops.cast(features["masked_weights"], "float32"))

    def call(
        self, sequence_output: Any, features: Features, training: bool | None = None
    ) -> ObjectiveOutput:
        logits_BPV = self.head(
            sequence_output,
            features["masked_positions"],
            vocab_multiple=self.vocab_multiple,
        )
        labels_BP = features["masked_ids"]
        weights_BP = features["masked_weights"]
        return ObjectiveOutput(
            loss=masked_cross_entropy(logits_BPV, labels_BP, weights_BP),
            metrics={"accuracy": masked_accuracy(logits_BPV, labels_BP, weights_BP)},
        )


class _Head(keras_hub.layers.MaskedLMHead):
    """keras-hub's masked-LM head with padded logits and an optional dense layer."""

    def __init__(self, has_dense: bool, **kwargs: Any):
        super().__init__(**kwargs)
        self._has_dense = has_dense

    def build(self, inputs_shape: Any, mask_positions_shape: Any = None) -> None:
        if self._has_dense:
            super().build(inputs_shape)
            return
        self._bias = self.add_weight(
            name="output_bias", shape=[self.vocabulary_size], initializer="zeros"
        )

    def call(self, inputs: Any, mask_positions: Any, vocab_multiple: int = 1) -> Any:
        hidden_BPD = ops.take_along_axis(inputs, mask_positions[..., None], axis=1)
        if self._has_dense:
            hidden_BPD = self._intermediate_dense(hidden_BPD)
            hidden_BPD = self._intermediate_layer_norm(hidden_BPD)
        table_VD, bias_V = (
            ops.cast(weight, self.compute_dtype)
            for weight in (self.token_embedding.embeddings, self._bias)
        )
        table_VD, bias_V = pad_vocabulary(table_VD, bias_V, vocab_multiple)
        return ops.matmul(hidden_BPD, ops.transpose(table_VD)) + bias_V
