"""Stop and regroup requests, agreed on by all ranks.

SIGTERM reaches ranks at different steps, or a single one; a rank that left early would
deadlock the next all-reduce. So each step all-reduces two flags, and all ranks act on
the sum.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np


class CollectiveFlags:
    """This process's stop and regroup flags, and their sums of the last step.

    Attributes:
        own: float64 variable `(2,)`, to be summed over the processes in each step.
        agreed: float64 variable `(2,)`, the last of these sums.
    """

    def __init__(self) -> None:
        self.own = _two_flags("own_flags")
        self.agreed = _two_flags("agreed_flags")
        self._sources: tuple[Callable[[], bool], ...] = (bool, bool)  # false
        self._noted: Any = np.zeros(2)
        self._read: tuple[bool, ...] = (False, False)

    def listen(self, stop: Callable[[], bool], regroup: Callable[[], bool]) -> None:
        """Sets the functions that this process's flags are read from.

        Args:
            stop: whether the run shall end.
            regroup: whether the processes shall be counted anew.
        """
        self._sources = (stop, regroup)
        self.agreed.assign(np.zeros(2))
        self._noted = np.zeros(2)

    def read(self) -> None:
        """Reads the sources; before every step."""
        flags = tuple(bool(source()) for source in self._sources)
        if flags != self._read:
            self._read = flags
            self.own.assign(np.array(flags, "float64"))

    def note(self, sums: Any) -> None:
        """Takes the sums of a step, which `agreed_on` reads from now on."""
        self._noted = sums

    def agreed_on(self) -> tuple[bool, bool]:
        """Stop and regroup, each True if any process requested it.

        By the sums noted last, which are those of the same step on every process.
        """
        stop, regroup = np.asarray(self._noted) > 0
        return bool(stop), bool(regroup)


def _two_flags(name: str) -> keras.Variable:
    return keras.Variable(np.zeros(2), dtype="float64", trainable=False, name=name)
