"""Updates whose outcome the host reads only when the next has been started.

A step that was started is computed while the host goes on. Asking whether it was an
update, or reading its logs, waits for it; a device that is waited for after each step
has nothing to do until the host has read, decided and started the next. So one step
stays in flight: update n + 1 is started before the outcome of update n is read.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from seg_tf.training.step import Features


class StartedStep(NamedTuple):
    """A step that may still be computed.

    Attributes:
        features: the batch.
        logs: values to be logged, once it is done.
        finite: whether it was an update: loss and gradient were finite.
        flags: the collective flags that it summed.
    """

    features: Features
    logs: Mapping[str, Any]
    finite: Any
    flags: Any


class LateUpdates:
    """Makes updates, each from the first batch whose loss and gradient are finite.

    Of the step in flight it is not known yet whether it is an update. If it turns out
    not to be one, the next takes its place and is waited for, as are all until one is
    an update. So every step and its order are the same as if each were waited for.

    All processes of a run start the same steps; one may read an outcome earlier than
    others, as where a callback of the first process reads the weights. What they have
    agreed on by flags is handed on after the same update on all, so that they act
    alike.

    Args:
        start: reads a batch of an iterator and starts a step.
        agree: called with the flags of each update, after `begin` of the next, or by
            `settle`.
        max_skipped_steps: greatest number of consecutive steps that are no updates.
        failure: from the batch of the last step, the error for one more.
    """

    def __init__(
        self,
        start: Callable[[Iterator[Features]], StartedStep],
        agree: Callable[[Any], None],
        max_skipped_steps: int,
        failure: Callable[[Features], Exception],
    ):
        self._start = start
        self._agree = agree
        self._max_skipped_steps = max_skipped_steps
        self._failure = failure
        self._iterator: Iterator[Features] = iter(())
        self._in_flight: StartedStep | None = None
        self._done: StartedStep | None = None

    def begin(self, iterator: Iterator[Features]) -> Mapping[str, Any]:
        """Starts an update, then makes sure of the one before.

        Returns:
            The logs of the update before: reading them waits for nothing. Those of
            the update itself, where there is none before since `settle`.

        Raises:
            Exception: the failure, if too many steps in a row were no updates.
        """
        self._iterator = iterator
        before, self._in_flight = self._in_flight, None
        started = self._start(iterator)
        if before is not None and not before.finite:
            self._check(1, before)
            self._done = self._first_update(started, skipped=1)
            started = self._start(iterator)
        elif before is not None:
            self._done = before
        done, self._done, self._in_flight = self._done, None, started
        if done is None:
            return started.logs
        self._agree(done.flags)
        return done.logs

    def wait(self) -> None:
        """Waits until every update that was begun is one.

        Raises:
            Exception: as `begin`.
        """
        step, self._in_flight = self._in_flight, None
        if step is not None:
            self._done = self._first_update(step)

    def settle(self) -> Mapping[str, Any]:
        """As `wait`, and hands its flags on; to be called by all processes.

        Returns:
            The logs of the last update, if it was not settled before.
        """
        self.wait()
        done, self._done = self._done, None
        if done is None:
            return {}
        self._agree(done.flags)
        return done.logs

    def _first_update(self, step: StartedStep, skipped: int = 0) -> StartedStep:
        while not step.finite:
            skipped += 1
            self._check(skipped, step)
            step = self._start(self._iterator)
        return step

    def _check(self, skipped: int, step: StartedStep) -> None:
        if skipped > self._max_skipped_steps:
            raise self._failure(step.features)
