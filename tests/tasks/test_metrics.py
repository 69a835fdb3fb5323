"""Metrics: slow formulas, degenerate inputs; averages: what papers have printed."""

import math

import numpy as np
import pytest

from seg_tf import tasks
from seg_tf.tasks import metrics
from seg_tf.tasks.glue import averages


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
        return generator.integers(0, 2, 50).tolist(), generator.integers(
            0, 2, 50
        ).tolist()
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
    found = metrics.METRICS[name](np.array(labels), np.array(predictions))
    assert found == pytest.approx(slow(labels, predictions), abs=1e-12)
    assert isinstance(found, float)


def test_f1_counts_the_positive_label_alone():
    labels, predictions = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    assert metrics.f1(labels, predictions) == pytest.approx(2 / 3)
    assert metrics.f1(1 - labels, 1 - predictions) == pytest.approx(4 / 5)


# Warnings are errors, so these also show that there is none.
@pytest.mark.parametrize("name", ["f1", "matthews", "pearson", "spearman"])
@pytest.mark.parametrize(
    "labels, predictions",
    [
        ([0, 1, 0, 1], [0, 0, 0, 0]),
        ([0, 0, 0, 0], [0, 1, 0, 1]),
        ([0, 0, 0], [0, 0, 0]),
        ([0], [0]),
        ([0], [1]),
    ],
)
def test_what_has_no_value_is_zero(name, labels, predictions):
    assert metrics.METRICS[name](np.array(labels), np.array(predictions)) == 0.0


@pytest.mark.parametrize("name", ["matthews", "pearson", "spearman"])
def test_all_right_of_one_kind_shows_no_correlation(name):
    assert metrics.METRICS[name](np.ones(3, int), np.ones(3, int)) == 0.0


def test_nearly_constant_scores_have_a_correlation():
    predictions = 3.0 + np.array([0.0, 1.0, 2.0]) * 1e-15
    assert -1 <= metrics.pearson(np.array([1.0, 2.0, 3.0]), predictions) <= 1


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_low_precision_scores_are_summed_in_full(kind):
    generator = np.random.default_rng(1)
    labels = generator.uniform(0, 5, 3_000).astype(kind)
    predictions = (labels + generator.normal(0, 1, 3_000)).astype(kind)
    expected = slow_pearson(
        labels.astype(float).tolist(), predictions.astype(float).tolist()
    )
    assert metrics.pearson(labels, predictions) == pytest.approx(expected, abs=1e-12)


def test_compute_gives_all_metrics_the_main_one_first():
    found = metrics.compute(tasks.get("glue/mrpc"), [0, 1, 1, 1], [0, 1, 1, 0])
    assert list(found.items()) == [("f1", pytest.approx(0.8)), ("accuracy", 0.75)]
    found = metrics.compute(tasks.get("glue/sts-b"), [0.0, 2.5, 5.0], [1.0, 2.0, 30.0])
    assert list(found) == ["spearman", "pearson"]
    assert found["spearman"] == pytest.approx(1.0)
    assert found["pearson"] < 0.95
    several = metrics.compute(tasks.get("glue/mnli"), [0, 1, 2], [0, 2, 2])
    assert several == {"accuracy": pytest.approx(2 / 3)}


@pytest.mark.parametrize(
    "name, labels, predictions, message",
    [
        ("glue/mrpc", [1, None], [1, 1], "must all be known.*1 of 2 None"),
        ("glue/mrpc", [], [], "at least 1"),
        ("glue/mrpc", [0, 1], [0], r"shapes \(2,\) and \(1,\)"),
        ("glue/mrpc", [0, 1], [[0, 1]], r"shapes \(2,\) and \(1, 2\)"),
        ("glue/mrpc", [0, 1], [0, 2], "`predictions` .*0 to 1. Received: 2 at 1"),
        ("glue/mrpc", [0, 1], [0.5, 1], r"Received: 0\.5 at 0, and 1 of 2"),
        ("glue/mrpc", [0, -1], [0, 1], "`labels` .* Received: -1 at 1"),
        ("glue/sts-b", [0, 1], [0, np.nan], "`predictions` .* finite.*nan at 1"),
        ("glue/sts-b", [0, 1], [np.inf, np.nan], "inf at 0, and 2 of 2"),
    ],
)
def test_what_cannot_be_scored_is_refused(name, labels, predictions, message):
    with pytest.raises(ValueError, match=message):
        metrics.compute(tasks.get(name), labels, predictions)


# Columns of published tables, CoLA to RTE, and the average printed beside them:
# table 2 of Segatron (six of its columns) and table 1 of SLM (three of its rows).
TABLES = {
    "BERT base, dev": "55.0 91.3 92.6 88.9 86.5 83.2 83.4 90.4 68.3 82.2",
    "SegaBERT base, dev": "54.7 92.1 92.4 89.0 87.0 83.8 84.1 91.5 71.8 82.9",
    "SegaBERT base, test": "50.7 91.5 89.3 84.6 71.4 83.5 83.2 90.8 68.1 79.2",
    "SegaBERT large, dev": "65.3 94.7 92.3 90.3 89.1 87.6 87.5 93.6 78.3 86.5",
    "BERT large, test": "60.5 94.9 89.3 86.5 72.1 86.7 85.9 92.7 70.1 82.1",
    "SegaBERT large, test": "62.6 94.8 89.7 88.6 72.5 87.9 87.7 94.0 71.6 83.3",
    "SLM, BERT base, dev": "57.3 92.9 89.0 88.6 91.4 84.8 84.9 91.8 71.5 83.6",
    "SLM, 1M steps, dev": "62.1 93.7 90.0 90.3 91.6 86.6 86.4 93.0 81.2 86.1",
    "SLM, 3M steps, dev": "62.4 94.2 90.4 90.9 91.7 87.4 87.5 93.8 83.0 86.8",
}


@pytest.mark.parametrize("row", TABLES.values(), ids=TABLES)
def test_average_is_that_of_the_papers(row):
    *scores, average = map(float, row.split())
    columns = dict(zip(averages.PAPER_COLUMNS, scores, strict=True))
    # They average scores of more digits than they print.
    assert averages.paper_average(columns) == pytest.approx(average, abs=0.1)


def test_average_misses_nothing():
    scores = dict.fromkeys(averages.PAPER_COLUMNS[:-1], 0.5)
    with pytest.raises(ValueError, match="it lacks RTE"):
        averages.paper_average(scores)


def test_columns_name_splits_that_exist():
    for name, column in averages.COLUMNS.items():
        assert column.name == name
        assert not column.task.split(column.test_split).has_labels
        if name != "AX":
            assert column.task.split(column.dev_split).has_labels
