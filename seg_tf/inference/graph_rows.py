"""Rows of features from trees of texts, in the graph: those of `text_windows`.

Shape key: B rows, L row length, M sentences of a row.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from seg_tf.text.graph.characters import TextTrees
from seg_tf.text.sentence_rows import sentence_rows
from seg_tf.text.vocabulary import Vocabulary
from seg_tf.text.window_indices import add_indices, locate

_SPECIAL_TOKENS = 2


def window_rows(
    trees: TextTrees, vocabulary: Vocabulary, caps: Mapping[str, int]
) -> dict[str, tf.Tensor]:
    """Lays out `[CLS] pieces [SEP]` (BERT, BERT with P.S., SegaBERT).

    A text without a piece becomes `[CLS] [SEP]`, whose indices are 0 but for the
    position.

    Args:
        trees: texts that fit into a window.
        vocabulary: of the model.
        caps: rows of each index table; which indices are wanted.

    Returns:
        `token_ids`, `padding_mask`, the indices and `sentence_number`, which sentence,
        from 1, every position holds a piece of, 0 if none; each `(B, L)`.
    """
    # At least one piece, sentence and paragraph, which an empty text does not have.
    is_empty = trees.num_pieces == 0
    num_pieces = tf.maximum(trees.num_pieces, 1)
    sentence_lengths = _at_least_one(trees.sentence_lengths, is_empty)
    row_length = tf.reduce_max(trees.num_pieces) + _SPECIAL_TOKENS
    indices = add_indices(
        num_pieces=num_pieces,
        sentence_lengths=sentence_lengths,
        paragraph_lengths=_at_least_one(trees.paragraph_lengths, is_empty),
        first_index=tf.zeros([tf.size(num_pieces), 3], tf.int32),
        # Positions of the piece that an empty text does not have.
        row_length=row_length + 1,
        caps=caps,
    )
    position = tf.range(row_length)[tf.newaxis, :]
    end = trees.num_pieces[:, tf.newaxis] + 1
    pieces = tf.pad(trees.pieces, [[0, 0], [1, 1]])
    token_ids = tf.where(position < end, pieces, vocabulary.sep_id)
    token_ids = tf.where(position == 0, vocabulary.cls_id, token_ids)
    is_token = position <= end
    of_empty = {"position_index": position}
    is_piece = (position > 0) & (position < end)
    sentence, _ = locate(
        tf.maximum(tf.minimum(position, end - 1) - 1, 0) + tf.zeros_like(end),
        sentence_lengths,
        tf.zeros_like(end),
    )
    return {
        "token_ids": tf.where(is_token, token_ids, vocabulary.pad_id),
        "padding_mask": is_token,
        **{
            name: tf.where(
                is_token,
                tf.where(
                    is_empty[:, tf.newaxis],
                    of_empty.get(name, 0),
                    index[:, :row_length],
                ),
                0,
            )
            for name, index in indices.items()
        },
        "sentence_number": tf.where(is_piece, sentence + 1, 0),
    }


def rows_of_sentences(
    trees: TextTrees,
    vocabulary: Vocabulary,
    caps: Mapping[str, int],
    max_sentences: int,
) -> dict[str, tf.Tensor]:
    """Lays out `[CLS] [SENT] s1 [SENT] s2 … [SEP]` (SLM), as the text stands.

    A text without a piece becomes `[CLS] [SENT] [SEP]`.

    Args:
        trees: texts that fit into a row.
        vocabulary: of the model.
        caps: rows of each index table; which indices are wanted.
        max_sentences: M.

    Returns:
        What `sentence_rows` returns.
    """
    lengths = _widened(trees.sentence_lengths, max_sentences)
    number = tf.broadcast_to(tf.range(max_sentences)[tf.newaxis, :], tf.shape(lengths))
    paragraphs, sentences = locate(
        tf.minimum(number, tf.maximum(trees.num_sentences - 1, 0)[:, tf.newaxis]),
        _at_least_one(trees.paragraph_lengths, trees.num_sentences == 0),
        tf.zeros_like(number[:, :1]),
    )
    num_sentences = tf.maximum(trees.num_sentences, 1)
    return sentence_rows(
        pieces=tf.pad(trees.pieces, [[0, 0], [0, 1]]),
        sentence_lengths=lengths,
        num_sentences=num_sentences,
        places=number,
        paragraphs=paragraphs,
        sentences=sentences,
        row_length=tf.reduce_max(trees.num_pieces + num_sentences) + _SPECIAL_TOKENS,
        special_ids=vocabulary.special_ids,
        sent_id=vocabulary.sent_id,
        caps=caps,
    )


def _widened(lengths: tf.Tensor, width: int) -> tf.Tensor:
    """The same with more columns of 0, of a static number."""
    padded = tf.pad(lengths, [[0, 0], [0, width]])[:, :width]
    return tf.ensure_shape(padded, [None, width])


def _at_least_one(lengths: tf.Tensor, is_empty: tf.Tensor) -> Any:
    """Lengths with one of 1 where there is none."""
    first = tf.cast(is_empty, tf.int32)[:, tf.newaxis]
    padded = tf.pad(lengths, [[0, 0], [0, 1]])
    return padded + tf.pad(first, [[0, 0], [0, tf.shape(padded)[1] - 1]])
