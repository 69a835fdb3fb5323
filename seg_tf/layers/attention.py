"""Multi-head attention within groups of positions."""

from typing import Any

import keras
from keras import ops

from seg_tf.layers.common import ArgumentsConfig, Dropout, mark_hidden_matrix
from seg_tf.ops.attention import attention_weights, fused_attention, rotate

# Shape key: B batch, T queries, K keys, D hidden size, H heads, E head size.


@keras.saving.register_keras_serializable(package="seg_tf")
class MultiHeadAttention(ArgumentsConfig, keras.layers.Layer):
    """Multi-head attention in which queries see only the keys of their group.

    It has the same variables as `keras.layers.MultiHeadAttention`. With attention
    dropout, memory grows with T * K, otherwise with T + K (`fused_attention`).

    Args:
        num_heads: int. Number of attention heads. Must divide the width.
        dropout: float. Dropout rate of the attention weights.
        kernel_initializer: initializer of the kernels.
        use_bias: bool. Whether the projections have biases.
        output_initializer: initializer of the output projection's kernel. Defaults to
            `kernel_initializer`.
        window: int. Width of local attention, as for
            `seg_tf.ops.attention.visible_keys`. If None, attention is global.

    Call arguments:
        query: float tensor `(B, T, D)`.
        value: float tensor `(B, K, D)`, from which keys are also computed.
        query_group: int tensor `(B, T)`, or `(B, 1)` if all queries are in one group.
        key_group: int tensor `(B, K)`. A query sees the keys of its group. With
            `query_group=None`, the number of visible keys, `(B,)`, which come first.
        rotation: float tensor `(B, T, E)` from `seg_tf.ops.attention.rotations` that
            rotates queries and keys, or None.
        training: bool. Whether to apply dropout.

    Returns:
        Tensor `(B, T, D)` in the compute dtype.

    Example:
    >>> attention = MultiHeadAttention(num_heads=2)
    >>> hidden, group = keras.random.normal((1, 4, 8)), ops.array([[1, 1, 2, 2]])
    >>> tuple(attention(hidden, hidden, group, group).shape)
    (1, 4, 8)
    """

    def __init__(
        self,
        num_heads: int,
        dropout: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        use_bias: bool = True,
        output_initializer: Any = None,
        window: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.dropout = dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.use_bias = use_bias
        self.output_initializer = keras.initializers.get(output_initializer)
        self.window = window

    def build(self, query_shape: Any, value_shape: Any) -> None:
        hidden_size = query_shape[-1]
        heads = (self.num_heads, hidden_size // self.num_heads)
        # Checkpoints contain these names, which are the names in Keras's layer.
        self.query_dense = self._projection("query", query_shape, heads)
        self.key_dense = self._projection("key", value_shape, heads)
        self.value_dense = self._projection("value", value_shape, heads)
        self._dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)
        self.output_dense = keras.layers.EinsumDense(
            "bthe,hed->btd",
            output_shape=(None, hidden_size),
            bias_axes="d" if self.use_bias else None,
            kernel_initializer=(
                self.output_initializer or self.kernel_initializer
            ).clone(),
            dtype=self.dtype_policy,
            name="attention_output",
        )
        self.output_dense.build((None, None, *heads))
        mark_hidden_matrix(self.output_dense.kernel, input_axes=2)

    def call(
        self,
        query: Any,
        value: Any,
        query_group: Any,
        key_group: Any,
        rotation: Any = None,
        training: bool | None = None,
    ) -> Any:
        query_BTHE, key_BKHE = self._query_and_key(query, value, rotation)
        value_BKHE = self.value_dense(value)
        if self.dropout:
            weights_BHTK = attention_weights(
                query_BTHE, key_BKHE, query_group, key_group, self.window
            )
            weights_BHTK = self._dropout_layer(weights_BHTK, training=training)
            output_BTHE = ops.einsum("bhtk,bkhe->bthe", weights_BHTK, value_BKHE)
        else:
            output_BTHE = fused_attention(
                query_BTHE, key_BKHE, value_BKHE, query_group, key_group, self.window
            )
        return self.output_dense(output_BTHE)

    def attention_weights(
        self,
        query: Any,
        value: Any,
        query_group: Any,
        key_group: Any,
        rotation: Any = None,
    ) -> Any:
        """Returns the attention weights `(B, H, T, K)` of a call, without dropout."""
        query_BTHE, key_BKHE = self._query_and_key(query, value, rotation)
        return attention_weights(
            query_BTHE, key_BKHE, query_group, key_group, self.window
        )

    def _query_and_key(self, query: Any, value: Any, rotation: Any) -> tuple[Any, Any]:
        query_BTHE, key_BKHE = self.query_dense(query), self.key_dense(value)
        if rotation is None:
            return query_BTHE, key_BKHE
        return rotate(query_BTHE, rotation), rotate(key_BKHE, rotation)

    def compute_output_shape(self, query_shape: Any, **other_shapes: Any) -> Any:
        return query_shape

    def _projection(
        self, name: str, shape: Any, heads: tuple[int, int]
    ) -> keras.layers.EinsumDense:
        dense = keras.layers.EinsumDense(
            "btd,dhe->bthe",
            output_shape=(None, *heads),
            bias_axes="he" if self.use_bias else None,
            # The same initializer would draw the same numbers at every call.
            kernel_initializer=self.kernel_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
        )
        dense.build(shape)
        mark_hidden_matrix(dense.kernel)
        return dense
