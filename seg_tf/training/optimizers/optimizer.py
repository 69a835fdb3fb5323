"""The optimizers that a run's config can name."""

import functools
from collections.abc import Callable
from typing import Any

import keras

from seg_tf.config import (
    AdamWConfig,
    CosineAdamWConfig,
    LambConfig,
    MuonConfig,
    StableAdamWConfig,
    configured_by,
)
from seg_tf.config.optimizers import share_of_run
from seg_tf.training.optimizers import schedule
from seg_tf.training.optimizers.adamw import AdamW, Muon
from seg_tf.training.optimizers.lamb import Lamb

# Variables that BERT does not decay: every bias, and scale and offset of every norm.
# Keras searches for it in the name of the TensorFlow variable, which consists of the
# path of layers and a number: "encoder/layer_norm/gamma:0".
NO_WEIGHT_DECAY = r"(^|/)(gamma|beta|scale|\w*bias)(:\d+)?$"


def build_scheduled(
    optimizer_class: type[keras.optimizers.Optimizer],
    make_schedule: Callable[..., schedule.WarmupDecay],
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
    polynomial = functools.partial(schedule.WarmupDecay, power=decay_power)
    return build_scheduled(AdamW, polynomial, name="adamw", **settings)


@configured_by(LambConfig)
def build_lamb(decay_power: float = 1.0, **settings: Any) -> Lamb:
    """LAMB with a polynomial decay, for batches of thousands."""
    polynomial = functools.partial(schedule.WarmupDecay, power=decay_power)
    return build_scheduled(Lamb, polynomial, name="lamb", **settings)


@configured_by(CosineAdamWConfig)
def build_cosine_adamw(**settings: Any) -> AdamW:
    """AdamW with a cosine decay, as Transformer-XL trains."""
    cosine = functools.partial(schedule.WarmupDecay, power=None)
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
    stable = functools.partial(schedule.WarmupDecay, decay_begin=begin)
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
