"""Sinusoids of relative positions, each part of which has a share of the width."""

import math
from typing import Any

from keras import ops

_LONGEST_WAVE = 10_000.0


def part_widths(width: int, num_parts: int) -> list[int]:
    """Shares the width of a position vector among its parts (Segatron, eq. 3).

    All parts are equally wide and even, since half of each are sines; the last one
    takes what is left: 410 in three is 136, 136 and 138.

    Raises:
        ValueError: if `width` is odd or too small for so many parts.
    """
    share = width // num_parts
    share += share % 2
    last = width - share * (num_parts - 1)
    if width % 2 or last < 2:
        raise ValueError(
            "`width` must be even and leave two numbers for every part. Received: "
            f"width={width}, num_parts={num_parts}"
        )
    return [share] * (num_parts - 1) + [last]


def angular_frequencies(width: int) -> list[float]:
    """1 / 10000^(2i / width) for i below width / 2 (Segatron, eq. 2)."""
    return [math.pow(_LONGEST_WAVE, -2 * i / width) for i in range(width // 2)]


def angles(positions: Any, width: int) -> Any:
    """Angles of the sinusoids of a position vector.

    Args:
        positions: int tensor `(...)`. Angles are as exact as float32 holds positions
            times frequencies: keep them small.
        width: width of the vector.

    Returns:
        float32 tensor `(..., width / 2)`.
    """
    frequencies = ops.convert_to_tensor(angular_frequencies(width), dtype="float32")
    return ops.cast(positions, "float32")[..., None] * frequencies


def position_vectors(positions: Any, width: int) -> Any:
    """R of eq. 2: all sines, then all cosines: float32 tensor `(..., width)`."""
    angle = angles(positions, width)
    return ops.concatenate([ops.sin(angle), ops.cos(angle)], axis=-1)
