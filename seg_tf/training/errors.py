"""Defines errors that end a run, and turns signals into requests to stop it."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


class TrainingStopped(Exception):
    """Raised if a run ends early. Commands print the message without a traceback.

    Attributes:
        exit_code: int. Exit code of the process.
        is_common: bool. Whether all processes of the run raise the same error.
    """

    exit_code = 1
    is_common = False


class OutputFolderError(TrainingStopped):
    """Raised if the output folder contains another run or is in use."""


class NonFiniteLossError(TrainingStopped):
    """Raised if validation results or too many steps in a row are not finite."""

    is_common = True


class Interrupted(TrainingStopped):
    """Raised if a signal stops the run, after a checkpoint has been saved."""

    is_common = True

    def __init__(self, message: str, signal_number: int):
        super().__init__(message)
        self.exit_code = 128 + signal_number


class StopRequest:
    """Request to stop the run. It is truthy once `signal_number` is set."""

    signal_number: int | None = None

    def __bool__(self) -> bool:
        return self.signal_number is not None


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Context manager that records the first SIGTERM or SIGINT in a `StopRequest`.

    The previous handlers are restored after that signal and on exit. Outside the main
    thread, where Python cannot install handlers, no signal is recorded.
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
