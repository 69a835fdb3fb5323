"""Stop and regroup requests, agreed on by all ranks.

SIGTERM reaches ranks at different steps, or a single one; a rank that left early would
deadlock the next all-reduce. So each step all-reduces two flags, and all ranks act on
the sum.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf


class CollectiveFlags:
    """This process's stop and regroup flags, and their sums of the last step.

    Attributes:
        own: float64 variable `(2,)`, to be summed over the processes in each step.
        agreed: float64 variable `(2,)`, the last of these sums.
    """

    def __init__(self) -> None:
        self.own = tf.Variable([0.0, 0.0], dtype=tf.float64, trainable=False)
        self.agreed = tf.Variable([0.0, 0.0], dtype=tf.float64, trainable=False)
        self._sources: tuple[Callable[[], bool], ...] = (bool, bool)  # false
        self._read: tuple[bool, ...] = (False, False)

    def listen(self, stop: Callable[[], bool], regroup: Callable[[], bool]) -> None:
        """Sets the functions that this process's flags are read from.

        Args:
            stop: whether the run shall end.
            regroup: whether the processes shall be counted anew.
        """
        self._sources = (stop, regroup)
        self.agreed.assign([0.0, 0.0])

    def read(self) -> None:
        """Reads the sources; before every step."""
        flags = tuple(bool(source()) for source in self._sources)
        if flags != self._read:
            self._read = flags
            self.own.assign(np.array(flags, "float64"))

    def agreed_on(self) -> tuple[bool, bool]:
        """Stop and regroup, each True if any process requested it in the last step."""
        stop, regroup = self.agreed.numpy() > 0
        return bool(stop), bool(regroup)
