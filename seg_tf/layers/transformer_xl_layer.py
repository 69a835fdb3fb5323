"""A layer of Transformer-XL: relative attention, then a feed-forward block."""

# Shape key: B batch, T queries, M memory, D hidden size.

from typing import Any

import keras

from seg_tf.layers.constructor_arguments import with_arguments
from seg_tf.layers.dropout import Dropout
from seg_tf.layers.hidden_matrices import mark_hidden_matrix
from seg_tf.layers.recomputation import recomputable
from seg_tf.layers.segment_relative_attention import SegmentRelativeAttention


@keras.saving.register_keras_serializable(package="seg_tf")
class TransformerXLLayer(keras.layers.Layer):
    """Post-norm layer around `SegmentRelativeAttention` (Dai et al., 2019).

    Args:
        num_heads: int.
        head_size: int.
        intermediate_size: int. Width inside the feed-forward block.
        dropout: float. Rate after the attention, inside and after the feed-forward
            block.
        attention_dropout: float. Rate on the attention weights.
        layer_norm_epsilon: float.
        kernel_initializer: initializer of every kernel.
        recompute: bool. Whether the backward pass of training computes the layer again
            instead of holding its inner values (`seg_tf.layers.recomputation`).
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments: those of `SegmentRelativeAttention`.

    Returns:
        Tensor `(B, T, D)`.
    """

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        intermediate_size: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        layer_norm_epsilon: float = 1e-5,
        kernel_initializer: Any = "glorot_uniform",
        recompute: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.head_size = head_size
        self.intermediate_size = intermediate_size
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recompute = recompute

    def build(self, hidden_shape: Any) -> None:
        self.attention = SegmentRelativeAttention(
            self.num_heads,
            self.head_size,
            self.attention_dropout,
            self.kernel_initializer.clone(),
            dtype=self.dtype_policy,
            name="attention",
        )
        self.attention.build(hidden_shape)
        self.attention_layer_norm = self._layer_norm("attention_layer_norm")
        self.attention_layer_norm.build(hidden_shape)
        size = hidden_shape[-1]
        self.intermediate = self._dense(
            self.intermediate_size, "intermediate", activation="relu"
        )
        self.intermediate.build(hidden_shape)
        self.output_dense = self._dense(size, "output")
        self.output_dense.build((*hidden_shape[:-1], self.intermediate_size))
        self.output_layer_norm = self._layer_norm("output_layer_norm")
        self.output_layer_norm.build(hidden_shape)
        # One layer for all three: it has a rate and draws anew at each call.
        self.dropout_layer = Dropout(
            self.dropout, dtype=self.dtype_policy, name="dropout"
        )
        mark_hidden_matrix(self.intermediate.kernel)
        mark_hidden_matrix(self.output_dense.kernel)

    @recomputable
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
        attended_BTD = self.attention(
            hidden,
            memory,
            positions,
            mask,
            content_bias,
            position_bias,
            training=training,
        )
        attended_BTD = self.dropout_layer(attended_BTD, training=training)
        hidden = self.attention_layer_norm(hidden + attended_BTD)
        inner_BTI = self.intermediate(hidden)
        inner_BTI = self.dropout_layer(inner_BTI, training=training)
        output_BTD = self.output_dense(inner_BTI)
        output_BTD = self.dropout_layer(output_BTD, training=training)
        return self.output_layer_norm(hidden + output_BTD)

    def compute_output_shape(self, hidden_shape: Any, **other_shapes: Any) -> Any:
        return hidden_shape

    def _dense(self, size: int, name: str, **arguments: Any) -> keras.layers.Dense:
        return keras.layers.Dense(
            size,
            kernel_initializer=self.kernel_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
            **arguments,
        )

    def _layer_norm(self, name: str) -> keras.layers.LayerNormalization:
        return keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name
        )

    def get_config(self) -> dict[str, Any]:
        return with_arguments(super().get_config(), self, TransformerXLLayer)
