"""Computes losses and metrics as `(sum, weight)`, and pads output layers for GPUs.

Only the training step divides sums by weights.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

argmax: Callable[..., Any]
cross_entropy: Callable[..., Any]
if keras.backend.backend() == "tensorflow":
    from seg_tf.ops.tensorflow_ops import argmax, cross_entropy
else:
    argmax = functools.partial(ops.argmax, axis=-1)
    cross_entropy = functools.partial(
        ops.sparse_categorical_crossentropy, from_logits=True
    )

# Shape key: B batch, P predictions, N labels per row, V vocabulary, D width.


def masked_cross_entropy(logits: Any, labels: Any, weights: Any) -> tuple[Any, Any]:
    """Sums the weighted cross entropies of integer labels, and the weights.

    Args:
        logits: float tensor `(..., V)`. The softmax is computed in float32.
        labels: int tensor `(...)`. Must be below V, even where the weight is 0.
        weights: float tensor `(...)`. Labels with weight 0 are ignored.

    Returns:
        The weighted sum and the sum of the weights, float32 scalars. If all weights
        are 0, both sums and all gradients are 0.
    """
    losses_BP = cross_entropy(labels, ops.cast(logits, "float32"))
    weights = ops.cast(weights, "float32")
    return ops.sum(losses_BP * weights), ops.sum(weights)


def masked_accuracy(logits: Any, labels: Any, weights: Any) -> tuple[Any, Any]:
    """Returns the weighted number of correct argmax predictions, and the total weight.

    For the arguments, see `masked_cross_entropy`.
    """
    hits_BP = ops.equal(argmax(logits), ops.cast(labels, "int32"))
    weights = ops.cast(weights, "float32")
    return ops.sum(ops.cast(hits_BP, "float32") * weights), ops.sum(weights)


def binary_counts(
    predictions: Any, labels: Any, weights: Any
) -> dict[str, tuple[Any, Any]]:
    """Computes the metrics of binary classification that can be summed over batches.

    `predictions` and `labels` are bool tensors, and `weights` is a float tensor of the
    same shape. Entries with weight 0 are ignored. Returns `(sum, weight)` of
    `accuracy`, `recall`, `specificity`, `f1`, `positive_rate` (fraction of positive
    labels) and `predicted_rate` (fraction of positive predictions).
    """
    weights = ops.cast(weights, "float32")
    is_positive, is_predicted = (
        ops.cast(values, "float32") * weights for values in (labels, predictions)
    )
    total, positives = ops.sum(weights), ops.sum(is_positive)
    predicted = ops.sum(is_predicted)
    true_positives = ops.sum(is_positive * ops.cast(predictions, "float32"))
    true_negatives = total - positives - predicted + true_positives
    return {
        "accuracy": (true_positives + true_negatives, total),
        "positive_rate": (positives, total),
        "predicted_rate": (predicted, total),
        "recall": (true_positives, positives),
        "specificity": (true_negatives, total - positives),
        "f1": (2 * true_positives, positives + predicted),
    }


def pair_accuracy(scores: Any, labels: Any, weights: Any) -> tuple[Any, Any]:
    """Compares the scores of all positive-negative pairs within each row.

    For the arguments, of shape `(B, N)`, see `binary_counts`. Returns the number of
    pairs in which the positive entry scores higher, with ties counting half, and the
    number of pairs. The ratio is the area under the ROC curve, 0.5 by chance.
    """
    scores_BN = ops.cast(scores, "float32")
    weights_BN = ops.cast(weights, "float32")
    positive_BN = ops.cast(labels, "float32") * weights_BN
    negative_BN = weights_BN - positive_BN
    signs_BNN = ops.sign(scores_BN[:, :, None] - scores_BN[:, None, :])
    pairs_BNN = positive_BN[:, :, None] * negative_BN[:, None, :]
    return ops.sum(pairs_BNN * (signs_BNN + 1) / 2), ops.sum(pairs_BNN)


def binary_summary(results: Mapping[str, Any]) -> dict[str, Any]:
    """Computes metrics of binary classification that cannot be summed over batches.

    `results` contains the ratios of `binary_counts`. Returns `majority_accuracy`,
    reached by always predicting the more frequent class; `balanced_accuracy`, the mean
    of recall and specificity; and `mcc`, Matthews's correlation coefficient, 0 where
    undefined.
    """
    positive, predicted = results["positive_rate"], results["predicted_rate"]
    covariance = results["recall"] * positive - positive * predicted
    variances = positive * (1 - positive) * predicted * (1 - predicted)
    return {
        "majority_accuracy": ops.maximum(positive, 1 - positive),
        "balanced_accuracy": (results["recall"] + results["specificity"]) / 2,
        "mcc": ops.divide_no_nan(covariance, ops.sqrt(ops.maximum(variances, 0))),
    }


# Far below any logit, so that its probability is exactly 0, but finite in float16.
_NEVER = -3e4


def pad_vocabulary(table: Any, bias: Any, multiple: int) -> tuple[Any, Any]:
    """Pads `table` `(V, D)` and `bias` `(V,)` of an output layer for speed on GPUs.

    V becomes a multiple of `multiple`. Tensor cores are slow unless rows of logits
    begin at multiples of 16 bytes. Padding has probability 0 and gradient 0.
    """
    missing = -table.shape[0] % multiple
    if not missing:
        return table, bias
    table = ops.pad(table, [[0, missing], [0, 0]])
    return table, ops.pad(bias, [[0, missing]], constant_values=_NEVER)
