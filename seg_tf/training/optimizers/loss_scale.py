"""Loss scaling, which keeps float16 gradients from vanishing."""

from typing import Any

import keras
from keras import ops

from seg_tf.config import LossScaleConfig, configured_by


class NoLossScale:
    """The scale of precisions that need none."""

    variables: tuple[()] = ()

    @property
    def value(self) -> Any:
        return ops.convert_to_tensor(1.0, "float32")

    def update(self, finite: Any) -> None:
        """Does nothing."""


@configured_by(LossScaleConfig)
class DynamicLossScale:
    """Halves when a gradient overflows, doubles after a run of good steps.

    As in the NVIDIA BERT recipe. Keras's `LossScaleOptimizer` has no floor, keeps a
    counter of steps beside the optimizer's own and would unscale after the
    gradients were checked and clipped; here the training step does these in order.

    Args:
        initial: the first scale.
        growth_interval: good steps in a row after which it doubles.
        floor: it is never halved below this.
    """

    def __init__(self, initial: float, growth_interval: int, floor: float):
        self._growth_interval = growth_interval
        self._floor = floor
        self._value = keras.Variable(
            initial, dtype="float32", trainable=False, name="loss_scale"
        )
        self._good_steps = keras.Variable(
            0, dtype="int64", trainable=False, name="good_steps"
        )

    @property
    def value(self) -> Any:
        """The factor, a float32 scalar."""
        return ops.convert_to_tensor(self._value)

    @property
    def variables(self) -> tuple[Any, ...]:
        """State to save in checkpoints."""
        return (self._value, self._good_steps)

    def update(self, finite: Any) -> None:
        """Adjusts the scale to a step whose gradients were finite, or were not."""
        good_steps = self._good_steps.value + 1
        grows = good_steps >= self._growth_interval
        value = self.value
        # At the largest power of two that float32 holds doubling would overflow.
        doubled = ops.where(ops.isinf(value * 2.0), value, value * 2.0)
        halved = ops.maximum(value / 2.0, self._floor)
        zero = ops.zeros_like(good_steps)
        self._value.assign(ops.where(finite, ops.where(grows, doubled, value), halved))
        self._good_steps.assign(
            ops.where(ops.logical_and(finite, ops.logical_not(grows)), good_steps, zero)
        )
