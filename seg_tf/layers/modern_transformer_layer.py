"""The transformer layer of the modern trunk."""

# Shape key: B batch, L sequence length, D hidden size.

from typing import Any

import keras
from keras import ops

from seg_tf.layers.constructor_arguments import with_arguments
from seg_tf.layers.hidden_matrices import mark_hidden_matrix
from seg_tf.layers.recomputation import recomputable
from seg_tf.layers.transformer_layer import TransformerLayer
from seg_tf.ops.activations import gelu


@keras.saving.register_keras_serializable(package="seg_tf")
class ModernTransformerLayer(TransformerLayer):
    """A pre-norm transformer layer with RMSNorm and without biases.

    With `x` the input:

        x = x + attention(RMSNorm(x))
        x = x + feedforward(RMSNorm(x))

    The feed-forward block is `W_2 relu(W_1 x)**2` (So et al., 2021, arXiv:2109.08668,
    section 4.1) or, if `gated`, `W_2 (gelu(W_1 x) * W_3 x)` (Shazeer, 2020,
    arXiv:2002.05202, equation 6). The output projections of both blocks start at zero,
    so that the layer starts as the identity (Zhang et al., 2019, arXiv:1901.09321).

    Args:
        intermediate_size: int. Width inside the feed-forward block.
        num_heads: int. Attention heads, which share the width.
        dropout: float. Rate after each block.
        attention_dropout: float. Rate on the attention weights.
        layer_norm_epsilon: float. Added to the mean square in RMSNorm.
        initializer_range: float. Standard deviation of the other kernels' start.
        approximate_gelu: bool. Tanh approximation of GELU; used only with `gated`.
        recompute: bool. As for `TransformerLayer`.
        gated: bool. Whether the feed-forward block is a gated GELU.
        window: int. Width of local attention; None is global.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        hidden: float tensor `(B, L, D)`.
        query_group: int tensor, as for `MultiHeadAttention`.
        key_group: int tensor, as for `MultiHeadAttention`.
        rotation: float tensor, as for `MultiHeadAttention`.
        training: bool. Whether there is dropout.

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
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        layer_norm_epsilon: float = 1e-6,
        initializer_range: float = 0.02,
        approximate_gelu: bool = False,
        recompute: bool = False,
        gated: bool = False,
        window: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(
            intermediate_size,
            num_heads,
            dropout,
            attention_dropout,
            layer_norm_epsilon,
            initializer_range,
            approximate_gelu,
            recompute,
            **kwargs,
        )
        self.gated = gated
        self.window = window

    def build(
        self,
        hidden_shape: Any,
        query_group_shape: Any = None,
        key_group_shape: Any = None,
        rotation_shape: Any = None,
    ) -> None:
        self._attention_norm = self._rms_norm("attention_norm", hidden_shape)
        self._attention_layer = self._attention(
            "attention", use_bias=False, output_initializer="zeros", window=self.window
        )
        self._attention_layer.build(hidden_shape, hidden_shape)
        self._attention_dropout = self._dropout("attention_dropout")
        self._feedforward_norm = self._rms_norm("feedforward_norm", hidden_shape)
        self._intermediate_dense = self._dense(
            self.intermediate_size * (2 if self.gated else 1),
            "feedforward_intermediate",
            use_bias=False,
        )
        self._intermediate_dense.build(hidden_shape)
        self._output_dense = self._dense(
            hidden_shape[-1],
            "feedforward_output",
            use_bias=False,
            kernel_initializer="zeros",
        )
        self._output_dense.build((None, None, self.intermediate_size))
        for dense in (self._intermediate_dense, self._output_dense):
            mark_hidden_matrix(dense.kernel)
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
        """Attention weights `(B, H, L, L)` of a call with these, without dropout."""
        normed_BLD = self._attention_norm(hidden)
        return self._attention_layer.attention_weights(
            normed_BLD, normed_BLD, *arguments
        )

    def get_config(self) -> dict[str, Any]:
        return with_arguments(super().get_config(), self, ModernTransformerLayer)

    def _rms_norm(self, name: str, shape: Any) -> keras.layers.RMSNormalization:
        norm = keras.layers.RMSNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name
        )
        norm.build(shape)
        return norm
