"""Ranges of the numbers in a config, declared in its type hints.

A field `num_layers: Count` is an int from 1 on. `check_ranges`, called by the config's
`__post_init__`, refuses anything else, whether the value comes from Python, a flag or
the file of a checkpoint.
"""

import dataclasses
import functools
import math
import typing
from typing import Annotated, Any

_MOST = 2**31 - 1
_MOST_FLOAT = 2.0**127


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included unless they are `open`."""

    low: float
    high: float = _MOST
    low_open: bool = False
    high_open: bool = False

    @property
    def has_bound(self) -> bool:
        """Returns True if `high` is tighter than the bound of all numbers."""
        return self.high not in (_MOST, _MOST_FLOAT)

    def __contains__(self, value: float) -> bool:
        is_above = value > self.low if self.low_open else value >= self.low
        is_below = value < self.high if self.high_open else value <= self.high
        return is_above and is_below

    def __str__(self) -> str:
        if self.has_bound and not (self.low_open or self.high_open):
            return f"lie between {self.low:g} and {self.high:g}"
        low = f"be {'above' if self.low_open else 'at least'} {self.low:g}"
        if not self.has_bound:
            return low
        return f"{low} and {'below' if self.high_open else 'at most'} {self.high:g}"


Count = Annotated[int, Range(1)]
Whole = Annotated[int, Range(0)]
Seed = Annotated[int, Range(0, 2**32 - 1)]
NonNegative = Annotated[float, Range(0, _MOST_FLOAT)]
Positive = Annotated[float, Range(0, _MOST_FLOAT, low_open=True)]
Rate = Annotated[float, Range(0, 1)]
"""From 0 to 1."""
Share = Annotated[float, Range(0, 1, low_open=True)]
"""Above 0, at most 1."""
Fraction = Annotated[float, Range(0, 1, low_open=True, high_open=True)]
"""Above 0 and below 1."""
Dropout = Annotated[float, Range(0, 1, high_open=True)]
"""From 0, below 1."""


def check_ranges(config: Any) -> None:
    """Checks the fields of a dataclass whose type hints declare a range.

    Raises:
        ValueError: if one is not a number in its range.
    """
    for name, allowed, kind in _ranges(config.__class__):
        value = getattr(config, name)
        if value is None and type(None) in kind:
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value not in allowed:
            is_large = is_number and value > allowed.high and not allowed.has_bound
            most = f" and at most {allowed.high:,}" if is_large else ""
            raise ValueError(
                f"`{name}` must {allowed}{most}. Received: {name}={value!r}"
            )


@functools.cache
def _ranges(cls: type) -> tuple[tuple[str, Range, tuple[Any, ...]], ...]:
    """Fields with a range: name, range and the types beside the number's."""
    hints = typing.get_type_hints(cls, include_extras=True)
    alternatives = {name: typing.get_args(hint) for name, hint in hints.items()}
    return tuple(
        (field.name, allowed, alternatives[field.name])
        for field in dataclasses.fields(cls)
        for hint in (hints[field.name], *alternatives[field.name])
        for allowed in getattr(hint, "__metadata__", ())
    )
