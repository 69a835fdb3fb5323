"""Draws and orders: named, the same in every version, exact, and random to the eye."""

import fractions
import itertools

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.data import randomness, sample_order
from seg_tf.data.sample_order import MixtureOrder

pytestmark = pytest.mark.slow


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


# TensorFlow's shuffle takes one bit too few for 4^8 + 1, 4^9 + 1, ….
@pytest.mark.parametrize(
    "num_records",
    [
        *(n for k in range(1, 8) for n in (4**k, 4**k + 1, 2 * 4**k + 1)),
        *(65_535, 65_536, 65_537, 65_538, 131_073, 262_144, 262_145, 262_146),
        1_048_577,
    ],
)
def test_every_record_is_read_once_an_epoch(num_records):
    num_epochs = 3
    samples = tf.range(num_epochs * num_records, dtype=tf.int64)
    orders = []
    for seed in (0, 5, 2**31) if num_records < 10**6 else (5,):
        epochs, records = sample_order.epochs_and_records(samples, num_records, seed)
        counts = np.bincount(epochs * num_records + records)
        assert len(counts) == len(samples)
        assert (counts == 1).all(), f"never read: {np.flatnonzero(counts == 0)[:9]}"
        orders += [*records.numpy().reshape(num_epochs, num_records)[:2]]
    for one, other in itertools.pairwise(orders) if num_records > 1000 else ():
        # Two permutations drawn at random agree in one place on average.
        assert (one == other).sum() < 9


@pytest.mark.parametrize("num_records", [1, 5, 6, 7, 23, 24, 25, 1000])
@pytest.mark.parametrize("size, at_once", [(1, 1), (3, 2), (6, 4), (7, 300), (2000, 2)])
def test_an_order_by_blocks_is_a_permutation_that_stays_close(
    num_records, size, at_once
):
    blocks = sample_order.Blocks(size, at_once)
    samples = tf.range(3 * num_records, dtype=tf.int64)
    _, records = sample_order.epochs_and_records(samples, num_records, 5, blocks)
    orders = records.numpy().reshape(3, num_records)
    for order in orders:
        assert sorted(order) == list(range(num_records))
        for begin in range(0, num_records, size * at_once):
            group = order[begin : begin + size * at_once]
            # What is left over after the last whole block is one, too.
            assert len(set(group // size)) <= at_once
    if num_records == 1000 and size * at_once < num_records:
        assert not np.array_equal(orders[0], orders[1])
        firsts = orders[:, : size * at_once] // size
        assert set(firsts[0]) != set(firsts[1])


# A change of these numbers would break the resumption of running jobs.
@pytest.mark.parametrize(
    ("first_sample", "num_records", "seed", "expected"),
    [
        (0, 1_000, 42, [181, 121, 597, 524, 531, 789]),
        (4, 2, 7, [0, 1, 0, 1, 1, 0]),
        (20, 10, 7, [0, 8, 5, 9, 7, 1]),
        (131_072, 65_536, 7, [14268, 17730, 61762, 48044, 31387, 2099]),
        (131_076, 65_538, 7, [63172, 42560, 19719, 15107, 57064, 23541]),
        (524_288, 262_144, 7, [252771, 200203, 192630, 140670, 57064, 23541]),
        (2_097_156, 1_048_578, 7, [897562, 963463, 764749, 228830, 491318, 998873]),
    ],
)
def test_the_order_is_the_same_in_every_version(
    first_sample, num_records, seed, expected
):
    samples = first_sample + tf.range(6, dtype=tf.int64)
    _, records = sample_order.epochs_and_records(samples, num_records, seed)
    assert records.numpy().tolist() == expected


def slow_order(weights):
    """Sources and their own numbers, sample for sample, with counters."""
    places = sorted(
        (fractions.Fraction(2 * rank + 1, 2 * weight), source)
        for source, weight in enumerate(weights)
        for rank in range(weight)
    )
    counters = [0] * len(weights)
    while True:
        for _, source in places:
            yield source, counters[source]
            counters[source] += 1


@pytest.mark.parametrize(
    "weights", [(3, 1, 2), (1, 1), (5,), (7, 2), (1, 30, 10, 9), (49, 51), (3, 9, 27)]
)
def test_order_is_that_of_a_loop_with_counters(weights):
    order, count = MixtureOrder(weights), 3 * sum(weights) + 2
    expected = list(itertools.islice(slow_order(weights), count))
    numbers = tf.range(count, dtype=tf.int64)
    found = [tensor.numpy().tolist() for tensor in order(numbers)]
    assert list(zip(*found, strict=True)) == expected
    # Far out, and in any order, it is what it is one after the other.
    far = tf.constant([10**12 + 5, 1, 10**12], tf.int64)
    sources, own = order(far)
    places, block = 10**12 % sum(weights), 10**12 // sum(weights)
    for at, extra in ((0, 5), (2, 0)):
        source, rank = expected[places + extra]
        assert (sources[at], own[at]) == (source, rank + block * weights[source])
    seen = [0] * len(weights)
    for length, (source, _) in enumerate(expected):
        assert order.counts(length) == seen
        # Spread evenly: no source is ever a whole row ahead or behind.
        for weight, times in zip(weights, seen, strict=True):
            assert abs(times - length * weight / sum(weights)) <= 1
        seen[source] += 1
