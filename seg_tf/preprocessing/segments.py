"""Examples of one or two texts as word pieces, in the graph.

Shape key: B examples, T texts of each, N characters.
"""

from collections.abc import Sequence

import tensorflow as tf

from seg_tf.text.graph.characters import FlatTexts
from seg_tf.text.graph.pieces import GraphWordPieces


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
    texts: Sequence[tf.Tensor], word_pieces: GraphWordPieces, room: int
) -> tuple[list[tf.RaggedTensor], tf.Tensor]:
    """The pieces of texts, the longest cut to what a row has room for.

    Args:
        texts: T string tensors `(B,)`, one or two.
        word_pieces: what makes pieces of them.
        room: the most pieces of an example.

    Returns:
        T ragged int32 tensors `(B, pieces)`; and bool `(B,)`, whether an example was
        cut.
    """
    spelled = [
        spell(of_text, word_pieces, room + 1).with_row_splits_dtype(tf.int64)
        for of_text in texts
    ]
    lengths = [tf.cast(one.row_lengths(), tf.int32) for one in spelled]
    kept = cut_longest(lengths, room)
    is_cut = tf.reduce_any([k < n for k, n in zip(kept, lengths, strict=True)], axis=0)
    cut = [
        tf.ragged.boolean_mask(
            one, tf.ragged.range(tf.cast(one.row_lengths(), tf.int32)) < _rows(most)
        )
        for one, most in zip(spelled, kept, strict=True)
    ]
    return cut, is_cut


def cut_longest(lengths: Sequence[tf.Tensor], room: int) -> list[tf.Tensor]:
    """Lengths of one or two texts after truncation by BERT's rule.

    Args:
        lengths: T int32 tensors `(B,)`.
        room: the most pieces of an example.
    """
    if len(lengths) == 1:
        return [tf.minimum(lengths[0], room)]
    first, second = lengths
    # A text that needs no more than half keeps all of it.
    half = room // 2
    kept_first = tf.minimum(first, room - tf.minimum(second, half))
    return [kept_first, tf.minimum(second, room - kept_first)]


def _rows(values: tf.Tensor) -> tf.Tensor:
    return values[:, tf.newaxis]
