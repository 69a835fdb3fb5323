"""Rows of sentences as blocks.

A row of L positions is a row of blocks of `block_length`, and every sentence lies in
one block, so that no position has to see one of another block. Which sentences share
a block, and how many, makes no difference to any of them.
"""

# Shape key: B batch, L row length, T block length, G blocks of all rows, N sentences.

from typing import Any

from keras import ops


def to_blocks(rows: Any, block_length: int) -> Any:
    """Tensor `(B, L, …)` as `(G, T, …)`.

    Raises:
        ValueError: if L is known and no multiple of T.
    """
    length = rows.shape[1]
    if length is not None and length % block_length:
        raise ValueError(
            "`block_length` must divide the length of a row. Received: "
            f"block_length={block_length}, rows of length {length}"
        )
    return ops.reshape(rows, (-1, block_length, *rows.shape[2:]))


def text_of_positions(text_number: Any, positions: Any, mask: Any) -> Any:
    """The texts that some positions of a row belong to.

    Args:
        text_number: int tensor `(B, L)`, 0 at padding.
        positions: int tensor `(B, N)`.
        mask: bool tensor `(B, N)`, False where there is nothing.

    Returns:
        Int tensor `(B, N)`, -1 where there is nothing.
    """
    texts_BN = ops.take_along_axis(text_number, positions, axis=1)
    return ops.where(ops.cast(mask, "bool"), texts_BN, -1)
