"""Stop and regroup requests, agreed on by all ranks.

SIGTERM reaches ranks at different steps, or a single one; a rank that left early would
deadlock the next all-reduce. So each step all-reduces two flags, and all ranks act on
the sum.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from seg_tf.training.step import Features

_FEATURE = "collective_flags"


class CollectiveFlags:
    """This process's stop and regroup flags, and their sums of the last step.

    They go into a step as rows of its batch: what is the same on all processes, as
    variables are where several processes compute one step, cannot hold them.

    Attributes:
        agreed: float64 variable `(2,)`, the last of these sums.
    """

    def __init__(self) -> None:
        self._own = np.zeros(2)
        self.agreed = _two_flags("agreed_flags")
        self._sources: tuple[Callable[[], bool], ...] = (bool, bool)  # false
        self._noted: Any = np.zeros(2)

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
        self._own = np.array([bool(source()) for source in self._sources], "float64")

    def added_to(self, features: Features, rows: int) -> dict[str, Any]:
        """A batch with this process's flags in it, in as many rows as asked for."""
        return {**features, _FEATURE: np.tile(self._own, (rows, 1))}

    @staticmethod
    def taken_from(features: Features) -> tuple[dict[str, Any], Any]:
        """The batch without its flags, and their sum; 0 where it has none."""
        others = dict(features)
        flags = others.pop(_FEATURE, np.zeros([1, 2]))
        return others, ops.sum(ops.convert_to_tensor(flags), axis=0)

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
