"""Transformer layers of BERT and of the modern architecture."""

from typing import Any

import keras
from keras import ops

from seg_tf.layers.attention import MultiHeadAttention
from seg_tf.layers.common import (
    ArgumentsConfig,
    Dropout,
    gelu,
    mark_hidden_matrix,
    recomputable,
    with_arguments,
)

# Shape key: B batch, L sequence length, D hidden size.


class TransformerLayer(ArgumentsConfig, keras.layers.Layer):
    """Base class of the encoders' transformer layers.

    Args:
        intermediate_size: int. Width inside the feed-forward blocks.
        num_heads: int. Number of attention heads. Must divide the width.
        dropout: float. Dropout rate after each block.
        attention_dropout: float. Dropout rate of the attention weights.
        layer_norm_epsilon: float. Epsilon of the norms.
        initializer_range: float. Standard deviation of the truncated normal
            distribution that initializes kernels (`initializer_class`).
        approximate_gelu: bool. Whether to use the tanh approximation of GELU.
        recompute: bool. Whether to use gradient checkpointing: the backward pass
            recomputes the layer (`seg_tf.layers.common.recomputable`).
    """

    initializer_class: Any = keras.initializers.TruncatedNormal

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
        self._initializer = self.initializer_class(stddev=initializer_range)

    def compute_output_shape(self, hidden_shape: Any, **other_shapes: Any) -> Any:
        # Otherwise, Keras on JAX would infer the shape by a call with a row length that
        # is not a multiple of ReAT's block length.
        return hidden_shape

    def _inner_arguments(self) -> dict[str, Any]:
        arguments = with_arguments({}, self, TransformerLayer)
        return {**arguments, "recompute": False, "dtype": self.dtype_policy}

    def _attention(self, name: str, **arguments: Any) -> MultiHeadAttention:
        return MultiHeadAttention(
            self.num_heads,
            self.attention_dropout,
            self._initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
            **arguments,
        )

    def _dense(
        self, name: str, size: int, input_size: int, **arguments: Any
    ) -> keras.layers.Dense:
        # The same initializer would draw the same numbers at every call.
        arguments.setdefault("kernel_initializer", self._initializer.clone())
        dense = keras.layers.Dense(
            size, dtype=self.dtype_policy, name=name, **arguments
        )
        dense.build((None, None, input_size))
        mark_hidden_matrix(dense.kernel)
        return dense

    def _norm(
        self, name: str, size: int, cls: Any = keras.layers.LayerNormalization
    ) -> Any:
        norm = cls(epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name)
        norm.build((None, None, size))
        return norm

    def _dropout(self, name: str) -> Dropout:
        return Dropout(self.dropout, dtype=self.dtype_policy, name=name)


@keras.saving.register_keras_serializable(package="seg_tf")
class TransformerEncoder(TransformerLayer):
    """BERT's post-norm transformer layer.

    Weights, weight names and results are those of a post-norm
    `keras_hub.layers.TransformerEncoder`. Arguments are as for `TransformerLayer`.

    Call arguments:
        hidden: float tensor `(B, L, D)`.
        query_group, key_group, rotation: as for `MultiHeadAttention`.
        training: bool. Whether to apply dropout.

    Returns:
        Tensor `(B, L, D)` in the compute dtype.

    Example:
    >>> layer = TransformerEncoder(intermediate_size=16, num_heads=2)
    >>> hidden, group = keras.random.normal((1, 4, 8)), ops.array([[1, 1, 2, 2]])
    >>> tuple(layer(hidden, group, group).shape)
    (1, 4, 8)
    """

    def build(self, hidden_shape: Any) -> None:
        # Checkpoints contain these names, which are the names in keras-hub's layer.
        size = hidden_shape[-1]
        self._self_attention_layer = self._attention("self_attention_layer")
        self._self_attention_layer.build(hidden_shape, hidden_shape)
        self._self_attention_layer_norm = self._norm("self_attention_layer_norm", size)
        self._self_attention_dropout = self._dropout("self_attention_dropout")
        self._feedforward_layer_norm = self._norm("feedforward_layer_norm", size)
        self._feedforward_intermediate_dense = self._dense(
            "feedforward_intermediate_dense",
            self.intermediate_size,
            size,
            activation=gelu(self.approximate_gelu),
        )
        self._feedforward_output_dense = self._dense(
            "feedforward_output_dense", size, self.intermediate_size
        )
        self._feedforward_dropout = self._dropout("feedforward_dropout")

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
        """Returns the attention weights `(B, H, L, L)` of a call, without dropout."""
        return self._self_attention_layer.attention_weights(hidden, hidden, *arguments)


