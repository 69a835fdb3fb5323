"""ReAT's alpha layer: a layer inside sentences, and one between those of a text."""

# Shape key: B batch, L row length, N sentences, D hidden size.

from typing import Any

import keras

from seg_tf.layers.constructor_arguments import with_arguments
from seg_tf.layers.hidden_matrices import mark_hidden_matrix
from seg_tf.layers.recomputation import recomputable
from seg_tf.layers.sentence_transformer_layer import SentenceTransformerLayer
from seg_tf.layers.transformer_layer import TransformerLayer
from seg_tf.ops.activations import gelu
from seg_tf.ops.gathering import gather_vectors
from seg_tf.ops.sentence_blocks import text_of_positions


@keras.saving.register_keras_serializable(package="seg_tf")
class AlphaTransformerLayer(TransformerLayer):
    """An alpha transformer layer (ReAT, section II.C and figure 2), with a batch.

    Four blocks, each with a residual connection and LayerNorm after it: attention
    inside the sentence, feed-forward, *attention token mixing*, and a second
    feed-forward with separate weights. In mixing, every position of a text attends
    to the `<Attn>` positions of the sentences of its text, and to nothing else. Of all
    computation this alone goes across sentences.

    Args:
        intermediate_size: int. Width inside both feed-forward blocks.
        num_heads: int. Heads of both attentions, which share the width.
        block_length: int. Positions in which a sentence lies as a whole.
        **kwargs: further arguments of `TransformerLayer`.

    Call arguments:
        hidden: float tensor `(B, L, D)`.
        sentence_number: int tensor `(B, L)`, which sentence; 0 at padding.
        text_number: int tensor `(B, L)`, which text; 0 at padding.
        attention_positions: int tensor `(B, N)`, positions of the `<Attn>`.
        sentence_mask: bool tensor `(B, N)`, False where there is no sentence.
        training: bool. Whether there is dropout.

    Returns:
        Tensor `(B, L, D)` in the compute dtype. Padding holds numbers without meaning.

    Raises:
        ValueError: if the heads do not divide the width, or `block_length` is less
            than 1.

    Example:
    >>> from keras import ops
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
