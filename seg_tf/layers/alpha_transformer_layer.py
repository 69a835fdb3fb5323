"""ReAT's alpha layer: a layer inside sentences, and one between those of a text."""

# Shape key: B batch, L row length, N sentences, D hidden size.

from typing import Any

import keras

from seg_tf.layers.constructor_arguments import with_arguments
from seg_tf.layers.multi_head_attention import MultiHeadAttention
from seg_tf.layers.recomputation import recomputable
from seg_tf.layers.sentence_transformer_layer import SentenceTransformerLayer
from seg_tf.ops.activations import gelu
from seg_tf.ops.gathering import gather_vectors
from seg_tf.ops.sentence_blocks import text_of_positions


@keras.saving.register_keras_serializable(package="seg_tf")
class AlphaTransformerLayer(keras.layers.Layer):
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
        dropout: float. Rate after each block.
        attention_dropout: float. Rate on the attention weights.
        layer_norm_epsilon: float.
        initializer_range: float. Standard deviation of the truncated normal
            distribution that kernels start from.
        approximate_gelu: bool. GELU by tanh instead of by erf.
        recompute: bool. Whether the backward pass of training computes the layer again
            instead of holding its inner values (`seg_tf.layers.recomputation`).
        **kwargs: arguments of `keras.layers.Layer`.

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
        self.block_length = block_length
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.approximate_gelu = approximate_gelu
        self.recompute = recompute
        self.sentence_layer = SentenceTransformerLayer(
            intermediate_size=intermediate_size,
            num_heads=num_heads,
            block_length=block_length,
            dropout=dropout,
            attention_dropout=attention_dropout,
            layer_norm_epsilon=layer_norm_epsilon,
            initializer_range=initializer_range,
            approximate_gelu=approximate_gelu,
            dtype=self.dtype_policy,
            name="sentence_layer",
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
        self.mixing = MultiHeadAttention(
            self.num_heads,
            self.attention_dropout,
            self._initializer(),
            dtype=self.dtype_policy,
            name="mixing",
        )
        self.mixing.build(shape, shape)
        self.intermediate_dense = keras.layers.Dense(
            self.intermediate_size,
            activation=gelu(self.approximate_gelu),
            kernel_initializer=self._initializer(),
            dtype=self.dtype_policy,
            name="feedforward_intermediate_dense",
        )
        self.intermediate_dense.build(shape)
        self.output_dense = keras.layers.Dense(
            hidden_size,
            kernel_initializer=self._initializer(),
            dtype=self.dtype_policy,
            name="feedforward_output_dense",
        )
        self.output_dense.build((None, None, self.intermediate_size))
        self.mixing_layer_norm = self._layer_norm("mixing_layer_norm", shape)
        self.feedforward_layer_norm = self._layer_norm("feedforward_layer_norm", shape)
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

    def compute_output_shape(
        self, hidden_shape: tuple[Any, ...], **others: Any
    ) -> tuple[Any, ...]:
        # As in `SentenceTransformerLayer`.
        return hidden_shape

    def get_config(self) -> dict[str, Any]:
        return with_arguments(super().get_config(), self, AlphaTransformerLayer)

    def _initializer(self) -> keras.initializers.Initializer:
        # One initializer draws the same numbers at every call.
        return keras.initializers.TruncatedNormal(stddev=self.initializer_range)

    def _layer_norm(self, name: str, shape: Any) -> keras.layers.Layer:
        layer = keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name
        )
        layer.build(shape)
        return layer

    def _dropout(self, name: str) -> keras.layers.Layer:
        return keras.layers.Dropout(self.dropout, dtype=self.dtype_policy, name=name)
