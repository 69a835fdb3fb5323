"""Vectors picked out of sequences, and rows of sentences as blocks."""

from typing import Any

from keras import ops

# Shape key: B batch, L sequence length, D hidden size, P positions, N numbers or
# sentences, T block length, G blocks of all rows.


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
    wanted_N1 = ops.expand_dims(ops.arange(1, 1 + count, dtype="int32"), 1)
    is_of_BNL = ops.equal(ops.expand_dims(numbers, 1), wanted_N1)
    is_of_BNL = ops.cast(is_of_BNL, sequence.dtype)
    counts_BN = ops.sum(is_of_BNL, axis=2)
    sums_BND = ops.matmul(is_of_BNL, sequence)
    counts_BN1 = ops.expand_dims(ops.maximum(counts_BN, 1), 2)
    return sums_BND / counts_BN1, counts_BN > 0


def to_blocks(rows: Any, block_length: int) -> Any:
    """Tensor `(B, L, …)` as blocks `(G, T, …)`, in which whole sentences lie.

    Raises:
        ValueError: if L is known and not a multiple of T.
    """
    length = rows.shape[1]
    if length is not None and length % block_length:
        raise ValueError(
            "`block_length` must divide the length of a row. Received: "
            f"block_length={block_length}, rows of length {length}"
        )
    return ops.reshape(rows, (-1, block_length, *rows.shape[2:]))


def text_of_positions(text_number: Any, positions: Any, mask: Any) -> Any:
    """The texts of positions `(B, N)` in rows `(B, L)`, -1 where `mask` is False."""
    texts_BN = ops.take_along_axis(text_number, positions, axis=1)
    return ops.where(ops.cast(mask, "bool"), texts_BN, -1)
