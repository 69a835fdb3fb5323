"""A table of positions that starts with sinusoids."""

import math
from typing import Any

import keras
from keras import ops

from seg_tf.ops import sinusoids


@keras.saving.register_keras_serializable(package="seg_tf")
class SinusoidalTable(keras.initializers.Initializer):
    """Row k starts as the sinusoids of position k (Transformer, section 3.5).

    From the first update on, rows of neighbouring positions are alike and those of
    distant ones are not, which rows that are drawn have to learn.

    Args:
        stddev: float. Root mean square of the entries.
    """

    def __init__(self, stddev: float):
        self.stddev = stddev

    def __call__(self, shape: tuple[int, int], dtype: Any = None) -> Any:
        rows, width = shape
        # An odd width ends with half a wave.
        vectors = sinusoids.position_vectors(ops.arange(rows), width + width % 2)
        # The mean square of a sine is a half.
        return ops.cast(math.sqrt(2) * self.stddev * vectors[:, :width], dtype)

    def get_config(self) -> dict[str, Any]:
        return {"stddev": self.stddev}
