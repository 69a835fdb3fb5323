"""Masking: how many, where, by what; spans as slow loops place them."""

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


def test_random_pieces_are_drawn_from_the_whole_vocabulary():
    layer = masking("tokens", mask_token_rate=0.0, random_token_rate=1.0, vocab_size=7)
    _, found = apply(layer, [62] * 300)
    chosen = found["masked_weights"] == 1
    ids = np.take_along_axis(found["token_ids"], found["masked_positions"], 1)[chosen]
    assert set(ids) == set(range(7))


def span_masking(**overrides):
    settings = {
        "mask_rate": 0.15,
        "max_predictions": 80,
        "mask_token_rate": 1.0,
        "random_token_rate": 0.0,
        "mask_id": MASK,
        "vocab_size": 1000,
        "max_span_length": 3,
        "span_end_rate": 0.2,
    }
    return SpanMasking(**{**settings, **overrides})


def apply_spans(layer, sentence_numbers, seed=0):
    """The masked positions: bool array `(B, L)`."""
    numbers = np.asarray(sentence_numbers, np.int32)
    token_ids = np.full(numbers.shape, 9, np.int32)
    found = tf.function(layer.__call__)(token_ids, numbers, streams(len(numbers), seed))
    is_masked = found["token_ids"].numpy() == MASK
    np.testing.assert_array_equal(
        is_masked.sum(axis=1), found["masked_weights"].numpy().sum(axis=1)
    )
    return is_masked


def random_rows(count, row_length, mean_length, seed, *, sent_tokens):
    """Rows of sentences, with a `[SENT]` before each of them or without."""
    generator = np.random.default_rng(seed)
    rows = np.zeros([count, row_length], np.int32)
    for row in rows:
        end = generator.integers(3, row_length)  # [SEP] and padding from there
        position, number = 1, 1  # after [CLS]
        while position < end:
            position += sent_tokens
            length = generator.geometric(1 / mean_length)
            row[position : min(position + length, end)] = number
            position, number = position + length, number + 1
    return rows


def slow_spans(numbers, count, stream, *, max_predictions, max_span_length, end_rate):
    """Places spans one by one, looking at every place for each of them."""
    draws = randomness.uniform_integers(stream, 2 * max_predictions).tolist()
    weights = [(1 - end_rate) ** length for length in range(max_span_length)]
    masked = set()

    def is_apart(position, number):
        inside = 0 <= position < len(numbers)
        return not (inside and position in masked and numbers[position] == number)

    def fits(start, length):
        span = range(start, start + length)
        return (
            span.stop <= len(numbers)
            and numbers[start] > 0
            and all(numbers[place] == numbers[start] for place in span)
            and not masked.intersection(span)
            and is_apart(span.start - 1, numbers[start])
            and is_apart(span.stop, numbers[start])
        )

    for length_draw, place_draw in zip(
        draws[:max_predictions], draws[max_predictions:], strict=True
    ):
        if len(masked) == count:
            break
        chance, length = (length_draw >> 40) / 2**24 * sum(weights), 1
        while chance >= sum(weights[:length]):
            length += 1
        length = min(length, count - len(masked))
        while length and not any(fits(start, length) for start in range(len(numbers))):
            length -= 1
        if length:
            places = [start for start in range(len(numbers)) if fits(start, length)]
        else:
            places = [
                place
                for place in range(len(numbers))
                if numbers[place] > 0 and place not in masked
            ]
        start = places[(place_draw >> 33) % len(places)]
        masked.update(range(start, start + max(length, 1)))
    return masked


@pytest.mark.parametrize("sent_tokens", [True, False])
@pytest.mark.parametrize(
    ("mask_rate", "max_span_length", "end_rate", "mean_length"),
    [
        pytest.param(0.15, 3, 0.2, 12, id="as in the paper"),
        pytest.param(0.15, 3, 0.2, 1.5, id="sentences shorter than spans"),
        pytest.param(0.4, 5, 0.05, 6, id="places become short"),
        pytest.param(0.7, 3, 0.2, 6, id="spans have to touch"),
        pytest.param(0.3, 1, 0.2, 6, id="single pieces"),
        pytest.param(0.3, 60, 0.01, 6, id="spans longer than the row"),
    ],
)
def test_spans_are_those_of_slow_loops(
    mask_rate, max_span_length, end_rate, mean_length, sent_tokens
):
    rows = random_rows(24, 48, mean_length, seed=5, sent_tokens=sent_tokens)
    layer = span_masking(
        mask_rate=mask_rate,
        max_predictions=30,
        max_span_length=max_span_length,
        span_end_rate=end_rate,
    )
    is_masked = apply_spans(layer, rows)
    names = tf.constant(randomness.MASKED_POSITIONS, tf.int64)
    for row, found, stream in zip(rows, is_masked, streams(len(rows)), strict=True):
        num_pieces = np.count_nonzero(row)
        expected = slow_spans(
            row.tolist(),
            min(max(round(num_pieces * mask_rate), 1), num_pieces, 30),
            int(randomness.extend_key(stream, names).numpy()),
            max_predictions=30,
            max_span_length=max_span_length,
            end_rate=end_rate,
        )
        assert np.flatnonzero(found).tolist() == sorted(expected)
