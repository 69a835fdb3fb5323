"""Dynamic masking for masked language modeling, in the graph.

The masking of a row is a pure function of its random stream. Shape key: B batch, L row
length, P maximum number of predictions of a row, K maximum span length.
"""

import abc
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.config import configured_by
from seg_tf.data import randomness
from seg_tf.data.configs import MaskingConfig, SpanMaskingConfig


class Masking(abc.ABC):
    """Chooses the word pieces to predict and replaces them in the input.

    Follows BERT (Devlin et al., 2018, section 3.1). At least one piece of each row is
    predicted, and special tokens never are. Subclasses choose the pieces. The arguments
    are the fields of `MaskingConfig`, the id of `[MASK]`, and the size of the
    vocabulary, from which random pieces are drawn.
    """

    feature_names = ("masked_positions", "masked_ids", "masked_weights")

    def __init__(
        self,
        *,
        mask_rate: float,
        max_predictions: int,
        mask_token_rate: float,
        random_token_rate: float,
        mask_id: int,
        vocab_size: int,
    ):
        self.max_predictions = max_predictions
        self._mask_rate = mask_rate
        self._mask_token_rate = mask_token_rate
        self._random_token_rate = random_token_rate
        self._mask_id = mask_id
        self._vocab_size = vocab_size

    def __call__(
        self, token_ids: tf.Tensor, sentence_numbers: tf.Tensor, streams: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Masks rows `(B, L)`, each with its own random stream, uint64 `(B,)`.

        `sentence_numbers` start at 1, and are 0 at positions that are never predicted.
        Returns a dict of the new `token_ids`, `(B, L)`; `masked_positions` and original
        `masked_ids`, int32 `(B, P)`, padded with 0; and `masked_weights`, float32 `(B,
        P)`.
        """
        num_pieces = tf.math.count_nonzero(sentence_numbers, axis=1, dtype=tf.int32)
        counts = self.num_predictions(num_pieces)
        chosen = tf.sequence_mask(counts, self.max_predictions)
        position_streams = randomness.extend_key(streams, randomness.MASKED_POSITIONS)
        positions = self.choose_positions(sentence_numbers, counts, position_streams)
        positions = tf.where(chosen, positions, 0)
        masked_ids = tf.gather(token_ids, positions, batch_dims=1)
        replacements = tf.where(chosen, self._replace(masked_ids, streams), masked_ids)
        rows = tf.range(tf.shape(positions)[0])[:, tf.newaxis]
        rows = tf.repeat(rows, self.max_predictions, axis=1)
        # Padded predictions rewrite the unchanged id at position 0, [CLS].
        token_ids = tf.tensor_scatter_nd_update(
            token_ids, tf.stack([rows, positions], axis=-1), replacements
        )
        return {
            "token_ids": token_ids,
            "masked_positions": positions,
            "masked_ids": tf.where(chosen, masked_ids, 0),
            "masked_weights": tf.cast(chosen, tf.float32),
        }

    def num_predictions(self, num_pieces: tf.Tensor) -> tf.Tensor:
        """Returns the number of predictions in rows of `num_pieces` pieces, int32."""
        number = tf.round(tf.cast(num_pieces, tf.float32) * self._mask_rate)
        return tf.minimum(
            tf.maximum(tf.cast(number, tf.int32), 1),
            tf.minimum(num_pieces, self.max_predictions),
        )

    @abc.abstractmethod
    def choose_positions(
        self, sentence_numbers: tf.Tensor, counts: tf.Tensor, streams: tf.Tensor
    ) -> tf.Tensor:
        """Draws the positions to predict, int32 `(B, P)`, in ascending order.

        `counts`, int32 `(B,)`, is the number of predictions of each row. The row's
        other entries are arbitrary. See `__call__` for the other arguments.
        """

    def _replace(self, masked_ids: tf.Tensor, streams: tf.Tensor) -> tf.Tensor:
        streams = randomness.extend_key(streams, randomness.MASKED_REPLACEMENTS)
        draws = randomness.uniform_integers_like(streams, 2 * self.max_predictions)
        chances, choices = tf.split(draws, 2, axis=1)
        chances = randomness.uniform_floats(chances)
        random_ids = randomness.integers_below(choices, self._vocab_size)
        up_to_random = self._mask_token_rate + self._random_token_rate
        return tf.where(
            chances < self._mask_token_rate,
            self._mask_id,
            tf.where(chances < up_to_random, random_ids, masked_ids),
        )


@configured_by(MaskingConfig)
class TokenMasking(Masking):
    """Predicts single word pieces, all with equal probability (BERT)."""

    def choose_positions(
        self, sentence_numbers: tf.Tensor, counts: tf.Tensor, streams: tf.Tensor
    ) -> tf.Tensor:
        row_length = sentence_numbers.shape[1]
        scores = randomness.uniform_floats(
            randomness.uniform_integers_like(streams, row_length)
        )
        scores = tf.where(sentence_numbers > 0, scores, -1.0)
        missing = max(self.max_predictions - row_length, 0)
        scores = tf.pad(scores, [[0, 0], [0, missing]], constant_values=-1.0)
        # The P pieces with the highest scores are a uniform draw without replacement.
        _, positions = tf.math.top_k(scores, self.max_predictions)
        chosen = tf.sequence_mask(counts, self.max_predictions)
        return tf.sort(tf.where(chosen, positions, row_length), axis=1)


@configured_by(SpanMaskingConfig)
class SpanMasking(Masking):
    """Predicts spans of pieces inside sentences (SLM, section 3.2, and SpanBERT).

    Spans are placed one after another until the row has its number of predictions. The
    length of a span follows a geometric distribution, truncated at `max_span_length`
    and at the number of missing predictions. The start is uniform over the positions
    where the span fits into one sentence without touching another span. If there are
    none, the longest length that fits is used. If every remaining piece touches a span,
    a single piece is predicted. Spans do not cross sentences, which would reveal that
    two shuffled sentences are adjacent.
    """

    def __init__(self, *, max_span_length: int, span_end_rate: float, **settings: Any):
        super().__init__(**settings)
        self._max_span_length = max_span_length
        self._span_end_rate = span_end_rate

    def choose_positions(
        self, sentence_numbers: tf.Tensor, counts: tf.Tensor, streams: tf.Tensor
    ) -> tf.Tensor:
        # Span n of a row uses draw n, independently of other rows.
        draws = randomness.uniform_integers_like(streams, 2 * self.max_predictions)
        lengths, places = tf.split(draws, 2, axis=1)
        lengths = self._span_lengths(lengths)

        def place_span(
            span: tf.Tensor, max_lengths: tf.Tensor, missing: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            # 0 if all remaining pieces touch a span.
            needed = tf.minimum(
                tf.minimum(lengths[:, span], missing),
                tf.reduce_max(max_lengths, axis=1),
            )
            start = _draw_place(max_lengths >= needed[:, tf.newaxis], places[:, span])
            length = tf.where(missing > 0, tf.maximum(needed, 1), 0)
            max_lengths = _exclude_span(max_lengths, sentence_numbers, start, length)
            return span + 1, max_lengths, missing - length

        # Maximum span length from each position, -1 where there is no piece.
        fits = sentence_numbers > 0
        max_lengths = tf.where(fits, 0, -1)
        row_length = tf.shape(sentence_numbers)[1]
        padded = tf.pad(sentence_numbers, [[0, 0], [0, self._max_span_length]])
        for length in range(1, self._max_span_length + 1):
            max_lengths += tf.cast(fits, tf.int32)
            fits &= padded[:, length : length + row_length] == sentence_numbers
        _, max_lengths, _ = tf.while_loop(
            lambda _span, _max_lengths, missing: tf.reduce_any(missing > 0),
            place_span,
            (0, max_lengths, counts),
        )
        is_masked = (max_lengths < 0) & (sentence_numbers > 0)
        # Positions of the masked pieces, padded with L.
        ends = tf.cumsum(tf.cast(is_masked, tf.int32), axis=1)
        ranks = tf.range(1, self.max_predictions + 1)[tf.newaxis, :]
        ranks = tf.repeat(ranks, tf.shape(ends)[0], axis=0)
        positions = tf.searchsorted(ends, ranks)
        return tf.ensure_shape(positions, [ends.shape[0], self.max_predictions])

    def _span_lengths(self, draws: tf.Tensor) -> tf.Tensor:
        """Maps uint64 draws `(B, P)` to int32 span lengths from 1 to K."""
        rates = (1 - self._span_end_rate) ** np.arange(self._max_span_length)
        up_to = (np.cumsum(rates) / np.sum(rates)).astype(np.float32)
        chances = randomness.uniform_floats(draws)[..., tf.newaxis]
        return 1 + tf.math.count_nonzero(chances >= up_to[:-1], axis=-1, dtype=tf.int32)


def _exclude_span(
    max_lengths: tf.Tensor,
    sentence_numbers: tf.Tensor,
    start: tf.Tensor,
    length: tf.Tensor,
) -> tf.Tensor:
    """Returns the maximum span lengths `(B, L)` after a span is placed in each row.

    Lengths become negative inside the span, 0 next to it, and smaller before it. For
    example, a span of 2 in a sentence of 8 pieces, with K = 3:

      before    3  3  3  3  3  3  2  1
      span               ×  ×
      after     2  1  0 -1 -1  0  2  1
    """
    sentence = tf.gather(sentence_numbers, start, batch_dims=1)[:, tf.newaxis]
    from_start = tf.range(tf.shape(max_lengths)[1]) - start[:, tf.newaxis]
    from_end = from_start - length[:, tf.newaxis]
    is_affected = (sentence_numbers == sentence) & (from_end <= 0)
    # Earlier spans leave a gap of one piece. No span starts right after this one.
    left = tf.maximum(-1 - from_start, from_end)
    return tf.where(is_affected, tf.minimum(max_lengths, left), max_lengths)


def _draw_place(is_place: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """Draws a random True position in each row of a mask `(B, L)`, int32 `(B,)`."""
    counts = tf.math.count_nonzero(is_place, axis=1, dtype=tf.int32)
    ranks = randomness.integers_below(draws, counts)
    drawn = tf.cumsum(counts, exclusive=True) + ranks
    # A flat list of the positions of all rows is several times as fast as `tf.cumsum`
    # along the rows, which would dominate the loop.
    return tf.cast(tf.gather(tf.where(is_place)[:, 1], drawn), tf.int32)
