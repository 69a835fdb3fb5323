"""Masking: how many, where, by what, and that only the sample's stream counts."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.data import randomness
from seg_tf.data.masking import SpanMasking, TokenMasking

pytestmark = pytest.mark.slow

CLS, SEP, MASK, PAD = 2, 3, 4, 0
VOCAB_SIZE = 1000
ROW_LENGTH = 64


KINDS = {
    "tokens": TokenMasking,
    "spans of one": functools.partial(
        SpanMasking, max_span_length=1, span_end_rate=0.2
    ),
    "spans": functools.partial(SpanMasking, max_span_length=3, span_end_rate=0.2),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def masking(kind, **overrides):
    settings = {
        "mask_rate": 0.15,
        "max_predictions": 10,
        "mask_token_rate": 0.8,
        "random_token_rate": 0.1,
        "mask_id": MASK,
        "vocab_size": VOCAB_SIZE,
    }
    return KINDS[kind](**{**settings, **overrides})


def rows(num_pieces):
    token_ids = np.full([len(num_pieces), ROW_LENGTH], PAD, np.int32)
    for row, count in zip(token_ids, num_pieces, strict=True):
        row[0], row[count + 1] = CLS, SEP
        row[1 : count + 1] = 100 + np.arange(count)
    return token_ids


def streams(count, seed=0):
    return tf.constant(randomness.uniform_integers(seed, count), tf.uint64)


def sentence_numbers(num_pieces):
    """One sentence a row."""
    position = np.arange(ROW_LENGTH)
    inside = (position >= 1) & (position <= np.array(num_pieces)[:, np.newaxis])
    return tf.constant(inside, tf.int32)


def apply(layer, num_pieces, seed=0):
    token_ids = rows(num_pieces)
    found = tf.function(layer.__call__)(
        tf.constant(token_ids),
        sentence_numbers(num_pieces),
        streams(len(num_pieces), seed),
    )
    return token_ids, {name: value.numpy() for name, value in found.items()}


@every_kind
def test_counts_follow_berts_rule(kind):
    num_pieces = [1, 2, 3, 10, 20, 33, 62]
    _, found = apply(masking(kind, max_predictions=8), num_pieces)
    # round(0.15 n), at least 1, at most 8.
    assert found["masked_weights"].sum(axis=1).tolist() == [1, 1, 1, 2, 3, 5, 8]


@every_kind
def test_positions_rise_are_pieces_and_hold_the_original_ids(kind):
    num_pieces = list(range(1, 63))
    token_ids, found = apply(masking(kind), num_pieces)
    for row, count in enumerate(num_pieces):
        chosen = found["masked_weights"][row] == 1
        positions = found["masked_positions"][row][chosen]
        assert (np.diff(positions) > 0).all()
        assert positions.min() >= 1
        assert positions.max() <= count
        np.testing.assert_array_equal(
            found["masked_ids"][row][chosen], token_ids[row][positions]
        )
        padded = ~chosen
        assert not found["masked_positions"][row][padded].any()
        assert not found["masked_ids"][row][padded].any()
        assert not chosen[np.argmin(chosen) :].any() or chosen.all()
        # Elsewhere the row stays as it was, specials and padding included.
        unchanged = np.ones(ROW_LENGTH, bool)
        unchanged[positions] = False
        np.testing.assert_array_equal(
            found["token_ids"][row][unchanged], token_ids[row][unchanged]
        )


@every_kind
def test_replacements_come_at_their_rates(kind):
    num_pieces = [62] * 4000
    _, found = apply(masking(kind), num_pieces)
    chosen = found["masked_weights"] == 1
    now = np.take_along_axis(found["token_ids"], found["masked_positions"], 1)[chosen]
    before = found["masked_ids"][chosen]
    total = chosen.sum()

    def within_four_sigma(count, rate):
        return abs(count - rate * total) < 4 * np.sqrt(rate * (1 - rate) * total)

    masked = now == MASK
    kept = now == before
    random_ids = now[~masked & ~kept]
    assert within_four_sigma(masked.sum(), 0.8 + 0.1 / VOCAB_SIZE)
    assert within_four_sigma(kept.sum(), 0.1 + 0.1 / VOCAB_SIZE)
    # The random pieces cover the vocabulary evenly.
    counts, _ = np.histogram(random_ids, bins=20, range=(0, VOCAB_SIZE))
    expected = len(random_ids) / 20
    assert np.sum((counts - expected) ** 2 / expected) < 44  # p = 0.001, 19 d.o.f.


def test_every_piece_is_chosen_equally_often():
    num_pieces = [40] * 5000
    _, found = apply(masking("tokens"), num_pieces)
    chosen = found["masked_positions"][found["masked_weights"] == 1]
    counts = np.bincount(chosen, minlength=42)
    assert counts[0] == counts[41] == 0
    expected = 6 * 5000 / 40
    # Draws without replacement vary less than independent ones: 39 d.o.f.
    assert np.sum((counts[1:41] - expected) ** 2 / expected) < 73


@every_kind
def test_a_row_depends_on_its_own_stream_alone(kind):
    _, together = apply(masking(kind), [30, 40, 50])
    token_ids, numbers = rows([30, 40, 50]), sentence_numbers([30, 40, 50])
    for row in range(3):
        alone = masking(kind)(
            tf.constant(token_ids[row : row + 1]),
            numbers[row : row + 1],
            streams(3)[row : row + 1],
        )
        for name, values in alone.items():
            np.testing.assert_array_equal(values[0], together[name][row])


@every_kind
def test_other_streams_mask_otherwise(kind):
    _, first = apply(masking(kind), [60] * 8, seed=0)
    _, second = apply(masking(kind), [60] * 8, seed=1)
    assert (first["masked_positions"] != second["masked_positions"]).any(axis=1).all()


@every_kind
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_all_or_none_become_the_mask_token(kind, rate):
    _, found = apply(masking(kind, mask_token_rate=rate, random_token_rate=0.0), [60])
    assert (found["token_ids"] == MASK).sum() == rate * 9


@every_kind
def test_rows_may_be_shorter_than_the_most_predictions(kind):
    _, found = apply(masking(kind, max_predictions=3 * ROW_LENGTH), [62, 20])
    assert found["masked_weights"].shape == (2, 3 * ROW_LENGTH)
    assert found["masked_weights"].sum(axis=1).tolist() == [9, 3]
    for row, weights in zip(
        found["masked_positions"], found["masked_weights"], strict=True
    ):
        assert (row[weights == 1] >= 1).all()
        assert (row[weights == 0] == 0).all()
