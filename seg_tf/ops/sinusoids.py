"""Sinusoids of relative positions, each part of which has a share of the width."""

import math
from collections.abc import Sequence
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


def angles(positions: Any, widths: Sequence[int]) -> Any:
    """Angles of the sinusoids of several parts, side by side.

    Args:
        positions: one int tensor `(...)` for each part. Angles are as exact as
            float32 holds the positions times the frequencies: keep them small.
        widths: width of each part.

    Returns:
        float32 tensor `(..., sum of widths / 2)`.
    """
    return ops.concatenate(
        [
            ops.cast(position, "float32")[..., None]
            * ops.convert_to_tensor(angular_frequencies(width), dtype="float32")
            for position, width in zip(positions, widths, strict=True)
        ],
        axis=-1,
    )


def position_vectors(positions: Any, widths: Sequence[int]) -> Any:
    """R of eq. 2 and 3: of each part all sines, then all cosines.

    Args:
        positions: one int tensor `(...)` for each part.
        widths: width of each part.

    Returns:
        float32 tensor `(..., sum of widths)`.
    """
    vectors = []
    for position, width in zip(positions, widths, strict=True):
        angle = angles([position], [width])
        vectors += [ops.sin(angle), ops.cos(angle)]
    return ops.concatenate(vectors, axis=-1)
