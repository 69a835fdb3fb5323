"""BERT's transformer layer."""

# Shape key: B batch, L sequence length, D hidden size.

from typing import Any

import keras

from seg_tf.layers.hidden_matrices import mark_hidden_matrix
from seg_tf.layers.recomputation import recomputable
from seg_tf.layers.transformer_layer import TransformerLayer
from seg_tf.ops.activations import gelu


@keras.saving.register_keras_serializable(package="seg_tf")
class TransformerEncoder(TransformerLayer):
    """Attention and feed-forward, each with a residual and LayerNorm after it.

    The weights, their names and the numbers are those of a post-norm
    `keras_hub.layers.TransformerEncoder`, which has one rate of dropout. The name of
    the class is part of the names in checkpoints.

    The arguments are those of `TransformerLayer`.

    Call arguments:
        hidden: float tensor `(B, L, D)`.
        query_group: as for `MultiHeadAttention`.
        key_group: likewise.
        rotation: likewise.
        training: bool. Whether there is dropout.

    Returns:
        Tensor `(B, L, D)` in the compute dtype.

    Example:
    >>> from keras import ops
    >>> layer = TransformerEncoder(intermediate_size=16, num_heads=2)
    >>> hidden, group = keras.random.normal((1, 4, 8)), ops.array([[1, 1, 2, 2]])
    >>> tuple(layer(hidden, group, group).shape)
    (1, 4, 8)
    """

    def build(
        self,
        hidden_shape: Any,
        query_group_shape: Any = None,
        key_group_shape: Any = None,
        rotation_shape: Any = None,
    ) -> None:
        # Checkpoints know the weights by the names of attributes and layers, which are
        # those of keras-hub.
        self._self_attention_layer = self._attention("self_attention_layer")
        self._self_attention_layer.build(hidden_shape, hidden_shape)
        self._self_attention_layer_norm = self._layer_norm("self_attention_layer_norm")
        self._self_attention_layer_norm.build(hidden_shape)
        self._self_attention_dropout = self._dropout("self_attention_dropout")
        self._feedforward_layer_norm = self._layer_norm("feedforward_layer_norm")
        self._feedforward_layer_norm.build(hidden_shape)
        self._feedforward_intermediate_dense = self._dense(
            self.intermediate_size,
            "feedforward_intermediate_dense",
            activation=gelu(self.approximate_gelu),
        )
        self._feedforward_intermediate_dense.build(hidden_shape)
        self._feedforward_output_dense = self._dense(
            hidden_shape[-1], "feedforward_output_dense"
        )
        self._feedforward_output_dense.build((None, None, self.intermediate_size))
        self._feedforward_dropout = self._dropout("feedforward_dropout")
        mark_hidden_matrix(self._feedforward_intermediate_dense.kernel)
        mark_hidden_matrix(self._feedforward_output_dense.kernel)

    @recomputable
    def call(
        self,
        hidden: Any,
        query_group: Any,
        key_group: Any,
        rotation: Any = None,
        training: bool | None = None,
    ) -> Any:
        attended_BLD = self._self_attention_layer(
            hidden, hidden, query_group, key_group, rotation, training=training
        )
        attended_BLD = self._self_attention_dropout(attended_BLD, training=training)
        hidden_BLD = self._self_attention_layer_norm(attended_BLD + hidden)
        inner_BLI = self._feedforward_intermediate_dense(hidden_BLD)
        inner_BLD = self._feedforward_output_dense(inner_BLI)
        inner_BLD = self._feedforward_dropout(inner_BLD, training=training)
        return self._feedforward_layer_norm(inner_BLD + hidden_BLD)

    def attention_weights(self, hidden: Any, *arguments: Any) -> Any:
        """Attention weights `(B, H, L, L)` of a call with these, without dropout."""
        return self._self_attention_layer.attention_weights(hidden, hidden, *arguments)
