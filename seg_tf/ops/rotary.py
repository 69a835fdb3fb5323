"""Rotary position embedding, for one index or for several that share the dimensions."""

# Shape key: B batch, L sequence length, H heads, E head size.

from collections.abc import Mapping
from typing import Any

import numpy as np
from keras import ops


def rotary_sizes(head_size: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Dimensions of a head that each index rotates.

    Args:
        head_size: E.
        shares: index -> its part of the dimensions, relative to the sum of all.

    Returns:
        The sizes, in the order of the names: all even, with the sum E.

    Raises:
        ValueError: if a share is not positive or does not come to an even size.

    Example:
    >>> rotary_sizes(64, {"position_index": 2, "token_index": 1, "sentence_index": 1})
    {'position_index': 32, 'sentence_index': 16, 'token_index': 16}
    """
    total = sum(shares.values())
    sizes = {}
    for name, share in sorted(shares.items()):
        size = head_size * share / total if share > 0 else 0.0
        if size < 2 or size % 2:
            raise ValueError(
                "`rotary_shares` must give every index an even number of a head's "
                f"{head_size} dimensions. Received: rotary_shares={dict(shares)}: "
                f"{name!r} has {size:g}"
            )
        sizes[name] = int(size)
    return sizes


def rotations(
    indices: Mapping[str, Any], sizes: Mapping[str, int], base: float = 10_000.0
) -> Any:
    """Cosines and sines of the angles by which queries and keys are rotated.

    An index m with d dimensions of a head rotates its pair j by `m * base**(-2j/d)`
    (Su et al., 2021, section 3.2.2). With several indices each rotates its own pairs,
    so that the product of a query and a key depends on the distance in every one of
    them. Token and sentence are the two levels of BiPE (He et al., 2024,
    arXiv:2401.16421).

    Args:
        indices: name -> int tensor `(B, L)`.
        sizes: name -> its dimensions of a head, as from `rotary_sizes`.
        base: the longest wavelength is just below 2 pi times this.

    Returns:
        Float32 tensor `(B, L, E)`: the cosines of the E/2 pairs, then the sines.
    """
    angles = []
    for name, size in sizes.items():
        frequencies = base ** (-np.arange(0, size, 2) / size)
        index_BL1 = ops.expand_dims(ops.cast(indices[name], "float32"), -1)
        angles.append(index_BL1 * frequencies.astype("float32"))
    angles_BLF = ops.concatenate(angles, axis=-1)
    return ops.concatenate([ops.cos(angles_BLF), ops.sin(angles_BLF)], axis=-1)


def rotate(vectors: Any, rotation: Any) -> Any:
    """Rotates queries or keys: pair j is the dimensions j and j + E/2 of a head.

    Args:
        vectors: float tensor `(B, L, H, E)`.
        rotation: float tensor `(B, L, E)` from `rotations`.

    Returns:
        Tensor `(B, L, H, E)`.
    """
    cosine, sine = ops.split(ops.expand_dims(rotation, 2), 2, axis=-1)
    first, second = ops.split(vectors, 2, axis=-1)
    return ops.concatenate(
        [first * cosine - second * sine, second * cosine + first * sine], axis=-1
    )
