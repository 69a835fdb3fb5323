"""Vectors at positions of a sequence, and means over parts of it."""

from typing import Any

from keras import ops

# Shape key: B batch, L sequence length, D hidden size, P positions, N numbers.


def gather_vectors(sequence: Any, positions: Any) -> Any:
    """The vectors `(B, P, D)` of a sequence `(B, L, D)` at int positions `(B, P)`."""
    return ops.take_along_axis(sequence, ops.expand_dims(positions, 2), axis=1)


def mean_vectors(sequence: Any, numbers: Any, count: Any) -> tuple[Any, Any]:
    """Means over the vectors of each number from 1 on.

    Args:
        sequence: tensor `(B, L, D)`.
        numbers: int tensor `(B, L)`; vectors with 0 do not count.
        count: int, or int tensor `()`: the highest number, N.

    Returns:
        Tensor `(B, N, D)` of the dtype of `sequence`, 0 for a number without a vector,
        and the mask of numbers with one, bool `(B, N)`.
    """
    numbers_N1 = ops.expand_dims(ops.arange(1, 1 + count, dtype="int32"), 1)
    belongs_BNL = ops.equal(ops.expand_dims(numbers, 1), numbers_N1)
    belongs_BNL = ops.cast(belongs_BNL, sequence.dtype)
    counts_BN = ops.sum(belongs_BNL, axis=2)
    sums_BND = ops.matmul(belongs_BNL, sequence)
    counts_BN1 = ops.expand_dims(ops.maximum(counts_BN, 1), 2)
    return sums_BND / counts_BN1, counts_BN > 0
