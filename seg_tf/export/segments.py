"""Examples of one or two texts as word pieces, in the graph.

Shape key: B examples, T texts of each, N characters.
"""

from collections.abc import Sequence

import tensorflow as tf

from seg_tf.text.graph.characters import FlatTexts
from seg_tf.text.graph.pieces import GraphWordPieces


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
    spelled = []
    for of_text in texts:
        flat = FlatTexts.of(of_text)
        pieces = word_pieces.encode(
            flat.code_points,
            flat.starts,
            flat.ends,
            tf.range(tf.size(of_text)),
            most_words=room + 1,
        )
        spelled.append(
            tf.RaggedTensor.from_value_rowids(
                pieces.ids, pieces.spans, nrows=tf.size(of_text), validate=False
            ).with_row_splits_dtype(tf.int64)
        )
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
