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
    noise[:, :, -1] = 7  # equal in both: must not be taken for a hit
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


def measure(metric):
    return metric(*random_orders(), SIZES, WEIGHTS)


def test_position_accuracy_counts_places_of_rows_with_weight():
    hits = sum(w * np.equal(order, gold).sum() for order, gold, w in rows())
    places = (SIZES * WEIGHTS).sum()
    np.testing.assert_allclose(
        measure(order_metrics.position_accuracy), (hits, places), rtol=1e-6
    )
    assert hits >= 2 + 2 + 1


def test_perfect_match_counts_rows():
    matches = sum(w * (order == gold) for order, gold, w in rows())
    np.testing.assert_allclose(
        measure(order_metrics.perfect_match), (matches, WEIGHTS.sum()), rtol=1e-6
    )
    assert matches >= 2


@pytest.mark.parametrize("size", [2, 3, 7, 20])
def test_kendall_tau_equals_scipy_and_a_loop(size):
    generator = np.random.default_rng(size)
    order, gold = (
        np.stack([1 + generator.permutation(size) for _ in range(4)]) for _ in range(2)
    )
    for row in range(4):
        # Ranks of the sentences 1 to N in each.
        expected = scipy.stats.kendalltau(order[row].argsort(), gold[row].argsort())
        loop = numpy_reference.kendall_tau(order[row], gold[row])
        assert loop == pytest.approx(expected.statistic)
        tau, weight = order_metrics.kendall_tau(
            order[row : row + 1], gold[row : row + 1], np.array([size]), np.ones(1)
        )
        assert float(tau) == pytest.approx(loop, abs=1e-6)
        assert float(weight) == 1


def test_kendall_tau_of_padded_rows_is_a_weighted_sum():
    expected = sum(
        weight * numpy_reference.kendall_tau(order, gold)
        for order, gold, weight in rows()
        if len(gold) > 1
    )
    np.testing.assert_allclose(
        # The row of one sentence has no pair, and no weight.
        measure(order_metrics.kendall_tau),
        (expected, WEIGHTS.sum() - 1),
        rtol=1e-6,
    )


def test_kendall_tau_within_groups_leaves_out_the_other_pairs():
    order, gold = random_orders()
    # Sentences of two groups alternate, or all are alone.
    groups = np.tile(np.arange(PLACES) % 2, (len(SIZES), 1))
    groups[1] = np.arange(PLACES)
    taus = [
        (numpy_reference.kendall_tau(*orders, groups[row, : SIZES[row]].tolist()), one)
        for row, (*orders, one) in enumerate(rows())
    ]
    taus = [(tau, weight) for tau, weight in taus if tau is not None]
    assert len(taus) == 3
    assert taus[0][0] != numpy_reference.kendall_tau(*rows()[0][:2])
    np.testing.assert_allclose(
        order_metrics.kendall_tau(order, gold, SIZES, WEIGHTS, groups),
        (sum(tau * weight for tau, weight in taus), sum(weight for _, weight in taus)),
        rtol=1e-6,
    )


@pytest.mark.parametrize("seed", range(3))
def test_longest_first_is_sorting_by_length(seed):
    _, gold = random_orders()
    # Few lengths, so that many are equal.
    lengths = np.random.default_rng(seed).integers(1, 4, gold.shape)
    found = np.array(order_metrics.longest_first(gold, lengths, SIZES))
    hits = places = 0
    for row, (_, names, weight) in enumerate(rows()):
        size = SIZES[row]
        of_row = lengths[row, :size].tolist()
        expected = numpy_reference.longest_first(names, of_row)
        assert found[row, :size].tolist() == expected
        hits += weight * sum(
            numpy_reference.longest_first(names[step:], of_row[step:])[0] == names[step]
            for step in range(size)
        )
        places += weight * size
    np.testing.assert_allclose(
        order_metrics.pointer_longest_first(gold, lengths, SIZES, WEIGHTS),
        (hits, places),
        rtol=1e-6,
    )


def test_chances_are_those_of_counting():
    places = (SIZES * WEIGHTS).sum()
    np.testing.assert_allclose(
        order_metrics.position_chance(SIZES, WEIGHTS),
        (sum(w * sum(1 / n for _ in range(n)) for n, w in _sized()), places),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        order_metrics.perfect_match_chance(SIZES, WEIGHTS, PLACES),
        (sum(w / math.factorial(n) for n, w in _sized()), WEIGHTS.sum()),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        order_metrics.pointer_chance(SIZES, WEIGHTS, PLACES),
        (sum(w * sum(1 / (n - i) for i in range(n)) for n, w in _sized()), places),
        rtol=1e-6,
    )


def _sized():
    return list(zip(SIZES.tolist(), WEIGHTS.tolist(), strict=True))


@pytest.mark.parametrize("size", [0, -2])
def test_rows_of_padding_without_weight_are_nothing(size):
    sizes, weights = np.array([size]), np.zeros(1)
    zeros = np.zeros((1, 4), "int32")
    for name in ("position_accuracy", "perfect_match", "kendall_tau"):
        metric = getattr(order_metrics, name)
        assert [float(one) for one in metric(zeros, zeros, sizes, weights)] == [0, 0]
    for name in ("pointer_chance", "perfect_match_chance"):
        metric = getattr(order_metrics, name)
        assert [float(one) for one in metric(sizes, weights, 4)] == [0, 0]
    chance = order_metrics.position_chance(sizes, weights)
    assert [float(one) for one in chance] == [0, 0]
