"""Lays out rows `[CLS] [SENT] s1 [SENT] s2 … [SEP]` of sentences (SLM).

Shape key: B rows, S sentences of a row, L row length, C = S + 2 candidates.
"""

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import tensorflow as tf

from seg_tf.layouts.layout import Features, SentenceTokens, TextCapacity
from seg_tf.layouts.rows import (
    NUM_SPECIAL_TOKENS,
    Example,
    IndexedLayout,
    room_for_pieces,
    row_features,
)
from seg_tf.ops.attention import gather_vectors
from seg_tf.text.graph.trees import Trees, largest

_GOLD = ("gold_candidates", "gold_lengths", "gold_paragraphs")
# Features that the objective `sentence_unshuffling` reads.
CANDIDATES = ("candidate_positions", "candidate_mask", *_GOLD)


class SentenceLayout(IndexedLayout):
    """Lays out sentences in text order, each after a `[SENT]` token.

    Calls `sentence_rows`, as in pretraining (SLM, section 2.1). The vector of a
    sentence is its `[SENT]` output. Token types distinguish texts only in question
    answering (section 2.2).
    """

    vectors_per_text = True
    extra_features = ("candidate_positions", "candidate_mask")
    unread_features = ("sentence_number", *_GOLD)

    def __init__(
        self, inputs: Any, encoder: Any, vocabulary: Any, max_length: int | None = None
    ):
        super().__init__(inputs, encoder, vocabulary, max_length)
        self.max_sentences = inputs.max_sentences
        self.longest_part = self.capacity(1)
        positions = self.max_length - NUM_SPECIAL_TOKENS
        # In short rows, at most half of the positions are for `[SENT]`.
        num_sentences = max(min(inputs.max_sentences, positions // 2), 1)
        room = max(positions - num_sentences, 1)
        self.text_capacity = TextCapacity(
            min(self.text_capacity.num_pieces, room), num_sentences
        )
        self.sent_id: int = vocabulary.sent_id
        self._distinguishes_texts = False

    def capacity(self, num_texts: int) -> int:
        num_specials = NUM_SPECIAL_TOKENS + num_texts
        return room_for_pieces(
            num_specials, self.max_length, num_texts, self.max_sentences
        )

    def rows(self, trees: Trees, row_length: int | tf.Tensor | None = None) -> Features:
        if row_length is None:
            num_tokens = trees.num_pieces() + trees.num_sentences
            row_length = NUM_SPECIAL_TOKENS + largest(num_tokens)
        return sentence_rows(
            trees if self._distinguishes_texts else trees.as_one_text(),
            special_ids=self._special_ids,
            sent_id=self.sent_id,
            row_length=row_length,
            caps=self._caps,
        )

    def row_shape(self, example: Example) -> tuple[int, int]:
        return self._bucket(example), len(example) + NUM_SPECIAL_TOKENS

    def for_spans(self) -> Self:
        layout = copy.copy(self)
        layout._distinguishes_texts = True
        return layout

    def readout(self, num_texts: int) -> SentenceTokens:
        self.capacity(num_texts)
        return SentenceTokens(num_texts)

    def sentence_vectors(
        self, encoder: Any, sequence_output: tf.Tensor, features: Features
    ) -> tuple[tf.Tensor, tf.Tensor]:
        vectors = gather_vectors(
            sequence_output, features["candidate_positions"][:, 1:-1]
        )
        # The last candidate is [SEP].
        mask = features["candidate_mask"][:, 2:]
        return tf.where(tf.expand_dims(mask, 2), vectors, 0), mask

    @staticmethod
    def _specials_before(example: Example) -> np.ndarray:
        # One `[SENT]` for this segment and each earlier one.
        return np.arange(1, 1 + len(example))


def sentence_rows(
    trees: Trees,
    *,
    special_ids: Mapping[str, int],
    sent_id: int | None,
    row_length: int | tf.Tensor,
    caps: Mapping[str, int],
    places: tf.Tensor | None = None,
    first_is_context: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Lays out a `[SENT]` before every sentence (SLM, section 2.1 and figure 3).

    The tokens stay in gold order. Only the indices of a sentence reveal the place at
    which it is presented. For example, sentences [7, 8] and [9], presented in reverse
    order (`places` [1, 0]), become

      tokens                [CLS]  [SENT]  7  8  [SENT]  9  [SEP]
      position_index            0       3  4  5       1  2      6
      sentence_id               0       2  2  2       1  1      3
      token_index               0       0  1  2       0  1      3
      candidate_positions       0  4  1  6
      gold_candidates           2  1  3
      gold_lengths              2  1  0

    Paragraph and sentence indices belong to the place of presentation, not to the
    sentence that is moved there. `[CLS]` has both indices of the first place, and
    `[SEP]` has both indices of the last place. The token index of `[SEP]` is one higher
    than the token index of the last piece presented.

    Args:
        trees: `Trees`. The sentences in gold order.
        special_ids, row_length, caps: see `seg_tf.layouts.windows.window_rows`.
        sent_id: int. Id of `[SENT]`. If None, these tokens and the candidates are
            omitted (section 5.1).
        places: int32 tensor `(B, S)`. The place, from 0, at which each sentence is
            presented. If None, the gold order is kept.
        first_is_context: bool tensor `(B,)`. Whether the first sentence is not a
            candidate. If None, all sentences are candidates.

    Returns:
        The features of `window_rows`, and those in `CANDIDATES`: `(B, C)` for the
        candidates, `(B, C - 1)` for the gold features.
    """
    count = trees.num_sentences[:, tf.newaxis]
    num_specials = 0 if sent_id is None else 1
    lengths = trees.sentence_lengths + num_specials
    lengths = tf.where(trees.is_sentence(), lengths, 0)
    starts = 1 + tf.cumsum(lengths, axis=1, exclusive=True)
    end = 1 + tf.reduce_sum(lengths, axis=1, keepdims=True)
    position = tf.range(row_length)[tf.newaxis, :] + tf.zeros_like(count)
    is_cls, is_sep = position == 0, position == end
    # Number of the sentence at each position, from 1.
    number = tf.searchsorted(starts, position, side="right")
    sentence = tf.clip_by_value(number - 1, 0, count - 1)
    offset = position - tf.gather(starts, sentence, batch_dims=1)
    is_piece = (offset >= num_specials) & (position < end)
    in_order = tf.cumsum(tf.ones_like(lengths), axis=1, exclusive=True)
    if places is None:
        places = in_order
    places = tf.where(trees.is_sentence(), places, in_order)
    order = tf.argsort(places, axis=1)  # the sentence at each place
    presented = tf.gather(lengths, order, batch_dims=1)
    # The place where the sentence of each position is presented.
    place = tf.gather(places, sentence, batch_dims=1)
    place = tf.where(is_cls, 0, tf.where(is_sep, count - 1, place))
    start = tf.cumsum(presented, axis=1, exclusive=True) + 1
    start = tf.gather(start, place, batch_dims=1)
    last = tf.gather(order, count - 1, batch_dims=1)
    begins = tf.where(is_sep, last, sentence)
    token_index = tf.gather(trees.first_tokens, begins, batch_dims=1) + tf.where(
        is_sep, tf.gather(presented, count - 1, batch_dims=1), offset
    )
    paragraphs = trees.capped_paragraphs(caps.get("paragraph_index"))
    indices = {
        "position_index": tf.where(is_cls | is_sep, position, start + offset),
        "sentence_id": tf.where(is_cls, 0, place + tf.where(is_sep, 2, 1)),
        "token_index": tf.where(is_cls, 0, token_index),
        "paragraph_index": tf.gather(paragraphs, place, batch_dims=1),
        "sentence_index": tf.gather(trees.sentences, place, batch_dims=1),
        "token_type": tf.gather(trees.texts, sentence, batch_dims=1),
    }
    specials = tf.where(is_sep, special_ids["sep"], sent_id or 0)
    row = {
        **row_features(
            trees.pieces,
            position - 1 - num_specials * number,
            is_piece=is_piece,
            specials=tf.where(is_cls, special_ids["cls"], specials),
            is_token=position <= end,
            pad_id=special_ids["pad"],
            indices=indices,
            caps=caps,
        ),
        "sentence_number": tf.where(is_piece, number, 0),
    }
    if sent_id is not None:
        presented = tf.gather(starts, order, batch_dims=1)
        row |= _candidates(trees, presented, end, places, first_is_context)
    return row


def _candidates(
    trees: Trees,
    presented: tf.Tensor,
    end: tf.Tensor,
    places: tf.Tensor,
    first_is_context: tf.Tensor | None,
) -> dict[str, tf.Tensor]:
    """Returns the features `CANDIDATES`, from the starts of presented sentences."""
    num_context = tf.zeros_like(end)
    if first_is_context is not None:
        num_context = tf.cast(first_is_context, tf.int32)[:, tf.newaxis]
    count = trees.num_sentences[:, tf.newaxis] - num_context
    context_place, last = places[:, :1], tf.shape(places)[1] - 1
    # [CLS] is candidate 0. Starting at the context's place, places shift by one.
    slot = tf.ones_like(tf.pad(presented, [[0, 0], [1, 1]]))
    slot = tf.cumsum(slot, axis=1, exclusive=True)
    place = slot - 1
    place += num_context * tf.cast(place >= context_place, tf.int32)
    positions = tf.gather(presented, tf.clip_by_value(place, 0, last), batch_dims=1)
    positions = tf.where(slot == 0, 0, tf.where(slot == count + 1, end, positions))
    mask = slot <= count + 1
    step = slot[:, :-1]
    sentence = tf.minimum(step + num_context, last)
    place = tf.gather(places, sentence, batch_dims=1)
    gold = 1 + place - num_context * tf.cast(place > context_place, tf.int32)
    is_sentence = step < count
    lengths = tf.gather(trees.sentence_lengths, sentence, batch_dims=1)
    paragraphs = tf.gather(trees.paragraphs, sentence, batch_dims=1)
    return {
        "candidate_positions": tf.where(mask, positions, 0),
        "candidate_mask": mask,
        "gold_candidates": tf.where(
            step == count, count + 1, tf.where(is_sentence, gold, 0)
        ),
        "gold_lengths": tf.where(is_sentence, lengths, 0),
        "gold_paragraphs": tf.where(is_sentence, paragraphs, 0),
    }
