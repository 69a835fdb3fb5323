"""Turns SIGTERM and SIGINT into a stop request that the training loop reads."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Stop request: the signal that asked the run to stop; falsy before one."""

    def __init__(self) -> None:
        self.signal_number: int | None = None

    def __bool__(self) -> bool:
        return self.signal_number is not None


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Catches the first signal; a second one ends the process as it always would.

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
        for number in _SIGNALS:
            previous[number] = signal.signal(number, catch)
    try:
        yield request
    finally:
        restore()
