"""Memory of lanes where one process has all of them."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from seg_tf.training.lane_memory import NoMemory


class JaxLaneMemory(NoMemory):
    """The memory of every lane, in variables that a compiled step reads and assigns.

    Args:
        initial: memory of the lanes before any text, by name: tensors
            `(number of lanes, …)`.
    """

    def __init__(self, initial: Mapping[str, Any]):
        self._lanes = {
            name: keras.Variable(value, trainable=False, dtype=value.dtype, name=name)
            for name, value in initial.items()
        }

    @property
    def variables(self) -> tuple[Any, ...]:
        return tuple(self._lanes.values())

    def read(self, features: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: ops.take(variable, features["lane"], axis=0)
            for name, variable in self._lanes.items()
        }

    def write(self, features: Mapping[str, Any], memory: Mapping[str, Any]) -> None:
        before = self.read(features)
        # As in `LaneMemory`: memory that is not finite would never be again.
        is_finite = _all_finite(memory)
        for name, variable in self._lanes.items():
            kept = ops.reshape(is_finite, (-1,) + (1,) * (len(variable.shape) - 1))
            rows = ops.where(kept, memory[name], before[name])
            variable.assign(
                ops.scatter_update(variable, features["lane"][:, None], rows)
            )


def _all_finite(memory: Mapping[str, Any]) -> Any:
    """Mask of the rows that are finite in all tensors: bool (rows,)."""
    masks = [
        ops.all(ops.isfinite(value), axis=tuple(range(1, len(value.shape))))
        for value in memory.values()
    ]
    return ops.all(ops.stack(masks), axis=0)
