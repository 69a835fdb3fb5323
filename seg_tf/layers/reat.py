"""ReAT's layers: inside sentences, many of which share a row, and between sentences."""

from typing import Any

import keras
from keras import ops

from seg_tf.layers.common import gelu, mark_hidden_matrix, recomputable, with_arguments
from seg_tf.layers.transformer import TransformerEncoder, TransformerLayer
from seg_tf.ops.gathering import gather_vectors, text_of_positions, to_blocks

# Shape key: B batch, L row length, N sentences, T block length, G blocks, D width.


@keras.saving.register_keras_serializable(package="seg_tf")
class SentenceTransformerLayer(TransformerLayer):
    """BERT's transformer layer within each sentence (ReAT, section II.B).

    The paper computes an array of sentences × positions, most of which is padding. Here
    short sentences share a block of positions, in which a mask separates them: the
    results are the same, and every shape is known.

    Args:
        intermediate_size: int. Width inside the feed-forward block.
        num_heads: int. Attention heads, which share the width.
        block_length: int. `T`, which divides `L`; no sentence crosses a multiple of it.
        **kwargs: further arguments of `TransformerLayer`.

    Call arguments:
        hidden: float tensor `(B, L, D)`.
        sentence_number: int tensor `(B, L)`: positions with the same number see each
            other. 0 at padding.
        training: bool. Whether there is dropout.

    Returns:
        Tensor `(B, L, D)` in the compute dtype, undefined at padding.

    Raises:
        ValueError: if the heads do not divide the width, or `block_length` is below 1.

    Example:
    >>> layer = SentenceTransformerLayer(
    ...     intermediate_size=16, num_heads=2, block_length=4
    ... )
    >>> hidden = keras.random.normal((1, 8, 8))
    >>> tuple(layer(hidden, ops.array([[1, 1, 2, 2, 3, 3, 3, 0]])).shape)
    (1, 8, 8)
    """

    def __init__(
        self,
        intermediate_size: int,
        num_heads: int,
        block_length: int,
        **kwargs: Any,
    ):
        super().__init__(intermediate_size, num_heads, **kwargs)
        if block_length < 1:
            raise ValueError(
                "`block_length` must be at least 1. Received: "
                f"block_length={block_length}"
            )
        self.block_length = block_length
        self.transformer_layer = TransformerEncoder(
            **self._inner_arguments(), name="transformer_layer"
        )

    def build(self, hidden_shape: Any, sentence_number_shape: Any = None) -> None:
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
        # Padding sees padding: with nothing to see, a softmax would be over nothing.
        number_GT = to_blocks(sentence_number, self.block_length)
        hidden_GTD = self.transformer_layer(
            to_blocks(hidden, self.block_length),
            number_GT,
            number_GT,
            training=training,
        )
        return ops.reshape(hidden_GTD, ops.shape(hidden))

    def get_config(self) -> dict[str, Any]:
        return with_arguments(super().get_config(), self, SentenceTransformerLayer)


@keras.saving.register_keras_serializable(package="seg_tf")
class AlphaTransformerLayer(TransformerLayer):
    """An alpha transformer layer (ReAT, section II.C and figure 2), with a batch.

    Four blocks, each followed by a residual connection and LayerNorm: attention inside
    the sentence, feed-forward, *attention token mixing*, and a second feed-forward with
    separate weights. In mixing, every position of a text attends to the `<Attn>`
    positions of the sentences of its text. This is the only computation across
    sentences.

    Args:
        intermediate_size: int. Width inside both feed-forward blocks.
        num_heads: int. Heads of both attentions, which share the width.
        block_length: int. Positions of a block, which contains whole sentences.
        **kwargs: further arguments of `TransformerLayer`.

    Call arguments:
        hidden: float tensor `(B, L, D)`.
        sentence_number: int tensor `(B, L)`, number of the sentence; 0 at padding.
        text_number: int tensor `(B, L)`, number of the text; 0 at padding.
        attention_positions: int tensor `(B, N)`, positions of the `<Attn>`.
        sentence_mask: bool tensor `(B, N)`, False where there is no sentence.
        training: bool. Whether there is dropout.

    Returns:
        Tensor `(B, L, D)` in the compute dtype, undefined at padding.

    Raises:
        ValueError: if the heads do not divide the width, or `block_length` is below 1.

    Example:
    >>> layer = AlphaTransformerLayer(intermediate_size=16, num_heads=2, block_length=4)
    >>> hidden = keras.random.normal((1, 8, 8))
    >>> sentences = ops.array([[1, 1, 1, 0, 2, 2, 2, 2]])
    >>> texts = ops.array([[1, 1, 1, 0, 1, 1, 1, 1]])
    >>> mask = ops.ones((1, 2), dtype="bool")
    >>> tuple(layer(hidden, sentences, texts, ops.array([[1, 5]]), mask).shape)
    (1, 8, 8)
    """

    def __init__(
        self,
        intermediate_size: int,
        num_heads: int,
        block_length: int,
        **kwargs: Any,
    ):
        super().__init__(intermediate_size, num_heads, **kwargs)
        self.block_length = block_length
        self.sentence_layer = SentenceTransformerLayer(
            **self._inner_arguments(), block_length=block_length, name="sentence_layer"
        )

    def build(
        self,
        hidden_shape: Any,
        sentence_number_shape: Any = None,
        text_number_shape: Any = None,
        attention_positions_shape: Any = None,
        sentence_mask_shape: Any = None,
    ) -> None:
        hidden_size = hidden_shape[-1]
        shape = (None, None, hidden_size)
        self.sentence_layer.build(shape)
        self.mixing = self._attention("mixing")
        self.mixing.build(shape, shape)
        self.intermediate_dense = self._dense(
            self.intermediate_size,
            "feedforward_intermediate_dense",
            activation=gelu(self.approximate_gelu),
        )
        self.intermediate_dense.build(shape)
        self.output_dense = self._dense(hidden_size, "feedforward_output_dense")
        self.output_dense.build((None, None, self.intermediate_size))
        self.mixing_layer_norm = self._layer_norm("mixing_layer_norm")
        self.mixing_layer_norm.build(shape)
        self.feedforward_layer_norm = self._layer_norm("feedforward_layer_norm")
        self.feedforward_layer_norm.build(shape)
        self.mixing_dropout = self._dropout("mixing_dropout")
        self.feedforward_dropout = self._dropout("feedforward_dropout")
        mark_hidden_matrix(self.intermediate_dense.kernel)
        mark_hidden_matrix(self.output_dense.kernel)

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

        mixed_BLD = self.mixing(
            hidden_BLD,
            gather_vectors(hidden_BLD, attention_positions),
            text_number,
            text_of_positions(text_number, attention_positions, sentence_mask),
            training=training,
        )
        mixed_BLD = self.mixing_dropout(mixed_BLD, training=training)
        hidden_BLD = self.mixing_layer_norm(hidden_BLD + mixed_BLD)

        inner_BLD = self.output_dense(self.intermediate_dense(hidden_BLD))
        inner_BLD = self.feedforward_dropout(inner_BLD, training=training)
        return self.feedforward_layer_norm(hidden_BLD + inner_BLD)

    def get_config(self) -> dict[str, Any]:
        return with_arguments(super().get_config(), self, AlphaTransformerLayer)
