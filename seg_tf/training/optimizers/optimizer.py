"""The optimizers that a run's config can name, and their schedules."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from seg_tf.config import (
    AdamWConfig,
    CosineAdamWConfig,
    LambConfig,
    MuonConfig,
    StableAdamWConfig,
    configured_by,
)
from seg_tf.config.optimizers import share_of_run
from seg_tf.layers.common import with_arguments
from seg_tf.training.optimizers.adamw import AdamW, Lamb, Muon

# Variables that BERT does not decay: every bias, and scale and offset of every norm.
# Keras searches for it in the name of the TensorFlow variable, which consists of the
# path of layers and a number: "encoder/layer_norm/gamma:0".
NO_WEIGHT_DECAY = r"(^|/)(gamma|beta|scale|\w*bias)(:\d+)?$"


def build_scheduled(
    optimizer_class: type[keras.optimizers.Optimizer],
    make_schedule: Callable[..., WarmupDecay],
    *,
    num_updates: int,
    learning_rate: float,
    warmup_updates: int | None = None,
    warmup_share: float = 0.01,
    decay_updates: int | None = None,
    decay_from_start: bool = False,
    end_learning_rate: float = 0.0,
    **arguments: Any,
) -> keras.optimizers.Optimizer:
    """An optimizer with two moments on a warm-up and decay schedule.

    Its `iterations` is the only counter of updates. It does not clip: the training step
    does. `seg_tf.config.optimizers` documents the arguments.
    """
    if warmup_updates is None:
        warmup_updates = share_of_run(num_updates, warmup_share)
    optimizer = optimizer_class(
        learning_rate=make_schedule(
            peak_learning_rate=learning_rate,
            decay_updates=num_updates if decay_updates is None else decay_updates,
            warmup_updates=warmup_updates,
            end_learning_rate=end_learning_rate,
            decay_from_start=decay_from_start,
        ),
        **arguments,
    )
    optimizer.exclude_from_weight_decay(var_names=[NO_WEIGHT_DECAY])
    return optimizer


@configured_by(AdamWConfig)
def build_adamw(decay_power: float = 1.0, **settings: Any) -> AdamW:
    """AdamW with a polynomial decay, as BERT trains."""
    polynomial = functools.partial(WarmupDecay, power=decay_power)
    return build_scheduled(AdamW, polynomial, name="adamw", **settings)


@configured_by(LambConfig)
def build_lamb(decay_power: float = 1.0, **settings: Any) -> Lamb:
    """LAMB with a polynomial decay, for batches of thousands."""
    polynomial = functools.partial(WarmupDecay, power=decay_power)
    return build_scheduled(Lamb, polynomial, name="lamb", **settings)


@configured_by(CosineAdamWConfig)
def build_cosine_adamw(**settings: Any) -> AdamW:
    """AdamW with a cosine decay, as Transformer-XL trains."""
    cosine = functools.partial(WarmupDecay, power=None)
    return build_scheduled(AdamW, cosine, name="cosine_adamw", **settings)


@configured_by(StableAdamWConfig)
def build_stable_adamw(
    optimizer_class: type[AdamW] = AdamW,
    *,
    num_updates: int,
    decay_share: float,
    **settings: Any,
) -> AdamW:
    """AdamW, or Muon, on a warm-up–stable–decay schedule.

    The rate falls over the last `decay_share` of the run.
    """
    begin = num_updates - share_of_run(num_updates, decay_share)
    stable = functools.partial(WarmupDecay, decay_begin=begin)
    settings = {"name": "stable_adamw", "num_updates": num_updates, **settings}
    return build_scheduled(optimizer_class, stable, **settings)


@configured_by(MuonConfig)
def build_muon(
    *, learning_rate: float, matrix_learning_rate: float, **settings: Any
) -> AdamW:
    """Muon on a warm-up–stable–decay schedule, with a rate for matrices."""
    ratio = matrix_learning_rate / learning_rate
    settings |= {"learning_rate": learning_rate, "matrix_rate_ratio": ratio}
    return build_stable_adamw(Muon, name="muon", **settings)


@keras.saving.register_keras_serializable(package="seg_tf")
class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly to the peak, then falls to the end rate.

    After `u` updates, with W = `warmup_updates` and N = `decay_updates`, the next
    update has the rate

        peak * (u + 1) / W                              while u < W
        end + (peak - end) * f((N - u) / (N - W))       while W <= u < N
        end                                             from u = N on

    so that no update of a run has rate 0; f(x) = x ** power, or without a power
    (1 - cos(pi x)) / 2. With `decay_from_start` the second line divides by N, not by
    N - W: the rate drops at the end of the warm-up, as in BERT's, NVIDIA's and
    Transformer-XL's code.

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
        power: float. 1 decays linearly; None is a cosine.
    """

    def __init__(
        self,
        peak_learning_rate: float,
        decay_updates: int,
        warmup_updates: int = 0,
        end_learning_rate: float = 0.0,
        decay_from_start: bool = False,
        decay_begin: int | None = None,
        power: float | None = 1.0,
    ):
        super().__init__()
        self.peak_learning_rate = peak_learning_rate
        self.decay_updates = decay_updates
        self.warmup_updates = warmup_updates
        self.end_learning_rate = end_learning_rate
        self.decay_from_start = decay_from_start
        self.decay_begin = decay_begin
        self.power = power

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
        if self.power is None:
            # The same as the cosine, without the difference of two numbers close to 1.
            share = ops.square(ops.sin(math.pi / 2 * share))
        else:
            share = ops.power(share, self.power)
        falling = end + (peak - end) * share
        return ops.where(updates < self.warmup_updates, rising, falling)

    def get_config(self) -> dict[str, Any]:
        return with_arguments({}, self, WarmupDecay)
