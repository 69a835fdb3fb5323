"""The metrics of tasks, by scikit-learn and SciPy.

A metric maps the labels and the predictions of a split to a number, as a share (0.88,
not 88). Where its formula has no value it is 0, without a warning: F1 where neither a
label nor a prediction is positive; correlations where all labels or all predictions are
the same. Predictions of a model that diverged, which are not finite, are an error.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy.stats
import sklearn.metrics

from seg_tf.tasks.task import Task


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Share of the predictions that are right."""
    return float(sklearn.metrics.accuracy_score(labels, predictions))


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of label 1, which means a paraphrase in MRPC and QQP."""
    return float(
        sklearn.metrics.f1_score(labels, predictions, pos_label=1, zero_division=0.0)
    )


def matthews(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Matthews' correlation; with more than two labels its generalisation, R_K."""
    return _correlation(sklearn.metrics.matthews_corrcoef, labels, predictions)


def pearson(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Pearson's linear correlation."""
    return _correlation(
        lambda *values: scipy.stats.pearsonr(*values).statistic, labels, predictions
    )


def spearman(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Spearman's rank correlation; ties share a rank."""
    return _correlation(
        lambda *values: scipy.stats.spearmanr(*values).statistic, labels, predictions
    )


METRICS: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    function.__name__: function
    for function in (accuracy, f1, matthews, pearson, spearman)
}


def compute(
    task: Task, labels: Sequence[int | float], predictions: Sequence[int | float]
) -> dict[str, float]:
    """All metrics of a task.

    Args:
        task: the task.
        labels: of its examples (`Example.label`).
        predictions: numbers of labels, or scores.

    Returns:
        Name -> value, the main metric first.

    Raises:
        ValueError: if there are no labels, not as many predictions as labels, or any
            that the task does not have.
    """
    if any(label is None for label in labels):
        raise ValueError(
            f"`labels` of {task.name} must all be known; test sets have none. "
            f"Received: {sum(label is None for label in labels)} of {len(labels)} None"
        )
    known, predicted = np.asarray(labels), np.asarray(predictions)
    if not known.size or known.ndim != 1 or known.shape != predicted.shape:
        raise ValueError(
            "`labels` and `predictions` must be lists of the same length, at least 1. "
            f"Received: shapes {known.shape} and {predicted.shape} ({task.name})"
        )
    check_values(task, "labels", known)
    check_values(task, "predictions", predicted)
    return {name: METRICS[name](known, predicted) for name in task.metrics}


def check_values(task: Task, name: str, values: np.ndarray) -> None:
    """Raises a ValueError unless values are finite, and numbers of labels if any."""
    rule, is_wrong = "finite", ~np.isfinite(values)
    if not task.is_regression:
        rule = f"numbers of labels, whole and from 0 to {len(task.labels) - 1}"
        is_wrong = ~np.isin(values, np.arange(len(task.labels)))
    if is_wrong.any():
        first = int(np.argmax(is_wrong))
        raise ValueError(
            f"`{name}` of {task.name} must be {rule}. Received: {values[first]} at "
            f"{first}, and {is_wrong.sum():,} of {len(values):,} wrong in all"
        )


def _correlation(
    function: Callable, labels: np.ndarray, predictions: np.ndarray
) -> float:
    if np.all(labels == labels[0]) or np.all(predictions == predictions[0]):
        return 0.0
    with warnings.catch_warnings():
        # Values that differ only in their last digits still have a correlation.
        warnings.simplefilter("ignore", scipy.stats.NearConstantInputWarning)
        return float(function(labels.astype(float), predictions.astype(float)))
