import numpy as np
import pytest
import tensorflow as tf

from seg_tf.data import randomness
from seg_tf.data.reat_inputs import exchange


def exchanged(sizes, rows, rate=0.2, slots=None, seed=0):
    """Rows that all have texts of these sizes: places before and after, and flags."""
    width = slots or sum(sizes)
    number = np.zeros((rows, width), np.int32)
    places = np.zeros((rows, width), np.int32)
    number[:, : sum(sizes)] = [
        1 + n for n, size in enumerate(sizes) for _ in range(size)
    ]
    places[:, : sum(sizes)] = [place for size in sizes for place in range(size)]
    streams = tf.constant(randomness.uniform_integers(seed, rows), tf.uint64)
    found = exchange(tf.constant(number), tf.constant(places), streams, rate)
    return number, places, *(values.numpy() for values in found)


def test_sentences_change_places_inside_their_texts():
    number, before, after, is_moved, can_move = exchanged([9, 2, 1, 30], 200, slots=50)
    for text in range(1, 5):
        own = number[0] == text
        for row in range(200):
            assert sorted(after[row, own]) == list(range(own.sum()))
    np.testing.assert_array_equal(is_moved, before != after)
    assert (can_move == (number > 0) & (number != 3)).all()
    assert not is_moved[~can_move].any()
    assert (after[number == 0] == 0).all()


@pytest.mark.parametrize("size", [2, 3, 5, 9, 10, 14, 128])
def test_the_rate_is_kept_whatever_the_length_of_a_text(size):
    rows = 4000
    *_, is_moved, _ = exchanged([size], rows)
    counts = is_moved.sum(axis=1)
    assert not (counts == 1).any()
    # At most 2 or one more than the rate says, so this is far more than 5 sigma.
    assert counts.mean() == pytest.approx(0.2 * size, abs=5 * counts.std() / 60 + 1e-6)
    if 0.2 * size >= 2:
        assert set(counts) <= {int(0.2 * size), int(0.2 * size) + 1}
    else:
        assert set(counts) == {0, 2}


def test_every_sentence_moves_as_often_and_to_every_other_place():
    rows = 6000
    _, before, after, is_moved, _ = exchanged([6], rows, rate=0.5)
    assert (is_moved.sum(axis=1) == 3).all()
    table = np.zeros((6, 6))
    np.add.at(table, (before[is_moved], after[is_moved]), 1)
    assert (np.diag(table) == 0).all()
    expected = 3 * rows / 30
    others = table[~np.eye(6, dtype=bool)]
    # 29 degrees of freedom, at 0.001, with a margin for what draws of a row share.
    assert ((others - expected) ** 2 / expected).sum() < 75


def test_texts_of_a_row_are_drawn_for_themselves():
    *_, is_moved, _ = exchanged([4, 4], 4000)
    one, other = is_moved[:, :4].any(axis=1), is_moved[:, 4:].any(axis=1)
    assert np.corrcoef(one, other)[0, 1] == pytest.approx(0, abs=0.08)


def test_rows_without_sentences_move_nothing():
    *_, after, is_moved, can_move = exchanged([], 3, slots=4)
    for values in (after, is_moved, can_move):
        assert not values.any()


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_all_or_nothing(rate):
    number, _, _, is_moved, _ = exchanged([5, 2, 1], 50, rate=rate)
    assert (is_moved == ((number < 3) & (rate == 1))).all()


def test_a_batch_of_no_rows_is_let_through():
    empty = tf.zeros([0, 5], tf.int32)
    places, is_moved, can_move = exchange(empty, empty, tf.zeros([0], tf.uint64), 0.2)
    assert places.shape == is_moved.shape == can_move.shape == (0, 5)


def test_draws_hang_on_the_stream_alone():
    first = exchanged([9, 12], 20)
    many = exchanged([9, 12], 40)
    other = exchanged([9, 12], 20, seed=1)
    for one, two in zip(first, many, strict=True):
        np.testing.assert_array_equal(one, two[:20])
    assert not np.array_equal(first[2], other[2])
