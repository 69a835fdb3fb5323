"""A transformer layer inside sentences, many of which share a row."""

# Shape key: B batch, L row length, T block length, G blocks, D hidden size.

from typing import Any

import keras
from keras import ops

from seg_tf.layers.constructor_arguments import with_arguments
from seg_tf.layers.recomputation import recomputable
from seg_tf.layers.transformer_encoder import TransformerEncoder
from seg_tf.ops.sentence_blocks import to_blocks


@keras.saving.register_keras_serializable(package="seg_tf")
class SentenceTransformerLayer(keras.layers.Layer):
    """BERT's transformer layer, each sentence by itself (ReAT, section II.B).

    The paper computes an array of sentences × positions, most of which is padding.
    Here short sentences share a block of positions, in which a mask keeps them apart:
    the numbers are the same, and every shape is known. A sentence that has a block to
    itself, as in the paper's array, is the case of one sentence a block.

    Args:
        intermediate_size: int. Width inside the feed-forward block.
        num_heads: int. Attention heads, which share the width.
        block_length: int. `T`, which divides `L`; no sentence reaches over a multiple
            of it.
        dropout: float. Rate after both blocks.
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
        sentence_number: int tensor `(B, L)`: positions with the same number see each
            other. 0 at padding.
        training: bool. Whether there is dropout.

    Returns:
        Tensor `(B, L, D)` in the compute dtype. Padding holds numbers without meaning.

    Raises:
        ValueError: if the heads do not divide the width, or `block_length` is less
            than 1.

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
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        approximate_gelu: bool = False,
        recompute: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if block_length < 1:
            raise ValueError(
                "`block_length` must be at least 1. Received: "
                f"block_length={block_length}"
            )
        self.intermediate_size = intermediate_size
        self.num_heads = num_heads
        self.block_length = block_length
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.approximate_gelu = approximate_gelu
        self.recompute = recompute
        self.transformer_layer = TransformerEncoder(
            intermediate_size=intermediate_size,
            num_heads=num_heads,
            dropout=dropout,
            attention_dropout=attention_dropout,
            layer_norm_epsilon=layer_norm_epsilon,
            initializer_range=initializer_range,
            approximate_gelu=approximate_gelu,
            dtype=self.dtype_policy,
            name="transformer_layer",
        )

    def build(self, hidden_shape: Any, sentence_number_shape: Any = None) -> None:
        hidden_size = hidden_shape[-1]
        if hidden_size % self.num_heads:
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

    def compute_output_shape(
        self, hidden_shape: tuple[Any, ...], sentence_number_shape: Any = None
    ) -> tuple[Any, ...]:
        # Said, not inferred: Keras would try `call` on rows of a length of its own on
        # JAX, which `block_length` does not divide.
        return hidden_shape

    def get_config(self) -> dict[str, Any]:
        return with_arguments(super().get_config(), self, SentenceTransformerLayer)
