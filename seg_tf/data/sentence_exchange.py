"""Exchange of sentences: some of a text change places among themselves (ReAT).

Shape key: B rows, N sentences of a row.
"""

import tensorflow as tf

from seg_tf.data import randomness


def exchange(
    text_number: tf.Tensor, places: tf.Tensor, streams: tf.Tensor, rate: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Moves `rate` of the sentences of each text, all others staying.

    Drawn sentences take each the place of the next, in an order that is drawn too, so
    that each of them moves. How many they are is `rate` times those of the text,
    rounded up or down by a draw; where that is less than two, which cannot change
    places, it is two or none. So on average it is `rate`, whatever the text's length,
    but for texts of one sentence, where nothing can move.

    Args:
        text_number: int32 tensor `(B, N)`, which text of the row, from 1, a sentence is
            of; 0 where there is none.
        places: int32 tensor `(B, N)`, place of each sentence in its text, from 0.
        streams: uint64 tensor `(B,)`, the random stream of each row.
        rate: share of the sentences to move, at most 1.

    Returns:
        The new places, int32 `(B, N)`; which sentences moved, bool; and which could
        have moved, bool.
    """
    width = tf.shape(text_number)[1]
    streams = randomness.extend_key(streams, randomness.EXCHANGED_SENTENCES)
    draws = randomness.uniform_integers_like(streams, 2 * width)
    of_sentences, of_texts = tf.split(draws, 2, axis=1)

    # All of one text, then all of the next, each in the order of their draws.
    upper = tf.bitwise.right_shift(of_sentences, tf.constant(40, tf.uint64))
    keys = tf.cast(upper, tf.int64)
    order = tf.argsort(tf.cast(text_number, tf.int64) * (1 << 24) + keys, axis=1)
    sorted_texts = tf.gather(text_number, order, batch_dims=1)
    first = tf.searchsorted(sorted_texts, sorted_texts, side="left")
    end = tf.searchsorted(sorted_texts, sorted_texts, side="right")
    size, rank = end - first, tf.range(width) - first

    chances = randomness.uniform_floats(of_texts)
    chance = tf.gather(chances, tf.maximum(sorted_texts - 1, 0), batch_dims=1)
    wanted = _rounded(rate * tf.cast(size, tf.float32), chance)
    wanted = tf.minimum(wanted, size)
    can_move = (sorted_texts > 0) & (size > 1)
    is_moved = can_move & (rank < wanted)
    following = first + (rank + 1) % tf.maximum(wanted, 1)
    sorted_places = tf.gather(places, order, batch_dims=1)
    taken = tf.gather(sorted_places, tf.minimum(following, width - 1), batch_dims=1)
    new_places = tf.where(is_moved, taken, sorted_places)

    # Back to the order in which they came.
    back = tf.argsort(order, axis=1)
    return tuple(
        tf.gather(values, back, batch_dims=1)
        for values in (new_places, is_moved, can_move)
    )


def _rounded(expected: tf.Tensor, chance: tf.Tensor) -> tf.Tensor:
    """Whole numbers, int32, other than 1, that are `expected` on average."""
    floor = tf.floor(expected)
    rounded = floor + tf.cast(chance < expected - floor, tf.float32)
    two_or_none = 2.0 * tf.cast(chance < expected / 2, tf.float32)
    return tf.cast(tf.where(expected < 2, two_or_none, rounded), tf.int32)
