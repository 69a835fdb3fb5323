"""Arguments and parts that BERT's transformer layer and those of ReAT share."""

from typing import Any

import keras

from seg_tf.layers.constructor_arguments import with_arguments
from seg_tf.layers.dropout import Dropout
from seg_tf.layers.multi_head_attention import MultiHeadAttention


class PostNormLayer(keras.layers.Layer):
    """A transformer layer that normalizes each sum of a block and its residual.

    Args:
        intermediate_size: int. Width inside the feed-forward blocks.
        num_heads: int. Attention heads, which share the width.
        dropout: float. Rate after each block.
        attention_dropout: float. Rate on the attention weights.
        layer_norm_epsilon: float.
        initializer_range: float. Standard deviation of the truncated normal
            distribution that kernels start from.
        approximate_gelu: bool. GELU by tanh instead of by erf.
        recompute: bool. Whether the backward pass of training computes the layer again
            instead of holding its inner values (`seg_tf.layers.recomputation`).
        **kwargs: arguments of `keras.layers.Layer`.
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

    def compute_output_shape(self, hidden_shape: Any, **other_shapes: Any) -> Any:
        # Said, not inferred: Keras would try `call` on rows of a length of its own on
        # JAX, which the block length of ReAT's layers does not divide.
        return hidden_shape

    def get_config(self) -> dict[str, Any]:
        return with_arguments(super().get_config(), self, PostNormLayer)

    def _inner_arguments(self) -> dict[str, Any]:
        """Arguments of a layer inside this one, which computes nothing again itself."""
        own = with_arguments({}, self, PostNormLayer)
        return {**own, "recompute": False, "dtype": self.dtype_policy}

    def _attention(self, name: str) -> MultiHeadAttention:
        return MultiHeadAttention(
            self.num_heads,
            self.attention_dropout,
            self._initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
        )

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

    def _dropout(self, name: str) -> Dropout:
        return Dropout(self.dropout, dtype=self.dtype_policy, name=name)
