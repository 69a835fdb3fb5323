"""Stop requests, agreed on by all ranks.

SIGTERM reaches ranks at different steps, or a single one; a rank that left early would
deadlock the next all-reduce. So each step all-reduces a flag, and all ranks act on the
sum.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from seg_tf.training.step import Features

_FEATURE = "collective_flags"


class CollectiveFlags:
    """This process's stop flag, and the flag's sum in the last step.

    The flag enters a step as rows of its batch. Variables cannot hold it: where several
    processes compute one step, variables are the same on all of them.

    Attributes:
        agreed: float64 variable `(1,)`, the last of these sums.
    """

    def __init__(self) -> None:
        self._own = np.zeros(1)
        self.agreed = keras.Variable(
            np.zeros(1), dtype="float64", trainable=False, name="agreed_flags"
        )
        self._source: Callable[[], bool] = bool  # False
        self._noted: Any = np.zeros(1)

    def listen(self, stop: Callable[[], bool]) -> None:
        """Sets the function that says whether this process asks the run to end."""
        self._source = stop
        self.agreed.assign(np.zeros(1))
        self._noted = np.zeros(1)

    def read(self) -> None:
        """Reads this process's flag; before every step."""
        self._own = np.array([bool(self._source())], "float64")

    def added_to(self, features: Features, rows: int) -> dict[str, Any]:
        """The batch with this process's flag added, repeated over `rows` rows."""
        return {**features, _FEATURE: np.tile(self._own, (rows, 1))}

    @staticmethod
    def taken_from(features: Features) -> tuple[dict[str, Any], Any]:
        """The batch without its flags, and their sum; 0 where it has none."""
        others = dict(features)
        flags = others.pop(_FEATURE, np.zeros([1, 1]))
        return others, ops.sum(ops.convert_to_tensor(flags), axis=0)

    def note(self, sums: Any) -> None:
        """Takes the sums of a step, which `stop_agreed` reads from now on."""
        self._noted = sums

    def stop_agreed(self) -> bool:
        """True if any process asked the run to end.

        Based on the sums noted last, which belong to the same step on every process.
        """
        return bool(np.asarray(self._noted)[0] > 0)
