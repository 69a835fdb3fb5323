"""Profile of some updates of a run, for TensorBoard."""

import contextlib
import pathlib
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import keras
import tensorflow as tf

from seg_tf.training import engine


class Profiler(keras.callbacks.Callback):
    """Writes a profile of the updates in a range; of several processes, the chief.

    As a context, it writes what it has if training ends in between.

    Args:
        updates: numbers of the updates, the first update of a run being 1.
        folder: where TensorBoard looks for events of the run.
        report: called with each line worth saying.
    """

    def __init__(
        self, updates: range, folder: pathlib.Path, report: Callable[[str], None]
    ):
        super().__init__()
        self._updates = updates
        self._folder = folder
        self._report = report
        self._done = 0
        self._first: int | None = None
        self._step = contextlib.ExitStack()
        self._engine = engine.current()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def on_train_begin(self, logs: Any = None) -> None:
        # Counted here from then on: to read the model's counter waits for the device.
        self._done = self.model.updates
        if self._done >= self._updates[-1] and self._is_chief():
            self._report(
                f"No profile is written: the run goes on after update {self._done:,}, "
                f"the last to be profiled is {self._updates[-1]:,}"
            )

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        update = self._done + 1
        if update not in self._updates or not self._is_chief():
            return
        if self._first is None:
            self._first = update
            self._attempt(lambda: self._engine.start_profile(self._folder))
        self._step.enter_context(self._engine.profiled_step(update))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._done += 1
        self._step.close()
        if self._done == self._updates[-1]:
            self._stop()

    def _is_chief(self) -> bool:
        return self.model.step_options.distribution.is_chief

    def _stop(self) -> None:
        if self._first is None:
            return
        self._step.close()
        if self._attempt(self._engine.stop_profile):
            self._report(
                f"Profile of updates {self._first:,} to {self._done:,}: "
                f"{self._folder / 'plugins' / 'profile'}"
            )
        self._first = None

    def _attempt(self, action: Callable[[], None]) -> bool:
        """Does it, or says why not: no run ends for its profile."""
        try:
            action()
        except (tf.errors.OpError, RuntimeError) as error:  # of JAX the second
            reason = getattr(error, "message", error)
            self._report(f"No profile is written: {reason}")
            return False
        return True
