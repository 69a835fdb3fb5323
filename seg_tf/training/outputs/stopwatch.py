"""Time of the training loop, and the part of it spent waiting for data."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any


@dataclasses.dataclass(frozen=True)
class Lap:
    """An interval of training.

    Attributes:
        seconds: its length, pauses left out.
        waited: seconds of it that passed until the next batch was there.
    """

    seconds: float
    waited: float


class Stopwatch:
    """Measures laps of training; validations and checkpoints are pauses.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter):
        self._clock = clock
        self._since: float | None = None
        self._seconds = 0.0
        self._waited = 0.0
        self._is_started = False

    def start(self) -> None:
        """Starts the first lap, or starts all over."""
        self._is_started = True
        self._seconds = self._waited = 0.0
        self._since = self._clock()

    def pause(self) -> None:
        if self._since is not None:
            self._seconds += self._clock() - self._since
            self._since = None

    def go_on(self) -> None:
        if self._is_started and self._since is None:
            self._since = self._clock()

    def next_of(self, iterator: Iterator[Any]) -> Any:
        """The next item, the time until it is there counted as waiting.

        Only the host's clock is read. The step before may still be computed on a GPU,
        so that a wait that is shorter than it delays nothing: what this counts is the
        most that a device can have waited.
        """
        begin = self._clock()
        try:
            return next(iterator)
        finally:
            self._waited += self._clock() - begin

    def lap(self) -> Lap:
        """Ends a lap and starts the next."""
        self.pause()
        lap = Lap(self._seconds, self._waited)
        self.start()
        return lap
