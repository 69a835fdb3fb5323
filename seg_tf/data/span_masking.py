"""Masking of spans: neighbouring pieces of a sentence are predicted together.

Shape key: B batch, L row length, P most predictions of a row, K the longest span.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.data import randomness
from seg_tf.data.masking import Masking


class SpanMasking(Masking):
    """Predicts spans of pieces of one sentence (SLM, section 3.2; SpanBERT).

    Spans are placed one after the other until the row has as many predictions as
    `Masking` says, of which the last span may get fewer than it drew. A length comes
    from the geometric distribution, cut off at `max_span_length`; then a start
    uniformly from the places where a span of that length fits. It fits inside one
    sentence, where it touches no other span. Where nothing so long is left to take,
    the span is as long as possible, and where every piece left touches a span, it is
    one such piece.

    A span across sentences, masked at both of its ends, would tell of shuffled
    sentences which two of them are neighbours.

    Args:
        max_span_length: K.
        span_end_rate: p of the geometric distribution.
        **settings: the arguments of `Masking`.
    """

    def __init__(self, *, max_span_length: int, span_end_rate: float, **settings: Any):
        super().__init__(**settings)
        self._max_span_length = max_span_length
        self._span_end_rate = span_end_rate

    def choose_positions(
        self, sentence_numbers: tf.Tensor, counts: tf.Tensor, streams: tf.Tensor
    ) -> tf.Tensor:
        # The n-th span of a row has the n-th draws, however many spans other rows take.
        draws = randomness.uniform_integers_like(streams, 2 * self.max_predictions)
        lengths, places = tf.split(draws, 2, axis=1)
        lengths = self._span_lengths(lengths)

        def place_span(
            span: tf.Tensor, max_lengths: tf.Tensor, missing: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            # Less than the drawn length where it fits nowhere; 0, which every
            # piece not yet taken has, where all of them touch a span.
            needed = tf.minimum(
                tf.minimum(lengths[:, span], missing),
                tf.reduce_max(max_lengths, axis=1),
            )
            start = _drawn_place(max_lengths >= needed[:, tf.newaxis], places[:, span])
            length = tf.where(missing > 0, tf.maximum(needed, 1), 0)
            max_lengths = _take_span(max_lengths, sentence_numbers, start, length)
            return span + 1, max_lengths, missing - length

        max_lengths = _initial_lengths(sentence_numbers, self._max_span_length)
        _, max_lengths, _ = tf.while_loop(
            lambda _span, _max_lengths, missing: tf.reduce_any(missing > 0),
            place_span,
            (0, max_lengths, counts),
        )
        is_taken = (max_lengths < 0) & (sentence_numbers > 0)
        return _true_positions(is_taken, self.max_predictions)

    def _span_lengths(self, draws: tf.Tensor) -> tf.Tensor:
        """Lengths of 1 to K, int32, from uint64 draws `(B, P)`."""
        rates = (1 - self._span_end_rate) ** np.arange(self._max_span_length)
        up_to = (np.cumsum(rates) / np.sum(rates)).astype(np.float32)
        chances = randomness.uniform_floats(draws)[..., tf.newaxis]
        return 1 + tf.math.count_nonzero(chances >= up_to[:-1], axis=-1, dtype=tf.int32)


def _initial_lengths(sentence_numbers: tf.Tensor, longest: int) -> tf.Tensor:
    """Greatest length of a span from each position, -1 where there is no piece.

    Args:
        sentence_numbers: int32 tensor `(B, L)`.
        longest: the most that counts.

    Returns:
        int32 tensor `(B, L)`.
    """
    fits = sentence_numbers > 0
    max_lengths = tf.where(fits, 0, -1)
    row_length = tf.shape(sentence_numbers)[1]
    padded = tf.pad(sentence_numbers, [[0, 0], [0, longest]])
    for length in range(1, longest + 1):
        max_lengths += tf.cast(fits, tf.int32)
        fits &= padded[:, length : length + row_length] == sentence_numbers
    return max_lengths


def _take_span(
    max_lengths: tf.Tensor,
    sentence_numbers: tf.Tensor,
    start: tf.Tensor,
    length: tf.Tensor,
) -> tf.Tensor:
    """Updates the greatest lengths: -1 in a new span, 0 beside it, less before it.

    For example, a span of 2 in a sentence of 8 pieces, where at most 3 count:

      before    3  3  3  3  3  3  2  1
      span               ×  ×
      after     2  1  0 -1 -1  0  2  1

    Args:
        max_lengths: int32 tensor `(B, L)`, greatest length of a span from there;
            negative where nothing may be taken any more.
        sentence_numbers: int32 tensor `(B, L)`.
        start: int32 tensor `(B,)`, where the span begins.
        length: int32 tensor `(B,)`, its pieces.
    """
    sentence = tf.gather(sentence_numbers, start, batch_dims=1)[:, tf.newaxis]
    from_start = tf.range(tf.shape(max_lengths)[1]) - start[:, tf.newaxis]
    from_end = from_start - length[:, tf.newaxis]
    is_affected = (sentence_numbers == sentence) & (from_end <= 0)
    # A span before this one ends a piece before it; only 0 is beside its end.
    left = tf.maximum(-1 - from_start, from_end)
    return tf.where(is_affected, tf.minimum(max_lengths, left), max_lengths)


def _drawn_place(is_place: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """One of each row's places `(B, L)`, of which there is one: int32 tensor `(B,)`."""
    counts = tf.math.count_nonzero(is_place, axis=1, dtype=tf.int32)
    ranks = randomness.integers_below(draws, counts)
    # The places of all rows in one list: several times as fast as counting
    # along the rows by `tf.cumsum`, which is most of the time in a loop like this.
    rows_and_places = tf.where(is_place)
    drawn = tf.cumsum(counts, exclusive=True) + ranks
    return tf.cast(tf.gather(rows_and_places[:, 1], drawn), tf.int32)


def _true_positions(is_chosen: tf.Tensor, width: int) -> tf.Tensor:
    """The positions that are True, rising: `(B, width)`, padded with L."""
    counts = tf.cumsum(tf.cast(is_chosen, tf.int32), axis=1)
    ranks = tf.range(1, width + 1)[tf.newaxis, :]
    ranks = tf.repeat(ranks, tf.shape(counts)[0], axis=0)
    return tf.ensure_shape(tf.searchsorted(counts, ranks), [counts.shape[0], width])
