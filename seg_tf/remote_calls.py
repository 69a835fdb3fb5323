"""Calls to buckets that do not give up at the first fault.

What fails for a passing reason (a server's error, a lost connection, a file cut off) is
tried again, each time after a longer pause, and said.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

ATTEMPTS = 6
# Seconds before the second attempt; each later pause is twice as long.
_PAUSE = 0.5
# Another attempt would find the same.
_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError)

_T = TypeVar("_T")


def insistently(url: str, attempt: Callable[[], _T]) -> _T:
    """Calls until it succeeds, several times at most.

    Args:
        url: what the call is about, for messages.
        attempt: the call; every library has errors of its own for a lost connection.

    Raises:
        Exception: what the last attempt raised, or one that another attempt would meet
            again: there is no such file, or it may not be read.
    """
    for number in range(1, ATTEMPTS):
        try:
            return attempt()
        except _LASTING:
            raise
        except Exception as error:
            pause = _PAUSE * 2 ** (number - 1)
            logging.warning(
                "%s: attempt %d of %d failed (%s: %s); again in %g s",
                *(url, number, ATTEMPTS, type(error).__name__, error, pause),
            )
            time.sleep(pause)
    return attempt()
