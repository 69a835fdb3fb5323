"""Bounds of the numbers in a config."""

from typing import Any


def check_at_least(config: Any, bound: int, *names: str) -> None:
    """Checks fields of a dataclass.

    Raises:
        ValueError: if one is below the bound.
    """
    for name in names:
        value = getattr(config, name)
        if value < bound:
            raise ValueError(
                f"`{name}` must be at least {bound}. Received: {name}={value}"
            )


def check_rates(config: Any, *names: str) -> None:
    """Checks fields of a dataclass that are rates.

    Raises:
        ValueError: if one is below 0 or above 1.
    """
    for name in names:
        value = getattr(config, name)
        if not 0 <= value <= 1:
            raise ValueError(
                f"`{name}` must lie between 0 and 1. Received: {name}={value}"
            )
