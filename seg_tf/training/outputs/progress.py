"""What a run shows on stderr: a bar in a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Mapping
from typing import Protocol, TextIO

from tqdm import tqdm


class Progress(Protocol):
    """Shows how far a run is."""

    def advance(self, updates: int) -> None:
        """Called after every update, with those done."""

    def show(self, updates: int, values: Mapping[str, float | str]) -> None:
        """Called at every log interval and after every validation.

        Args:
            updates: updates done.
            values: by short names; strings are shown as they are.
        """

    def close(self) -> None:
        """Called once at the end."""


def progress(total: int, updates: int, stream: TextIO | None = None) -> Progress:
    """The display that suits a stream.

    Args:
        total: updates of the run.
        updates: those done before this process.
        stream: where to write; None takes stderr.
    """
    stream = stream or sys.stderr
    kind = ProgressBar if stream.isatty() else ProgressLines
    return kind(total, updates, stream)


class ProgressBar:
    """One line that is rewritten, with the time left."""

    def __init__(self, total: int, updates: int, stream: TextIO):
        self._bar = tqdm(
            total=total,
            initial=updates,
            unit="update",
            file=stream,
            dynamic_ncols=True,
            smoothing=0.05,
        )
        self._shown: dict[str, str] = {}

    def advance(self, updates: int) -> None:
        self._bar.update(updates - self._bar.n)

    def show(self, updates: int, values: Mapping[str, float | str]) -> None:
        # Values of the last validation stay beside those of training.
        self._shown.update(_formatted(values))
        self._bar.set_postfix(self._shown, refresh=False)

    def close(self) -> None:
        self._bar.close()


class ProgressLines:
    """One line per report, for log files."""

    def __init__(self, total: int, updates: int, stream: TextIO):
        self._total = total
        self._first = updates
        self._stream = stream
        self._start = time.monotonic()

    def advance(self, updates: int) -> None:
        pass

    def show(self, updates: int, values: Mapping[str, float | str]) -> None:
        shown = "  ".join(f"{name} {text}" for name, text in _formatted(values).items())
        print(
            f"update {updates:,}/{self._total:,}  {shown}  left {self._left(updates)}",
            file=self._stream,
            flush=True,
        )

    def close(self) -> None:
        pass

    def _left(self, updates: int) -> str:
        done = updates - self._first
        if not done:
            return "?"
        seconds = (time.monotonic() - self._start) / done * (self._total - updates)
        return tqdm.format_interval(seconds)


def _formatted(values: Mapping[str, float | str]) -> dict[str, str]:
    return {name: _format(value) for name, value in values.items()}


def _format(value: float | str) -> str:
    if isinstance(value, str):
        return value
    if value >= 1000:
        return f"{value:,.0f}"
    if 0 < value < 0.001:
        return f"{value:.2e}"
    return f"{value:.4f}"
