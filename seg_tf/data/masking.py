"""Dynamic masking for masked LM, in the graph, a pure function of the sample.

Shape key: B batch, L row length, P most predictions of a row.
"""

import abc

import tensorflow as tf

from seg_tf.data import randomness


class Masking(abc.ABC):
    """Chooses the word pieces to predict and replaces them in the input.

    BERT's rule (Devlin et al., 2018, section 3.1): `mask_rate` of the pieces of a
    row, rounded, at least one and at most `max_predictions`; special tokens never.
    Of these, `mask_token_rate` become `[MASK]`, `random_token_rate` a piece drawn
    from the whole vocabulary, and the rest stay. Subclasses say which pieces.

    Args:
        mask_rate: share of the pieces to predict.
        max_predictions: P.
        mask_token_rate: probability of `[MASK]`.
        random_token_rate: probability of a random piece.
        mask_id: id of `[MASK]`.
        vocab_size: number of word pieces.
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
        """Masks a batch of rows.

        Args:
            token_ids: int32 tensor `(B, L)`.
            sentence_numbers: int32 tensor `(B, L)`, which sentence each piece belongs
                to; 0 where nothing may be predicted.
            streams: uint64 tensor `(B,)`, the random stream of each sample.

        Returns:
            `token_ids` with replacements, and `masked_positions`, `masked_ids`
            (both int32 `(B, P)`, padded with 0) and `masked_weights` (float32).
        """
        num_pieces = tf.math.count_nonzero(sentence_numbers, axis=1, dtype=tf.int32)
        counts = self.num_predictions(num_pieces)
        chosen = tf.sequence_mask(counts, self.max_predictions)
        positions = self.choose_positions(
            sentence_numbers,
            counts,
            randomness.extend_key(streams, randomness.MASKED_POSITIONS),
        )
        positions = tf.where(chosen, positions, 0)
        masked_ids = tf.gather(token_ids, positions, batch_dims=1)
        replacements = tf.where(chosen, self._replace(masked_ids, streams), masked_ids)
        rows = tf.repeat(
            tf.range(tf.shape(positions)[0])[:, tf.newaxis],
            self.max_predictions,
            axis=1,
        )
        # Padded predictions write the id at position 0, [CLS], to position 0.
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
        """Number of predictions among `num_pieces` (int32, any shape) pieces."""
        wanted = tf.round(tf.cast(num_pieces, tf.float32) * self._mask_rate)
        return tf.minimum(
            tf.maximum(tf.cast(wanted, tf.int32), 1),
            tf.minimum(num_pieces, self.max_predictions),
        )

    @abc.abstractmethod
    def choose_positions(
        self, sentence_numbers: tf.Tensor, counts: tf.Tensor, streams: tf.Tensor
    ) -> tf.Tensor:
        """Draws the positions to predict.

        Args:
            sentence_numbers: int32 tensor `(B, L)`; 0 where nothing may be predicted.
            counts: int32 tensor `(B,)`, how many positions of each row are wanted.
            streams: uint64 tensor `(B,)`, the random stream of each row.

        Returns:
            int32 tensor `(B, P)`: so many rising positions, then anything.
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


class TokenMasking(Masking):
    """Predicts single word pieces, each as likely as any other (BERT)."""

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
        # The P best-scored pieces are a uniform draw without replacement.
        _, positions = tf.math.top_k(scores, self.max_predictions)
        chosen = tf.sequence_mask(counts, self.max_predictions)
        return tf.sort(tf.where(chosen, positions, row_length), axis=1)
