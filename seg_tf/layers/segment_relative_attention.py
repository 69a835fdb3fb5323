"""Attention over a segment and its memory, by content and by relative position."""

# Shape key: B batch, T queries, M memory, K keys (M + T), D hidden size, H heads,
# E head size.

import math
from typing import Any

import keras
from keras import ops

from seg_tf.layers.constructor_arguments import with_arguments
from seg_tf.layers.dropout import Dropout
from seg_tf.layers.hidden_matrices import mark_hidden_matrix

# What a masked logit is: far below all others, and a number in float16 too.
_MASKED = -1e4


@keras.saving.register_keras_serializable(package="seg_tf")
class SegmentRelativeAttention(keras.layers.Layer):
    """Relative multi-head attention with memory (Segatron, eq. 1 and 3).

    The logit of query i and key j is, over the root of the head size,

        (W_q E_i + u)^T W_k E_j + (W_q E_i + v)^T W_R R_ij

    where R_ij is what `RelativePositions` prepared: of tokens, sentences and
    paragraphs it is Sega-Transformer-XL, of tokens alone Transformer-XL (Dai et al.,
    2019, section 3.3). No projection has a separate bias.

    Args:
        num_heads: int.
        head_size: int. Heads need not share the hidden size.
        dropout: float. Rate on the attention weights.
        kernel_initializer: initializer of every kernel.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        hidden: `(B, T, D)`, the segment.
        memory: `(B, M, D)`, hidden states of the tokens before it.
        positions: what `RelativePositions` made of their indices.
        mask: bool `(B, 1, T, K)`, likewise.
        content_bias: u, `(H, E)`; Transformer-XL shares it between layers.
        position_bias: v, `(H, E)`.

    Returns:
        Tensor `(B, T, D)`.
    """

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        dropout: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.head_size = head_size
        self.dropout = dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self._dropout = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, hidden_shape: Any) -> None:
        size, heads = hidden_shape[-1], (self.num_heads, self.head_size)
        self.query_kernel = self._add_kernel("query_kernel", (size, *heads))
        self.key_kernel = self._add_kernel("key_kernel", (size, *heads))
        self.value_kernel = self._add_kernel("value_kernel", (size, *heads))
        self.position_kernel = self._add_kernel("position_kernel", (size, *heads))
        self.output_kernel = self._add_kernel("output_kernel", (*heads, size), 2)

    def call(
        self,
        hidden: Any,
        memory: Any,
        positions: Any,
        mask: Any,
        content_bias: Any,
        position_bias: Any,
        training: Any = None,
    ) -> Any:
        keys_in_BKD = ops.concatenate([memory, hidden], axis=1)
        query_BHTE = self._heads(hidden, self.query_kernel)
        key_BHKE = self._heads(keys_in_BKD, self.key_kernel)
        value_BHKE = self._heads(keys_in_BKD, self.value_kernel)
        scale = 1 / math.sqrt(self.head_size)
        by_content = scale * (query_BHTE + self._per_head(content_bias))
        by_position = scale * (query_BHTE + self._per_head(position_bias))
        logits_BHTK = positions.logits(
            by_content,
            key_BHKE,
            by_position,
            ops.cast(self.position_kernel, self.compute_dtype),
        )
        logits_BHTK = ops.where(mask, ops.cast(logits_BHTK, "float32"), _MASKED)
        weights_BHTK = ops.cast(ops.softmax(logits_BHTK), self.compute_dtype)
        weights_BHTK = self._dropout(weights_BHTK, training=training)
        output_BHTE = ops.matmul(weights_BHTK, value_BHKE)
        return ops.einsum("bhte,hed->btd", output_BHTE, self.output_kernel)

    def compute_output_shape(self, hidden_shape: Any, **other_shapes: Any) -> Any:
        return hidden_shape

    def _add_kernel(self, name: str, shape: tuple[int, ...], axes: int = 1) -> Any:
        # One initializer draws the same numbers at every call.
        initializer = self.kernel_initializer.clone()
        kernel = self.add_weight(name=name, shape=shape, initializer=initializer)
        mark_hidden_matrix(kernel, axes)
        return kernel

    def _heads(self, states_BKD: Any, kernel_DHE: Any) -> Any:
        return ops.einsum("bkd,dhe->bhke", states_BKD, kernel_DHE)

    def _per_head(self, bias_HE: Any) -> Any:
        return ops.cast(bias_HE, self.compute_dtype)[:, None, :]

    def get_config(self) -> dict[str, Any]:
        return with_arguments(super().get_config(), self, SegmentRelativeAttention)
