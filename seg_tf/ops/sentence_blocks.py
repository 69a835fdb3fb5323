"""Rows of sentences as blocks: who sees whom, inside a sentence and between them.

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


def same_sentence(sentence_number: Any, block_length: int) -> Any:
    """Attention mask: positions of a block that belong to the same sentence.

    Padding sees padding: with nothing to see, a softmax would be over nothing.

    Args:
        sentence_number: int tensor `(B, L)`, 0 at padding.
        block_length: T.

    Returns:
        Bool tensor `(G, T, T)`.
    """
    number_GT = to_blocks(sentence_number, block_length)
    return ops.equal(ops.expand_dims(number_GT, 2), ops.expand_dims(number_GT, 1))


def same_text(text_number: Any, positions: Any, mask: Any) -> Any:
    """Attention mask: positions of a row that belong to the same text.

    Args:
        text_number: int tensor `(B, L)`, 0 at padding.
        positions: int tensor `(B, N)`, of what is to be seen.
        mask: bool tensor `(B, N)`, False where there is nothing.

    Returns:
        Bool tensor `(B, L, N)`.
    """
    seen_BN = ops.take_along_axis(text_number, positions, axis=1)
    seen_BN = ops.where(ops.cast(mask, "bool"), seen_BN, -1)
    return ops.equal(ops.expand_dims(text_number, 2), ops.expand_dims(seen_BN, 1))
