"""Profiles of some updates of a run, for TensorBoard."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator

import tensorflow as tf

from seg_tf.training import engine


class Profiler:
    """Writes a profile of the updates in a range.

    Args:
        updates: numbers of the updates; the first update of a run is 1.
        folder: folder where TensorBoard finds the events of the run.
        report: called with each line to print.
    """

    def __init__(
        self, updates: range, folder: pathlib.Path, report: Callable[[str], None]
    ):
        self._updates = updates
        self._folder = folder
        self._report = report
        self._last = 0
        self._first: int | None = None
        self._engine = engine.current()

    def start(self, done: int) -> None:
        """Says so if the range is over after `done` updates."""
        if done >= self._updates[-1]:
            self._report(
                f"No profile is written: the run goes on after update {done:,}, "
                f"the last to be profiled is {self._updates[-1]:,}"
            )

    @contextlib.contextmanager
    def update(self, number: int) -> Iterator[None]:
        """Context of an update."""
        if number not in self._updates:
            yield
            return
        if self._first is None:
            self._first = number
            self._attempt(lambda: self._engine.start_profile(self._folder))
        with self._engine.profiled_step(number):
            yield
        self._last = number
        if number == self._updates[-1]:
            self.close()

    def close(self) -> None:
        """Writes what has been profiled so far."""
        if self._first is None:
            return
        if self._attempt(self._engine.stop_profile):
            self._report(
                f"Profile of updates {self._first:,} to {self._last:,}: "
                f"{self._folder / 'plugins' / 'profile'}"
            )
        self._first = None

    def _attempt(self, action: Callable[[], None]) -> bool:
        """Calls an action; reports its failure, which must not end the run."""
        try:
            action()
        except (tf.errors.OpError, RuntimeError) as error:  # of JAX the second
            reason = getattr(error, "message", error)
            self._report(f"No profile is written: {reason}")
            return False
        return True
