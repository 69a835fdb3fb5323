"""BERT's transformer layer."""

# Shape key: B batch, L sequence length, D hidden size.

from typing import Any

import keras

from seg_tf.layers.constructor_arguments import with_arguments
from seg_tf.layers.multi_head_attention import MultiHeadAttention
from seg_tf.layers.recomputation import recomputable
from seg_tf.ops.activations import gelu


@keras.saving.register_keras_serializable(package="seg_tf")
class TransformerEncoder(keras.layers.Layer):
    """Attention and feed-forward, each with a residual and LayerNorm after it.

    The weights, their names and the numbers are those of a post-norm
    `keras_hub.layers.TransformerEncoder`, which has one rate of dropout. The name of
    the class is part of the names in checkpoints.

    Args:
        intermediate_size: int. Width inside the feed-forward block.
        num_heads: int. Attention heads, which share the width.
        dropout: float. Rate after both blocks.
        attention_dropout: float. Rate on the attention weights.
        layer_norm_epsilon: float.
        initializer_range: float. Standard deviation of the truncated normal
            distribution that kernels start from.
        approximate_gelu: bool. GELU by tanh instead of by erf.
        recompute: bool. Whether the backward pass of training computes the layer again
            instead of holding its inner values (`seg_tf.layers.recomputation`).
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        hidden: float tensor `(B, L, D)`.
        query_group: as for `MultiHeadAttention`.
        key_group: likewise.
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

    def __init__(
        self,
        intermediate_size: int,
        num_heads: int,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        approximate_gelu: bool = False,
        recompute: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.intermediate_size = intermediate_size
        self.num_heads = num_heads
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.approximate_gelu = approximate_gelu
        self.recompute = recompute
        self._initializer = keras.initializers.TruncatedNormal(stddev=initializer_range)

    def build(
        self,
        hidden_shape: Any,
        query_group_shape: Any = None,
        key_group_shape: Any = None,
    ) -> None:
        # Checkpoints know the weights by the names of attributes and layers, which are
        # those of keras-hub.
        self._self_attention_layer = MultiHeadAttention(
            self.num_heads,
            self.attention_dropout,
            self._initializer.clone(),
            dtype=self.dtype_policy,
            name="self_attention_layer",
        )
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

    @recomputable
    def call(
        self,
        hidden: Any,
        query_group: Any,
        key_group: Any,
        training: bool | None = None,
    ) -> Any:
        attended_BLD = self._self_attention_layer(
            hidden, hidden, query_group, key_group, training=training
        )
        attended_BLD = self._self_attention_dropout(attended_BLD, training=training)
        hidden_BLD = self._self_attention_layer_norm(attended_BLD + hidden)
        inner_BLI = self._feedforward_intermediate_dense(hidden_BLD)
        inner_BLD = self._feedforward_output_dense(inner_BLI)
        inner_BLD = self._feedforward_dropout(inner_BLD, training=training)
        return self._feedforward_layer_norm(inner_BLD + hidden_BLD)

    def attention_weights(self, hidden: Any) -> Any:
        """Weights `(B, H, L, L)` where all see all, without dropout."""
        return self._self_attention_layer.attention_weights(hidden, hidden)

    def compute_output_shape(self, hidden_shape: Any, **other_shapes: Any) -> Any:
        return hidden_shape

    def get_config(self) -> dict[str, Any]:
        return with_arguments(super().get_config(), self, TransformerEncoder)

    def _dense(self, size: int, name: str, **arguments: Any) -> keras.layers.Dense:
        return keras.layers.Dense(
            size,
            # One initializer draws the same numbers at every call.
            kernel_initializer=self._initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
            **arguments,
        )

    def _layer_norm(self, name: str) -> keras.layers.LayerNormalization:
        return keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name
        )

    def _dropout(self, name: str) -> keras.layers.Dropout:
        return keras.layers.Dropout(self.dropout, dtype=self.dtype_policy, name=name)
