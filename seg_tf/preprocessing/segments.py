"""Examples of one or two texts as word pieces, in the graph.

Shape key: B examples, T texts of each, N characters.
"""

from collections.abc import Sequence

import tensorflow as tf

from seg_tf.text.graph.flat import FlatTexts
from seg_tf.text.graph.word_pieces import GraphWordPieces


def spell(
    texts: tf.Tensor, word_pieces: GraphWordPieces, most_words: int
) -> tf.RaggedTensor:
    """Word pieces of texts, each read as one sentence: ragged int32 `(B, pieces)`.

    Args:
        texts: string `(B,)`.
        word_pieces: what makes pieces of them.
        most_words: words that are read of each; further ones are left out.
    """
    flat, num_texts = FlatTexts.of(texts), tf.size(texts)
    pieces = word_pieces.encode(
        flat.code_points,
        flat.starts,
        flat.ends,
        tf.range(num_texts),
        most_words=most_words,
    )
    return tf.RaggedTensor.from_value_rowids(
        pieces.ids, pieces.spans, nrows=num_texts, validate=False
    )


def encode_segments(
    texts: Sequence[tf.Tensor], word_pieces: GraphWordPieces, capacity: int
) -> tuple[list[tf.RaggedTensor], tf.Tensor]:
    """The pieces of texts, the longest cut to what a row takes.

    Args:
        texts: T string tensors `(B,)`.
        word_pieces: what makes pieces of them.
        capacity: the most pieces of an example.

    Returns:
        T ragged int32 tensors `(B, pieces)`; and bool `(B,)`, whether an example was
        cut.
    """
    spelled = [
        spell(of_text, word_pieces, capacity + 1).with_row_splits_dtype(tf.int64)
        for of_text in texts
    ]
    lengths = tf.stack([one.row_lengths() for one in spelled], axis=1)
    lengths = tf.cast(lengths, tf.int32)
    kept = cut_longest(lengths, capacity)
    cut = []
    for text, one in enumerate(spelled):
        place = tf.ragged.range(lengths[:, text])
        cut.append(tf.ragged.boolean_mask(one, place < kept[:, text, tf.newaxis]))
    return cut, tf.reduce_any(kept < lengths, axis=1)


def cut_longest(lengths: tf.Tensor, capacity: int) -> tf.Tensor:
    """Lengths of texts after truncation by BERT's rule.

    Piece by piece, the longest text loses its last one, of equally long texts the last
    text. In other words, all texts keep the same number of pieces or what they have.
    For example, lengths [5, 2, 6] become [4, 2, 4] of 10 pieces, and [4, 2, 3] of 9.

    Args:
        lengths: int32 tensor `(B, T)`.
        capacity: the most pieces of an example.

    Returns:
        int32 tensor `(B, T)`.
    """
    num_texts = tf.shape(lengths)[1]
    # What each text may keep if all shorter ones keep all that they have.
    rising = tf.sort(lengths, axis=1)
    shorter = tf.cumsum(rising, axis=1, exclusive=True)
    shares = tf.maximum(capacity - shorter, 0) // tf.range(num_texts, 0, -1)
    is_cut = rising > shares
    first = tf.argmax(tf.cast(is_cut, tf.int32), axis=1, output_type=tf.int32)
    share = tf.gather(shares, first, batch_dims=1)[:, tf.newaxis]
    level = tf.minimum(lengths, share)
    # The remainder goes to the first texts that have more.
    remainder = capacity - tf.reduce_sum(level, axis=1, keepdims=True)
    is_longer = lengths > share
    gets_more = is_longer & (tf.cumsum(tf.cast(is_longer, tf.int32), 1) <= remainder)
    level += tf.cast(gets_more, tf.int32)
    return tf.where(tf.reduce_any(is_cut, axis=1, keepdims=True), level, lengths)
