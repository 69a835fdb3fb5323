"""ReAT's transformer layers within and across the sentences of a text."""

from typing import Any

import keras
from keras import ops

from seg_tf.layers.common import gelu, recomputable
from seg_tf.layers.transformer import TransformerEncoder, TransformerLayer
from seg_tf.ops.attention import gather_vectors

# Shape key: B batch, L row length, N sentences, T block length, G blocks, D width.


@keras.saving.register_keras_serializable(package="seg_tf")
class SentenceTransformerLayer(TransformerLayer):
    """BERT's transformer layer, applied within each sentence (ReAT, section II.B).

    The paper pads each sentence to a separate row. Here, short sentences share a block
    of positions, and a mask separates them. The results are the same.

    Args:
        intermediate_size: int. Width inside the feed-forward block.
        num_heads: int. Number of attention heads. Must divide the width.
        block_length: int. Block length T. Must divide L. Sentences cannot cross blocks.
        **kwargs: other arguments of `TransformerLayer`.

    Call arguments:
        hidden: float tensor `(B, L, D)`.
        sentence_number: int tensor `(B, L)`, 0 at padding. Positions with the same
            number see each other.
        training: bool. Whether to apply dropout.

    Returns:
        Tensor `(B, L, D)` in the compute dtype, undefined at padding.

    Example:
    >>> layer = SentenceTransformerLayer(
    ...     intermediate_size=16, num_heads=2, block_length=4
    ... )
    >>> hidden = keras.random.normal((1, 8, 8))
    >>> tuple(layer(hidden, ops.array([[1, 1, 2, 2, 3, 3, 3, 0]])).shape)
    (1, 8, 8)
    """

    def __init__(
        self, intermediate_size: int, num_heads: int, block_length: int, **kwargs: Any
    ):
        super().__init__(intermediate_size, num_heads, **kwargs)
        self.block_length = block_length
        self.transformer_layer = TransformerEncoder(
            **self._inner_arguments(), name="transformer_layer"
        )

    def build(self, hidden_shape: Any) -> None:
        hidden_size = hidden_shape[-1]
        if self.num_heads < 1 or hidden_size % self.num_heads:
            raise ValueError(
                "`num_heads` must divide the width of `hidden`. Received: "
                f"num_heads={self.num_heads}, `hidden` of width {hidden_size}"
            )
        self.transformer_layer.build((None, self.block_length, hidden_size))

    @recomputable
    def call(
        self, hidden: Any, sentence_number: Any, training: bool | None = None
    ) -> Any:
        length = hidden.shape[1]
        if length is not None and length % self.block_length:
            raise ValueError(
                "`block_length` must divide the length of a row. Received: "
                f"block_length={self.block_length}, rows of length {length}"
            )
        # Padding sees padding, so that no softmax is empty.
        number_GT = ops.reshape(sentence_number, (-1, self.block_length))
        hidden_GTD = self.transformer_layer(
            ops.reshape(hidden, (-1, self.block_length, hidden.shape[2])),
            number_GT,
            number_GT,
            training=training,
        )
        return ops.reshape(hidden_GTD, ops.shape(hidden))


@keras.saving.register_keras_serializable(package="seg_tf")
class AlphaTransformerLayer(TransformerLayer):
    """An alpha transformer layer (ReAT, section II.C and figure 2).

    It has four blocks, each followed by a residual connection and LayerNorm: attention
    within the sentence, feed-forward, *attention token mixing*, and a second
    feed-forward block. In mixing, every position attends to the `<Attn>` positions of
    its text. This is the only computation across sentences.

    Args:
        intermediate_size: int. Width inside both feed-forward blocks.
        num_heads: int. Number of heads in both attention blocks.
        block_length, `**kwargs`: as for `SentenceTransformerLayer`.

    Call arguments:
        hidden: float tensor `(B, L, D)`.
        sentence_number: int tensor `(B, L)`, number of the sentence, 0 at padding.
        text_number: int tensor `(B, L)`, number of the text, 0 at padding.
        attention_positions: int tensor `(B, N)`, position of each sentence's `<Attn>`.
        sentence_mask: bool tensor `(B, N)`, False at empty slots.
        training: bool. Whether to apply dropout.

    Returns:
        Tensor `(B, L, D)` in the compute dtype, undefined at padding.
    """

    def __init__(
        self, intermediate_size: int, num_heads: int, block_length: int, **kwargs: Any
    ):
        super().__init__(intermediate_size, num_heads, **kwargs)
        self.block_length = block_length
        self.sentence_layer = SentenceTransformerLayer(
            **self._inner_arguments(), block_length=block_length, name="sentence_layer"
        )

    def build(self, hidden_shape: Any) -> None:
        size = hidden_shape[-1]
        self.sentence_layer.build(hidden_shape)
        self.mixing = self._attention("mixing")
        self.mixing.build((None, None, size), (None, None, size))
        self.intermediate_dense = self._dense(
            "feedforward_intermediate_dense",
            self.intermediate_size,
            size,
            activation=gelu(self.approximate_gelu),
        )
        self.output_dense = self._dense(
            "feedforward_output_dense", size, self.intermediate_size
        )
        self.mixing_layer_norm = self._norm("mixing_layer_norm", size)
        self.feedforward_layer_norm = self._norm("feedforward_layer_norm", size)
        self.mixing_dropout = self._dropout("mixing_dropout")
        self.feedforward_dropout = self._dropout("feedforward_dropout")

    @recomputable
    def call(
        self,
        hidden: Any,
        sentence_number: Any,
        text_number: Any,
        attention_positions: Any,
        sentence_mask: Any,
        training: bool | None = None,
    ) -> Any:
        hidden_BLD = self.sentence_layer(hidden, sentence_number, training=training)

        key_text_BN = ops.take_along_axis(text_number, attention_positions, axis=1)
        mixed_BLD = self.mixing(
            hidden_BLD,
            gather_vectors(hidden_BLD, attention_positions),
            text_number,
            ops.where(ops.cast(sentence_mask, "bool"), key_text_BN, -1),
            training=training,
        )
        mixed_BLD = self.mixing_dropout(mixed_BLD, training=training)
        hidden_BLD = self.mixing_layer_norm(hidden_BLD + mixed_BLD)

        inner_BLD = self.output_dense(self.intermediate_dense(hidden_BLD))
        inner_BLD = self.feedforward_dropout(inner_BLD, training=training)
        return self.feedforward_layer_norm(hidden_BLD + inner_BLD)
