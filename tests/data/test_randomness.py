"""Draws are named, equal in NumPy and TensorFlow, and look random."""

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.data import randomness


def splitmix64(seed, count):
    """The published generator, written as its state machine."""
    state, numbers = seed, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        numbers.append(z ^ (z >> 31))
    return numbers


def test_a_stream_is_splitmix64():
    # First outputs for seed 1234567, as the generator's reference code prints them.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert splitmix64(1234567, 3) == expected
    assert randomness.uniform_integers(1234567, 3).tolist() == expected


def test_graph_equals_numpy():
    streams = [0, 1, 2**63, 2**64 - 1]
    expected = np.stack([randomness.uniform_integers(s, 17) for s in streams])
    found = tf.function(randomness.uniform_integers_like)(
        tf.constant(streams, tf.uint64), 17
    )
    np.testing.assert_array_equal(found, expected)


def test_graph_continues_a_key():
    names = [0, 1, 5, 2**40]
    found = randomness.extend_key(randomness.key(3, 4), tf.constant(names, tf.int64))
    assert found.numpy().tolist() == [randomness.key(3, 4, name) for name in names]


@pytest.mark.parametrize("name", [0, 7, 2**40])
def test_a_plain_number_continues_every_key(name):
    streams = [randomness.key(3, 4), 0, 2**64 - 1]
    found = randomness.extend_key(tf.constant(streams, tf.uint64), name)
    of_tensor = randomness.extend_key(
        tf.constant(streams, tf.uint64), tf.constant(name, tf.int64)
    )
    np.testing.assert_array_equal(found, of_tensor)
    assert int(found[0]) == randomness.key(3, 4, name)
    assert int(randomness.extend_key(streams[0], name)) == randomness.key(3, 4, name)


def test_floats_are_uniform_and_below_one():
    streams = tf.constant(randomness.uniform_integers(7, 1000), tf.uint64)
    floats = randomness.uniform_floats(
        randomness.uniform_integers_like(streams, 100)
    ).numpy()
    assert floats.min() >= 0
    assert floats.max() < 1
    counts, _ = np.histogram(floats, bins=64, range=(0, 1))
    expected = floats.size / 64
    chi_square = np.sum((counts - expected) ** 2 / expected)
    # 63 degrees of freedom: 110 is exceeded once in about 5,000 times.
    assert chi_square < 110
    # Neighbouring draws and neighbouring streams are uncorrelated.
    for rolled in (np.roll(floats, 1, axis=0), np.roll(floats, 1, axis=1)):
        correlation = np.corrcoef(floats.ravel(), rolled.ravel())[0, 1]
        assert abs(correlation) < 4 / np.sqrt(floats.size)


def test_largest_draw_stays_below_one_and_the_bound():
    largest = tf.constant([2**64 - 1, 0], tf.uint64)
    assert randomness.uniform_floats(largest).numpy()[0] < 1
    bounded = randomness.integers_below(largest, 30522).numpy()
    assert bounded[1] == 0
    assert 0 <= bounded[0] < 30522
