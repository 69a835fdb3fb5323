"""The metrics of tasks, by scikit-learn and SciPy.

A metric maps the labels and the predictions of a split to a number, as a share (0.88,
not 88). Where its formula has no value it is 0, without a warning.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy.stats
import sklearn.metrics

from seg_tf.tasks.task import Task


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of label 1, which means a paraphrase in MRPC and QQP."""
    return sklearn.metrics.f1_score(labels, predictions, pos_label=1, zero_division=0.0)


def matthews(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Matthews' correlation; with more than two labels its generalisation, R_K."""
    return _correlation(sklearn.metrics.matthews_corrcoef, labels, predictions)


def pearson(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Pearson's linear correlation."""
    return _correlation(scipy.stats.pearsonr, labels, predictions)


def spearman(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Spearman's rank correlation; ties share a rank."""
    return _correlation(scipy.stats.spearmanr, labels, predictions)


METRICS: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": sklearn.metrics.accuracy_score,
    "f1": f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
}


def compute(
    task: Task, labels: Sequence[int | float], predictions: Sequence[int | float]
) -> dict[str, float]:
    """All metrics of a task.

    Returns:
        Name -> value, the main metric first.

    Raises:
        ValueError: if a label is unknown, or the numbers of labels and predictions
            differ.
    """
    if not len(labels) or None in labels or len(labels) != len(predictions):
        raise ValueError(
            f"`labels` of {task.name} must all be known, and `predictions` must have "
            f"one for each. Received: {len(labels)} labels, "
            f"{list(labels).count(None)} of them None, {len(predictions)} predictions"
        )
    known, predicted = np.asarray(labels), np.asarray(predictions)
    return {name: float(METRICS[name](known, predicted)) for name in task.metrics}


def _correlation(
    function: Callable, labels: np.ndarray, predictions: np.ndarray
) -> float:
    with warnings.catch_warnings():
        # Of constant values, and of those that differ only in their last digits.
        warnings.simplefilter("ignore")
        result = function(labels.astype(float), predictions.astype(float))
    return float(np.nan_to_num(getattr(result, "statistic", result)))
