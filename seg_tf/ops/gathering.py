"""Picks vectors out of a sequence."""

# Shape key: B batch, L sequence length, D hidden size, P positions, N numbers.

from typing import Any

from keras import ops


def gather_vectors(sequence: Any, positions: Any) -> Any:
    """The vectors at some positions of each row.

    Args:
        sequence: tensor `(B, L, D)`.
        positions: int tensor `(B, P)`, each below L.

    Returns:
        Tensor `(B, P, D)` of the dtype of `sequence`.
    """
    return ops.take_along_axis(sequence, ops.expand_dims(positions, 2), axis=1)


def mean_vectors(sequence: Any, numbers: Any, count: Any) -> tuple[Any, Any]:
    """Means over the vectors of each number from 1 on.

    Args:
        sequence: tensor `(B, L, D)`.
        numbers: int tensor `(B, L)`; vectors of 0 belong to none.
        count: int, or int tensor `()`: the highest number, N.

    Returns:
        Tensor `(B, N, D)` of the dtype of `sequence`, 0 where a number has no vector;
        and bool `(B, N)`, whether it has one.
    """
    wanted_N1 = ops.expand_dims(ops.arange(1, 1 + count, dtype="int32"), 1)
    is_of_BNL = ops.equal(ops.expand_dims(numbers, 1), wanted_N1)
    is_of_BNL = ops.cast(is_of_BNL, sequence.dtype)
    counts_BN = ops.sum(is_of_BNL, axis=2)
    sums_BND = ops.matmul(is_of_BNL, sequence)
    counts_BN1 = ops.expand_dims(ops.maximum(counts_BN, 1), 2)
    return sums_BND / counts_BN1, counts_BN > 0
