"""Learning rate over a run: linear warm-up, then a decay."""

import math
from typing import Any

import keras
from keras import ops

from seg_tf.layers.common import with_arguments


class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly to the peak, then falls to the end rate.

    After `u` updates, with W = `warmup_updates` and N = `decay_updates`, the next
    update has the rate

        peak * (u + 1) / W                              while u < W
        end + (peak - end) * f((N - u) / (N - W))       while W <= u < N
        end                                             from u = N on

    so that no update of a run has rate 0. A subclass defines f. With
    `decay_from_start` the second line divides by N, not by N - W: the decay counts from
    the first update, and the rate drops at the end of the warm-up, as in BERT's,
    NVIDIA's and Transformer-XL's code.

    With `decay_begin` the rate stays at the peak for that number of updates, and the
    second line divides by N - decay_begin: warm-up–stable–decay (Hu et al., 2024,
    section 4). Until then it is the same, bit for bit, for any later decay.

    Args:
        peak_learning_rate: float. The rate at the end of the warm-up.
        decay_updates: int. Updates after which the end rate is reached, maybe more
            than those of the run.
        warmup_updates: int. Updates of warm-up; 0 starts at the peak.
        end_learning_rate: float. The rate after the decay.
        decay_from_start: bool. Whether the decay counts from the first update.
        decay_begin: int. Updates after which the rate begins to fall, if given.

    Raises:
        ValueError: if the warm-up is longer than the decay, `decay_begin` is not
            between the two, or a rate is negative.
    """

    def __init__(
        self,
        peak_learning_rate: float,
        decay_updates: int,
        warmup_updates: int = 0,
        end_learning_rate: float = 0.0,
        decay_from_start: bool = False,
        decay_begin: int | None = None,
    ):
        super().__init__()
        if not 0 <= warmup_updates <= decay_updates:
            raise ValueError(
                "`warmup_updates` must be at least 0 and at most the updates of the "
                f"decay. Received: warmup_updates={warmup_updates}, "
                f"decay_updates={decay_updates}"
            )
        if not 0 <= end_learning_rate <= peak_learning_rate:
            raise ValueError(
                "`end_learning_rate` must be at least 0 and at most the peak rate. "
                f"Received: end_learning_rate={end_learning_rate}, "
                f"peak_learning_rate={peak_learning_rate}"
            )
        if decay_begin is not None and not (
            warmup_updates <= decay_begin < decay_updates and not decay_from_start
        ):
            raise ValueError(
                "`decay_begin` must be at least `warmup_updates`, below "
                "`decay_updates` and not with `decay_from_start`. Received: "
                f"decay_begin={decay_begin}, warmup_updates={warmup_updates}, "
                f"decay_updates={decay_updates}, decay_from_start={decay_from_start}"
            )
        self.peak_learning_rate = peak_learning_rate
        self.decay_updates = decay_updates
        self.warmup_updates = warmup_updates
        self.end_learning_rate = end_learning_rate
        self.decay_from_start = decay_from_start
        self.decay_begin = decay_begin

    def fall(self, remaining: Any) -> Any:
        """f: from 1, where all of the decay remains, to 0, where none does."""
        raise NotImplementedError

    def __call__(self, step: Any) -> Any:
        """Rate of the update after `step` updates, a float32 scalar."""
        updates = ops.cast(step, "int64")
        peak, end = self.peak_learning_rate, self.end_learning_rate
        # Integers as long as possible: float32 skips some from 2**24 on.
        done = ops.cast(updates + 1, "float32")
        rising = peak * done / max(1, self.warmup_updates)
        decay_begin = self.decay_begin
        if decay_begin is None:
            decay_begin = 0 if self.decay_from_start else self.warmup_updates
        span = self.decay_updates - decay_begin
        remaining = ops.cast(ops.clip(self.decay_updates - updates, 0, span), "float32")
        share = remaining / max(1, span)
        falling = end + (peak - end) * self.fall(share)
        return ops.where(updates < self.warmup_updates, rising, falling)

    def get_config(self) -> dict[str, Any]:
        return with_arguments({}, self, WarmupDecay)


@keras.saving.register_keras_serializable(package="seg_tf")
class WarmupPolynomialDecay(WarmupDecay):
    """`WarmupDecay` with f(x) = x ** power.

    Args:
        *args: arguments of `WarmupDecay`.
        power: float. 1 decays linearly.
        **kwargs: arguments of `WarmupDecay`.

    Raises:
        ValueError: if `power` is not positive, or as for `WarmupDecay`.
    """

    def __init__(self, *args: Any, power: float = 1.0, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if power <= 0:
            raise ValueError(f"`power` must be positive. Received: power={power}")
        self.power = power

    def fall(self, remaining: Any) -> Any:
        return ops.power(remaining, self.power)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "power": self.power}


@keras.saving.register_keras_serializable(package="seg_tf")
class WarmupCosineDecay(WarmupDecay):
    """`WarmupDecay` with f(x) = (1 - cos(pi x)) / 2, as Transformer-XL trains."""

    def fall(self, remaining: Any) -> Any:
        # The same, without the difference of two numbers close to 1.
        return ops.square(ops.sin(math.pi / 2 * remaining))
