"""Metrics of orders, against SciPy and loops."""

import math

import numpy as np
import pytest
import scipy.stats

from seg_tf.ops import order_metrics
from tests import numpy_reference

SIZES = np.array([5, 2, 1, 3, 5])
WEIGHTS = np.array([1, 1, 1, 0, 0.5], "float32")
PLACES = 6


def random_orders():
    """Orders and gold of rows of `SIZES`, and noise after them."""
    generator = np.random.default_rng(8)
    noise = generator.integers(0, 9, (2, len(SIZES), PLACES)).astype("int32")
    noise[:, :, -1] = 7  # equal in both, but not a hit
    order, gold = noise
    for row, size in enumerate(SIZES):
        order[row, :size] = 1 + generator.permutation(size)
        gold[row, :size] = 1 + generator.permutation(size)
    gold[0, :5], order[0, :5] = [3, 1, 4, 2, 5], [3, 1, 5, 4, 2]
    order[1] = gold[1]
    return order, gold


def rows():
    """(order, gold, weight) of each row without padding."""
    order, gold = random_orders()
    return [
        (order[row, :size].tolist(), gold[row, :size].tolist(), WEIGHTS[row])
        for row, size in enumerate(SIZES)
    ]


def assert_metric(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_accuracies_count_places_and_rows():
    arguments = (*random_orders(), SIZES, WEIGHTS)
    hits = sum(w * np.equal(order, gold).sum() for order, gold, w in rows())
    assert hits >= 2 + 2 + 1
    actual = order_metrics.position_accuracy(*arguments)
    assert_metric(actual, (hits, (SIZES * WEIGHTS).sum()))
    matches = sum(w * (order == gold) for order, gold, w in rows())
    assert matches >= 2
    assert_metric(order_metrics.perfect_match(*arguments), (matches, WEIGHTS.sum()))


@pytest.mark.parametrize("size", [2, 3, 7, 20])
def test_kendall_tau_equals_scipy_and_a_loop(size):
    generator = np.random.default_rng(size)
    for _ in range(4):
        order, gold = (1 + generator.permutation(size) for _ in range(2))
        # Ranks of the sentences 1 to N in each.
        expected = scipy.stats.kendalltau(order.argsort(), gold.argsort()).statistic
        assert numpy_reference.kendall_tau(order, gold) == pytest.approx(expected)
        actual = order_metrics.kendall_tau(
            order[None], gold[None], np.array([size]), np.ones(1)
        )
        np.testing.assert_allclose(actual, (expected, 1), atol=1e-6)


@pytest.mark.parametrize("has_groups", [False, True])
def test_kendall_tau_of_rows_is_a_weighted_sum_over_pairs_of_groups(has_groups):
    # Sentences of two groups alternate, or each is in a group of its own.
    groups = np.tile(np.arange(PLACES) % 2, (len(SIZES), 1))
    groups[1] = np.arange(PLACES)
    taus = []
    for row, (order, gold, weight) in enumerate(rows()):
        row_groups = groups[row, : len(gold)].tolist() if has_groups else None
        tau = numpy_reference.kendall_tau(order, gold, row_groups)
        if tau is not None:  # otherwise no pair, and no weight
            taus.append((tau * weight, weight))
    assert len(taus) == (3 if has_groups else 4)
    actual = order_metrics.kendall_tau(
        *random_orders(), SIZES, WEIGHTS, groups if has_groups else None
    )
    assert_metric(actual, np.sum(taus, axis=0))


@pytest.mark.parametrize("seed", range(3))
def test_longest_first_is_sorting_by_length(seed):
    _, gold = random_orders()
    # Few lengths, so that many are equal.
    lengths = np.random.default_rng(seed).integers(1, 4, gold.shape)
    order = np.array(order_metrics.longest_first(gold, lengths, SIZES))
    hits = 0
    for row, (_, names, weight) in enumerate(rows()):
        size = SIZES[row]
        row_lengths = lengths[row, :size].tolist()
        expected = numpy_reference.longest_first(names, row_lengths)
        assert order[row, :size].tolist() == expected
        hits += weight * sum(
            numpy_reference.longest_first(names[step:], row_lengths[step:])[0]
            == names[step]
            for step in range(size)
        )
    actual = order_metrics.pointer_longest_first(gold, lengths, SIZES, WEIGHTS)
    assert_metric(actual, (hits, (SIZES * WEIGHTS).sum()))


def test_chances_are_those_of_counting():
    places = (SIZES * WEIGHTS).sum()
    sized = list(zip(SIZES.tolist(), WEIGHTS.tolist(), strict=True))
    actual = order_metrics.position_chance(SIZES, WEIGHTS)
    assert_metric(actual, (sum(w * n / n for n, w in sized), places))
    actual = order_metrics.perfect_match_chance(SIZES, WEIGHTS, PLACES)
    assert_metric(actual, (sum(w / math.factorial(n) for n, w in sized), WEIGHTS.sum()))
    expected = sum(w * sum(1 / (n - i) for i in range(n)) for n, w in sized)
    actual = order_metrics.pointer_chance(SIZES, WEIGHTS, PLACES)
    assert_metric(actual, (expected, places))
