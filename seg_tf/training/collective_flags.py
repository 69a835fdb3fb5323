"""What one process wishes and all have to do at the same update.

A signal to stop reaches one process, or each at another update; if one left and the
others went on, they would wait for it in the next sum for ever. So each process adds
its wishes to the sums of every step, and all follow the sum.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf


class Wishes:
    """This process's wishes, and those of all in the last step.

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
        """Says where this process's wishes come from.

        Args:
            stop: whether the run shall end.
            regroup: whether the processes shall be counted anew.
        """
        self._sources = (stop, regroup)
        self.agreed.assign([0.0, 0.0])

    def read(self) -> None:
        """Reads the sources; before every step."""
        wishes = tuple(bool(source()) for source in self._sources)
        if wishes != self._read:
            self._read = wishes
            self.own.assign(np.array(wishes, "float64"))

    def agreed_on(self) -> tuple[bool, bool]:
        """Whether any process wished to stop, and to regroup, in the last step."""
        stop, regroup = self.agreed.numpy() > 0
        return bool(stop), bool(regroup)
