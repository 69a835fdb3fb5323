"""Multi-head attention among positions of the same group."""

# Shape key: B batch, T queries, K keys, D hidden size, H heads, E head size.

from typing import Any

import keras
from keras import ops

from seg_tf.layers.constructor_arguments import with_arguments
from seg_tf.layers.dropout import Dropout
from seg_tf.layers.hidden_matrices import mark_hidden_matrix
from seg_tf.ops.attention import attention_weights, fused_attention


@keras.saving.register_keras_serializable(package="seg_tf")
class MultiHeadAttention(keras.layers.Layer):
    """The weights and outputs of `keras.layers.MultiHeadAttention`, in less memory.

    Where weights are dropped they have to exist, `(B, H, T, K)` of them. With a rate of
    0 they need not: `seg_tf.ops.attention.fused_attention` computes the same output
    with memory of T + K.

    Args:
        num_heads: int. Attention heads, which share the width.
        dropout: float. Rate on the attention weights.
        kernel_initializer: initializer of every kernel.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        query: float tensor `(B, T, D)`.
        value: float tensor `(B, K, D)`, of which the keys are made as well.
        query_group: int tensor `(B, T)`, or `(B, 1)` where all queries have the same.
        key_group: int tensor `(B, K)`; a query sees the keys of its group.
        training: bool. Whether there is dropout.

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
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.dropout = dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(
        self,
        query_shape: Any,
        value_shape: Any,
        query_group_shape: Any = None,
        key_group_shape: Any = None,
    ) -> None:
        hidden_size = query_shape[-1]
        heads = (self.num_heads, hidden_size // self.num_heads)
        # Checkpoints know the weights by the names of attributes and layers, which are
        # those of Keras.
        self.query_dense = self._projection("query", query_shape, heads)
        self.key_dense = self._projection("key", value_shape, heads)
        self.value_dense = self._projection("value", value_shape, heads)
        self._dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)
        self.output_dense = keras.layers.EinsumDense(
            "bthe,hed->btd",
            output_shape=(None, hidden_size),
            bias_axes="d",
            kernel_initializer=self.kernel_initializer.clone(),
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
        training: bool | None = None,
    ) -> Any:
        query_BTHE = self.query_dense(query)
        key_BKHE, value_BKHE = self.key_dense(value), self.value_dense(value)
        if self.dropout:
            weights_BHTK = attention_weights(
                query_BTHE, key_BKHE, query_group, key_group
            )
            weights_BHTK = self._dropout_layer(weights_BHTK, training=training)
            output_BTHE = ops.einsum("bhtk,bkhe->bthe", weights_BHTK, value_BKHE)
        else:
            output_BTHE = fused_attention(
                query_BTHE, key_BKHE, value_BKHE, query_group, key_group
            )
        return self.output_dense(output_BTHE)

    def attention_weights(self, query: Any, value: Any) -> Any:
        """Weights `(B, H, T, K)` where all queries see all keys, without dropout."""
        return attention_weights(self.query_dense(query), self.key_dense(value))

    def compute_output_shape(self, query_shape: Any, **other_shapes: Any) -> Any:
        return query_shape

    def get_config(self) -> dict[str, Any]:
        return with_arguments(super().get_config(), self, MultiHeadAttention)

    def _projection(
        self, name: str, shape: Any, heads: tuple[int, int]
    ) -> keras.layers.EinsumDense:
        dense = keras.layers.EinsumDense(
            "btd,dhe->bthe",
            output_shape=(None, *heads),
            bias_axes="he",
            # One initializer draws the same numbers at every call.
            kernel_initializer=self.kernel_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
        )
        dense.build(shape)
        mark_hidden_matrix(dense.kernel)
        return dense
