"""Errors and signals that end a run for a reason that its user can act on."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


class TrainingStopped(Exception):
    """A run ended early. Its message says why and what to do; no traceback is needed.

    Attributes:
        exit_code: exit code of the process.
        is_common: whether all processes of a run end like this, with the same message.
    """

    exit_code = 1
    is_common = False


class OutputFolderError(TrainingStopped):
    """The output folder contains another run, or is in use."""


class NonFiniteLossError(TrainingStopped):
    """Loss or gradient became infinite or not a number."""

    is_common = True


class Interrupted(TrainingStopped):
    """A signal asked the run to end; its state is in a checkpoint."""

    is_common = True

    def __init__(self, message: str, signal_number: int):
        super().__init__(message)
        self.exit_code = 128 + signal_number


class StopRequest:
    """The signal that asked the run to stop; falsy before there is one."""

    signal_number: int | None = None

    def __bool__(self) -> bool:
        return self.signal_number is not None


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Catches the first SIGTERM or SIGINT; a second one acts as before.

    Outside the main thread, where Python cannot catch signals, nothing is caught.
    """
    request = StopRequest()
    previous: dict[int, Any] = {}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def catch(number: int, frame: object) -> None:
        request.signal_number = number
        restore()

    with contextlib.suppress(ValueError):
        for number in (signal.SIGTERM, signal.SIGINT):
            previous[number] = signal.signal(number, catch)
    try:
        yield request
    finally:
        restore()
