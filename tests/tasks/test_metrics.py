"""Metrics: slow formulas, and degenerate inputs."""

import math

import numpy as np
import pytest

from seg_tf import tasks
from seg_tf.tasks import task


def counts(labels, predictions):
    pairs = list(zip(labels, predictions, strict=True))
    return [pairs.count((a, b)) for a, b in ((1, 1), (0, 1), (1, 0), (0, 0))]


def slow_f1(labels, predictions):
    true_positive, false_positive, false_negative, _ = counts(labels, predictions)
    return 2 * true_positive / (2 * true_positive + false_positive + false_negative)


def slow_matthews(labels, predictions):
    tp, fp, fn, tn = counts(labels, predictions)
    root = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return (tp * tn - fp * fn) / root


def slow_accuracy(labels, predictions):
    return sum(a == b for a, b in zip(labels, predictions, strict=True)) / len(labels)


def slow_pearson(labels, predictions):
    mean_a, mean_b = sum(labels) / len(labels), sum(predictions) / len(predictions)
    pairs = [(a - mean_a, b - mean_b) for a, b in zip(labels, predictions, strict=True)]
    squares = (sum(a * a for a, _ in pairs), sum(b * b for _, b in pairs))
    return sum(a * b for a, b in pairs) / math.sqrt(squares[0] * squares[1])


def ranks(values):
    """Mean rank of each value among all: ties share theirs."""
    return [
        sum(other < value for other in values)
        + (sum(other == value for other in values) - 1) / 2
        for value in values
    ]


def slow_spearman(labels, predictions):
    return slow_pearson(ranks(labels), ranks(predictions))


def draw(kind, seed):
    generator = np.random.default_rng(seed)
    if kind == "labels":
        return generator.integers(0, 2, (2, 50)).tolist()
    # Rounded, so that there are ties.
    labels = np.round(generator.uniform(0, 5, 50), 1)
    return labels.tolist(), np.round(labels + generator.normal(0, 1, 50), 1).tolist()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "name, slow, kind",
    [
        ("accuracy", slow_accuracy, "labels"),
        ("f1", slow_f1, "labels"),
        ("matthews", slow_matthews, "labels"),
        ("pearson", slow_pearson, "scores"),
        ("spearman", slow_spearman, "scores"),
    ],
)
def test_metrics_are_their_formulas(name, slow, kind, seed):
    labels, predictions = draw(kind, seed)
    found = task.METRICS[name](np.array(labels), np.array(predictions))
    assert found == pytest.approx(slow(labels, predictions), abs=1e-12)
    assert isinstance(found, float)


# Warnings are errors, so these also show that there is none.
@pytest.mark.parametrize("name", ["f1", "matthews", "pearson", "spearman"])
@pytest.mark.parametrize(
    "labels, predictions",
    [
        ([0, 1, 0, 1], [0, 0, 0, 0]),
        ([0, 0, 0, 0], [0, 1, 0, 1]),
        ([0, 0, 0], [0, 0, 0]),
    ],
)
def test_what_has_no_value_is_zero(name, labels, predictions):
    assert task.METRICS[name](np.array(labels), np.array(predictions)) == 0.0


def test_nearly_constant_scores_have_a_correlation():
    predictions = 3.0 + np.array([0.0, 1.0, 2.0]) * 1e-15
    assert -1 <= task.pearson(np.array([1.0, 2.0, 3.0]), predictions) <= 1


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_low_precision_scores_are_summed_in_full(kind):
    generator = np.random.default_rng(1)
    labels = generator.uniform(0, 5, 3_000).astype(kind)
    predictions = (labels + generator.normal(0, 1, 3_000)).astype(kind)
    expected = slow_pearson(
        labels.astype(float).tolist(), predictions.astype(float).tolist()
    )
    assert task.pearson(labels, predictions) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "labels, predictions, message",
    [
        ([1, None], [1, 1], "must all be known.*2 labels, 1 of them None"),
        ([], [], "Received: 0 labels"),
        ([0, 1], [0], "2 labels, 0 of them None, 1 predictions"),
    ],
)
def test_what_cannot_be_scored_is_refused(labels, predictions, message):
    with pytest.raises(ValueError, match=message):
        task.compute(tasks.get("glue/mrpc"), labels, predictions)
