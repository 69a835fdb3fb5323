"""Calls to buckets that do not give up at the first fault.

What fails for a passing reason (a server's error, a lost connection, a file cut off) is
tried again, each time after a longer pause, and said. A server that has stopped sending
is tried twice.
"""

import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

ATTEMPTS = 6
# Seconds before the second attempt; each later pause is twice as long.
_PAUSE = 0.5
# Without a byte for so long, a server is given up.
STALL_SECONDS = 60.0
# Another attempt would find the same.
_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError)

_T = TypeVar("_T")


class _StalledError(TimeoutError):
    """A server sent nothing for half of `STALL_SECONDS`."""


def insistently(
    url: str, attempt: Callable[[], _T], progress: Callable[[], int] = lambda: 0
) -> _T:
    """Calls until it succeeds, several times at most.

    Each attempt runs in a thread of its own, which is left behind if it stalls: what it
    changes must be its own, and what it found is returned.

    Args:
        url: what the call is about, for messages.
        attempt: the call; every library has errors of its own for a lost connection.
        progress: changes while an attempt that takes long is not stalled.

    Raises:
        Exception: what the last attempt raised, or one that another attempt would meet
            again: there is no such file, or it may not be read.
        TimeoutError: if the server sent nothing for `STALL_SECONDS` in all.
    """
    has_stalled = False
    for number in range(1, ATTEMPTS + 1):
        try:
            return _watched(attempt, progress)
        except _LASTING:
            raise
        except Exception as error:
            if isinstance(error, _StalledError) and has_stalled:
                raise TimeoutError(
                    f"the server sent nothing for {STALL_SECONDS:g} s, given up"
                ) from None
            has_stalled |= isinstance(error, _StalledError)
            if number == ATTEMPTS:
                raise
            pause = _PAUSE * 2 ** (number - 1)
            logging.warning(
                "%s: attempt %d of %d failed (%s: %s); again in %g s",
                *(url, number, ATTEMPTS, type(error).__name__, error, pause),
            )
            time.sleep(pause)
    raise AssertionError("unreachable")


def _watched(attempt: Callable[[], _T], progress: Callable[[], int]) -> _T:
    """Calls; raises _StalledError if it neither returns nor makes progress."""
    outcome: concurrent.futures.Future[_T] = concurrent.futures.Future()

    def run() -> None:
        try:
            outcome.set_result(attempt())
        except BaseException as error:
            outcome.set_exception(error)

    seconds, before = STALL_SECONDS / 2, progress()
    threading.Thread(target=run, daemon=True).start()
    while not concurrent.futures.wait([outcome], seconds).done:
        if (now := progress()) == before:
            raise _StalledError(f"the server sent nothing for {seconds:g} s")
        before = now
    try:
        return outcome.result()
    except FileNotFoundError as error:
        if (fault := _fault_behind(error)) is None:
            raise
        raise OSError(f"{type(fault).__name__}: {fault}") from error


def _fault_behind(error: FileNotFoundError) -> BaseException | None:
    """The fault that a library took for a file that is not there, if it was one.

    fsspec takes whatever goes wrong with an HTTP server, such as a status of 500, for
    a file that is not there.
    """
    cause = error.__cause__
    if isinstance(cause, FileNotFoundError):
        return _fault_behind(cause)
    if type(cause).__module__.partition(".")[0] == "aiohttp":
        return None if getattr(cause, "status", None) in (404, 410) else cause
    return cause if isinstance(cause, OSError) else None
