"""Metrics of binary classification as `(sum, weight)`, and quotients of them.

With few positives accuracy says little: who always says no has the accuracy of the
majority. So every number comes with its baseline.
"""

# Shape key: B rows, N answers of a row.

from collections.abc import Mapping
from typing import Any

from keras import ops


def binary_counts(
    predictions: Any, labels: Any, weights: Any
) -> dict[str, tuple[Any, Any]]:
    """Counts that can be added up over batches.

    Args:
        predictions: bool tensor of any shape.
        labels: bool tensor of that shape.
        weights: float tensor of that shape; 0 leaves an answer out.

    Returns:
        Pairs of float32 scalars: `accuracy`; `positive_rate` of the labels and
        `predicted_rate` of the predictions; `recall`, of the positives, and
        `specificity`, of the negatives, the share that was found; and `f1`.
    """
    weights = ops.cast(weights, "float32")
    is_yes, is_said = (
        ops.cast(values, "float32") * weights for values in (labels, predictions)
    )
    total, positives, said = (ops.sum(one) for one in (weights, is_yes, is_said))
    found = ops.sum(is_yes * ops.cast(predictions, "float32"))
    # Neither positive nor said to be.
    rejected = total - positives - said + found
    return {
        "accuracy": (found + rejected, total),
        "positive_rate": (positives, total),
        "predicted_rate": (said, total),
        "recall": (found, positives),
        "specificity": (rejected, total - positives),
        "f1": (2 * found, positives + said),
    }


def counts_at_rate(
    scores: Any, labels: Any, weights: Any
) -> dict[str, tuple[Any, Any]]:
    """Counts where the threshold of the probability is the share of positives.

    With few positives, hardly one is ever likelier than not, and who says what is
    likelier says no to all. Here an answer is positive where its probability is above
    the share of positives, which is the threshold of the best balanced accuracy.

    Args:
        scores: float tensor, the log-odds of a positive.
        labels: bool tensor of that shape.
        weights: float tensor of that shape; 0 leaves an answer out.

    Returns:
        `recall_at_rate` and `specificity_at_rate`, pairs as those of `binary_counts`.
    """
    weights = ops.cast(weights, "float32")
    positives = ops.sum(ops.cast(labels, "float32") * weights)
    # Without positives, or without anything else, -inf or inf.
    threshold = ops.log(positives) - ops.log(ops.sum(weights) - positives)
    counts = binary_counts(ops.cast(scores, "float32") > threshold, labels, weights)
    return {f"{name}_at_rate": counts[name] for name in ("recall", "specificity")}


def pair_accuracy(scores: Any, labels: Any, weights: Any) -> tuple[Any, Any]:
    """Share of pairs of a row in which the positive outscores the negative.

    An area under the ROC curve, over pairs of a row: 0.5 by chance, and more than that
    long before the first positive has a score that makes it the likelier answer.

    Args:
        scores: float tensor `(B, N)`.
        labels: bool tensor `(B, N)`.
        weights: float tensor `(B, N)`, 0 or 1; 0 leaves an answer out.

    Returns:
        The number of such pairs, equal scores counting half, and that of all pairs of
        a positive and a negative: float32 scalars.
    """
    scores_BN = ops.cast(scores, "float32")
    weights_BN = ops.cast(weights, "float32")
    is_yes_BN = ops.cast(labels, "float32") * weights_BN
    is_no_BN = weights_BN - is_yes_BN
    signs_BNN = ops.sign(scores_BN[:, :, None] - scores_BN[:, None, :])
    pairs_BNN = is_yes_BN[:, :, None] * is_no_BN[:, None, :]
    return ops.sum(pairs_BNN * (signs_BNN + 1) / 2), ops.sum(pairs_BNN)


def binary_summary(results: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics that cannot be added up, from the quotients of `binary_counts`.

    Args:
        results: the sum divided by the weight, by name; those of `counts_at_rate` may
            be among them.

    Returns:
        `majority_accuracy`, that of always giving the commoner answer;
        `balanced_accuracy`, the mean of recall and specificity, 0.5 by chance, and
        `balanced_accuracy_at_rate`, if asked for, the same of those at the rate; and
        `mcc`, Matthews' correlation coefficient, 0 by chance and where it is 0 / 0.
    """
    yes, said = results["positive_rate"], results["predicted_rate"]
    covariance = results["recall"] * yes - yes * said
    variances = yes * (1 - yes) * said * (1 - said)
    balanced = {
        f"balanced_accuracy{at}": (results[f"recall{at}"] + results[f"specificity{at}"])
        / 2
        for at in ("", "_at_rate")
        if f"recall{at}" in results
    }
    return {
        "majority_accuracy": ops.maximum(yes, 1 - yes),
        **balanced,
        "mcc": ops.divide_no_nan(covariance, ops.sqrt(ops.maximum(variances, 0))),
    }
