"""Progress on stderr: a bar in a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from tqdm import tqdm


class Progress:
    """A bar with the time left, or a line per report, for log files.

    Args:
        total: updates, or other units, in all.
        done: those done before this process.
        stream: where to write; None takes stderr. A terminal gets the bar.
        **bar: more arguments of `tqdm`.
    """

    def __init__(
        self, total: float, done: float = 0, stream: TextIO | None = None, **bar: Any
    ):
        self._total, self._first = total, done
        self._stream = stream or sys.stderr
        self._start = time.monotonic()
        self.bar = tqdm(
            total=total,
            initial=done,
            file=self._stream,
            dynamic_ncols=True,
            disable=not self._stream.isatty(),
            **bar,
        )
        self._shown: dict[str, str] = {}

    def advance(self, done: float) -> None:
        """Moves the bar; called after every update, with those done."""
        self.bar.update(done - self.bar.n)

    def show(self, updates: int, values: Mapping[str, float | str]) -> None:
        """Called at every log interval and after every validation.

        Args:
            updates: updates done.
            values: by short names; strings are shown as they are.
        """
        texts = {name: _format(value) for name, value in values.items()}
        # Values of the last validation stay beside those of training.
        self._shown.update(texts)
        self.bar.set_postfix(self._shown, refresh=False)
        self.line(f"update {updates:,}/{self._total:,}  {joined(texts)}", updates)

    def line(self, text: str, done: float) -> None:
        """Prints a line with the time left, where there is no bar."""
        if not self.bar.disable:
            return
        left = "?"
        if done > self._first:
            rate = (time.monotonic() - self._start) / (done - self._first)
            left = tqdm.format_interval(rate * (self._total - done))
        print(f"{text}  left {left}", file=self._stream, flush=True)

    def close(self) -> None:
        """Called once at the end."""
        self.bar.close()


def joined(texts: Mapping[str, str]) -> str:
    """Names and texts in a line."""
    return "  ".join(f"{name} {text}" for name, text in texts.items())


def _format(value: float | str) -> str:
    if isinstance(value, str):
        return value
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2e}" if 0 < value < 0.001 else f"{value:.4f}"
