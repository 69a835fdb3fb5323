"""A transformer layer inside sentences, many of which share a row."""

# Shape key: B batch, L row length, T block length, G blocks, D hidden size.

from typing import Any

import keras
from keras import ops

from seg_tf.layers.constructor_arguments import with_arguments
from seg_tf.layers.recomputation import recomputable
from seg_tf.layers.transformer_encoder import TransformerEncoder
from seg_tf.layers.transformer_layer import TransformerLayer
from seg_tf.ops.sentence_blocks import to_blocks


@keras.saving.register_keras_serializable(package="seg_tf")
class SentenceTransformerLayer(TransformerLayer):
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
        **kwargs: further arguments of `TransformerLayer`.

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
