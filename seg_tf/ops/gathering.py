"""Picks vectors out of a sequence."""

# Shape key: B batch, L sequence length, D hidden size, P positions.

from typing import Any

from keras import ops


def gather_vectors(sequence: Any, positions: Any) -> Any:
    """The vectors that stand at some positions of each row.

    Args:
        sequence: tensor `(B, L, D)`.
        positions: int tensor `(B, P)`, each below L.

    Returns:
        Tensor `(B, P, D)` of the dtype of `sequence`.
    """
    return ops.take_along_axis(sequence, positions[:, :, None], axis=1)