@keras.saving.register_keras_serializable(package="seg_tf")
class ModernTransformerLayer(TransformerLayer):
    """A pre-norm transformer layer with RMSNorm and without biases.

    For an input `x`, the layer computes:

        x = x + attention(RMSNorm(x))
        x = x + feedforward(RMSNorm(x))

    The feed-forward block is `W_2 relu(W_1 x)**2` (So et al., 2021, arXiv:2109.08668,
    section 4.1) or, if `gated`, `W_2 (gelu(W_1 x) * W_3 x)` (Shazeer, 2020,
    arXiv:2002.05202, equation 6). The output projections of both blocks start at zero,
    so the layer starts as the identity (Zhang et al., 2019, arXiv:1901.09321).

    Args:
        intermediate_size, num_heads, `**kwargs`: as for `TransformerLayer`.
        gated: bool. Whether the feed-forward block is a gated GELU.
        window: int. Width of local attention. If None, attention is global.

    Call arguments are as for `TransformerEncoder`.

    Returns:
        Tensor `(B, L, D)` in the compute dtype.

    Example:
    >>> layer = ModernTransformerLayer(intermediate_size=16, num_heads=2)
    >>> hidden, group = keras.random.normal((1, 4, 8)), ops.array([[1, 1, 2, 2]])
    >>> tuple(layer(hidden, group, group).shape)
    (1, 4, 8)
    """

    def __init__(
        self,
        intermediate_size: int,
        num_heads: int,
        gated: bool = False,
        window: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(intermediate_size, num_heads, **kwargs)
        self.gated = gated
        self.window = window

    def build(self, hidden_shape: Any) -> None:
        size, rms_norm = hidden_shape[-1], keras.layers.RMSNormalization
        self._attention_norm = self._norm("attention_norm", size, rms_norm)
        self._attention_layer = self._attention(
            "attention", use_bias=False, output_initializer="zeros", window=self.window
        )
        self._attention_layer.build(hidden_shape, hidden_shape)
        self._attention_dropout = self._dropout("attention_dropout")
        self._feedforward_norm = self._norm("feedforward_norm", size, rms_norm)
        self._intermediate_dense = self._dense(
            "feedforward_intermediate",
            self.intermediate_size * (2 if self.gated else 1),
            size,
            use_bias=False,
        )
        self._output_dense = self._dense(
            "feedforward_output",
            size,
            self.intermediate_size,
            use_bias=False,
            kernel_initializer="zeros",
        )
        self._feedforward_dropout = self._dropout("feedforward_dropout")

    @recomputable
    def call(
        self,
        hidden: Any,
        query_group: Any,
        key_group: Any,
        rotation: Any = None,
        training: bool | None = None,
    ) -> Any:
        normed_BLD = self._attention_norm(hidden)
        attended_BLD = self._attention_layer(
            normed_BLD, normed_BLD, query_group, key_group, rotation, training=training
        )
        hidden_BLD = hidden + self._attention_dropout(attended_BLD, training=training)
        inner_BLI = self._intermediate_dense(self._feedforward_norm(hidden_BLD))
        if self.gated:
            gate_BLI, inner_BLI = ops.split(inner_BLI, 2, axis=-1)
            inner_BLI = gelu(self.approximate_gelu)(gate_BLI) * inner_BLI
        else:
            inner_BLI = ops.square(ops.relu(inner_BLI))
        inner_BLD = self._output_dense(inner_BLI)
        return hidden_BLD + self._feedforward_dropout(inner_BLD, training=training)

    def attention_weights(self, hidden: Any, *arguments: Any) -> Any:
        """Returns the attention weights `(B, H, L, L)` of a call, without dropout."""
        normed_BLD = self._attention_norm(hidden)
        return self._attention_layer.attention_weights(
            normed_BLD, normed_BLD, *arguments
        )
