"""Lays out rows `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]` (BERT and SegaBERT)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.layouts.layout import Features, FirstToken
from seg_tf.layouts.rows import Example, IndexedLayout, room_for_pieces, row_features
from seg_tf.ops.attention import mean_vectors
from seg_tf.text.graph.trees import Trees, largest

WINDOW_INDICES = ("position_index", "paragraph_index", "sentence_index", "token_index")


class WindowLayout(IndexedLayout):
    """Lays out `[CLS]` and each text with a `[SEP]` after it, using `window_rows`.

    Rows have no sentence tokens, so a sentence vector is the mean over its pieces.
    """

    vectors_per_text = False
    extra_features = ("sentence_number",)
    unread_features = extra_features

    def capacity(self, num_texts: int) -> int:
        return room_for_pieces(1 + num_texts, self.max_length, num_texts, num_texts)

    def rows(self, trees: Trees, row_length: int | tf.Tensor | None = None) -> Features:
        if row_length is None:
            num_texts = 1 + largest(trees.texts)
            row_length = 1 + num_texts + largest(trees.num_pieces())
        return window_rows(
            trees, special_ids=self._special_ids, row_length=row_length, caps=self._caps
        )

    def row_shape(self, example: Example) -> tuple[int]:
        return (self._bucket(example),)

    def readout(self, num_texts: int) -> FirstToken:
        self.capacity(num_texts)
        return FirstToken()

    def sentence_vectors(
        self, encoder: Any, sequence_output: tf.Tensor, features: Features
    ) -> tuple[tf.Tensor, tf.Tensor]:
        number = features["sentence_number"]
        return mean_vectors(sequence_output, number, largest(number))

    @staticmethod
    def _specials_before(example: Example) -> np.ndarray:
        # One `[SEP]` for each earlier text.
        texts = np.array([segment.text for segment in example])
        return np.concatenate([[0], np.cumsum(texts[1:] != texts[:-1])])


def window_rows(
    trees: Trees,
    *,
    special_ids: Mapping[str, int],
    row_length: int | tf.Tensor,
    caps: Mapping[str, int],
) -> dict[str, tf.Tensor]:
    """Lays out `[CLS]` and the pieces of each text, with a `[SEP]` after each text.

    For example, a text of two paragraphs, [[7, 8], [9]] and [[5]], becomes

      tokens           [CLS]  7  8  9  5  [SEP]
      position_index      0   1  2  3  4     5
      paragraph_index     0   0  0  0  1     1
      sentence_index      0   0  0  1  0     0
      token_index         0   0  1  0  0     1
      sentence_number     0   1  1  2  3     0

    Positions are consecutive. All other indices of `[CLS]` equal those of the first
    piece. `[SEP]` has the indices of the previous piece, with the token index increased
    by one. The sentence index restarts in each paragraph, and the token index in each
    sentence (Segatron, section 3.2). `token_type` is the text number.

    Args:
        trees: `Trees`. The texts.
        special_ids: dict. Ids of "cls", "sep" and "pad".
        row_length: int. Length L of the rows. All tokens must fit.
        caps: dict. Embedding table size of each requested index or `token_type`.

    Returns:
        `token_ids`, `padding_mask`, the indices in `caps`, each less than its cap, and
        `sentence_number`, from 1, or 0 at special tokens. Each is `(B, L)`, padded.
    """
    count = trees.num_sentences[:, tf.newaxis]
    table = _sentence_table(trees, caps)
    ends = table.pop("end")
    position = tf.range(row_length)[tf.newaxis, :] + tf.zeros_like(count)
    sentence = tf.minimum(tf.searchsorted(ends, position, side="right"), count - 1)
    values = tf.gather(tf.stack(list(table.values()), axis=2), sentence, batch_dims=1)
    columns = dict(zip(table, tf.unstack(values, axis=2), strict=True))

    is_cls, is_sep = position == 0, position == columns["separator"]
    is_token = position < ends[:, -1:]
    # [CLS] is at the start of the first sentence, before its first piece.
    offset = position - tf.maximum(columns["start"], 1)
    is_piece = is_token & ~is_cls & ~is_sep
    return {
        **row_features(
            trees.pieces,
            position - 1 - columns["separators_before"],
            is_piece=is_piece,
            specials=tf.where(is_cls, special_ids["cls"], special_ids["sep"]),
            is_token=is_token,
            pad_id=special_ids["pad"],
            indices={
                **columns,
                "position_index": position,
                "token_index": columns["first_token"] + tf.maximum(offset, 0),
            },
            caps=caps,
        ),
        "sentence_number": tf.where(is_piece, sentence + 1, 0),
    }


def _sentence_table(trees: Trees, caps: Mapping[str, int]) -> dict[str, tf.Tensor]:
    """Returns bounds of sentences in rows, and indices of their pieces, `(B, S)`.

    `start` and `end` include special tokens with the indices of a sentence: `[CLS]`
    before the first, and `[SEP]`, at position `separator`, after the last of each text.
    """
    is_sentence = trees.is_sentence()
    next_texts = tf.pad(trees.texts[:, 1:], [[0, 0], [0, 1]], constant_values=-1)
    is_next = tf.pad(is_sentence[:, 1:], [[0, 0], [0, 1]])
    ends_text = is_sentence & ((trees.texts != next_texts) | ~is_next)
    num_separators = tf.cast(ends_text, tf.int32)
    lengths = tf.where(is_sentence, trees.sentence_lengths + num_separators, 0)
    # [CLS] belongs to the first sentence.
    lengths += tf.cast(tf.range(tf.shape(lengths)[1])[tf.newaxis, :] == 0, tf.int32)
    ends = tf.cumsum(lengths, axis=1)
    shared_indices = {
        "paragraph_index": trees.capped_paragraphs(caps.get("paragraph_index")),
        "sentence_index": trees.sentences,
        "token_type": trees.texts,
    }
    return {
        "end": ends,
        "start": ends - lengths,
        "separator": tf.where(ends_text, ends - 1, -1),
        "separators_before": tf.cumsum(num_separators, axis=1, exclusive=True),
        "first_token": trees.first_tokens,
        **{name: values for name, values in shared_indices.items() if name in caps},
    }
