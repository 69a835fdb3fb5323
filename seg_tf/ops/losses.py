"""Losses and metrics as `(sum, weight)`: the training step alone divides."""

# Shape key: B batch, P predictions, V vocabulary.

from typing import Any

from keras import ops


def masked_cross_entropy(logits: Any, labels: Any, weights: Any) -> tuple[Any, Any]:
    """Cross entropy of integer labels, weighted and summed.

    Args:
        logits: float tensor `(..., V)` of any precision; the softmax is taken in
            float32.
        labels: int tensor `(...)`, each below V, also where the weight is 0.
        weights: float tensor `(...)`; 0 leaves a label out.

    Returns:
        The weighted sum and the sum of the weights, float32 scalars. With no
        weight at all both are 0, and so is every gradient.
    """
    losses_BP = ops.sparse_categorical_crossentropy(
        labels, ops.cast(logits, "float32"), from_logits=True
    )
    weights = ops.cast(weights, "float32")
    return ops.sum(losses_BP * weights), ops.sum(weights)


def masked_accuracy(logits: Any, labels: Any, weights: Any) -> tuple[Any, Any]:
    """Weighted number of labels that hold the largest logit.

    Args:
        logits: float tensor `(..., V)`.
        labels: int tensor `(...)`.
        weights: float tensor `(...)`; 0 leaves a label out.

    Returns:
        The weighted number of hits and the sum of the weights, float32 scalars.
    """
    hits_BP = ops.equal(ops.argmax(logits, axis=-1), ops.cast(labels, "int32"))
    weights = ops.cast(weights, "float32")
    return ops.sum(ops.cast(hits_BP, "float32") * weights), ops.sum(weights)
