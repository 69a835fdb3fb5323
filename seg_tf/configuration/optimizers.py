"""Optimizers and their schedules."""

import dataclasses
from typing import ClassVar

from seg_tf.configuration.registry import register


@dataclasses.dataclass(frozen=True, kw_only=True)
class _AdamFamilyConfig:
    """What optimizers with two moments share: their schedule and their moments.

    Attributes:
        learning_rate: the effective, global peak rate.
        warmup_updates: updates of linear warm-up; None takes 1 % of the run.
        decay_updates: updates after which the end rate is reached, which may be more
            than those of the run; None takes the whole run.
        decay_from_start: whether the decay is counted from the first update, not
            from the end of the warm-up, where the rate then drops.
        weight_decay: none on LayerNorm and bias.
    """

    learning_rate: float = 1e-4
    warmup_updates: int | None = None
    decay_updates: int | None = None
    decay_from_start: bool = False
    end_learning_rate: float = 0.0
    weight_decay: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamWConfig(_AdamFamilyConfig):
    """AdamW with linear warm-up and polynomial decay; defaults are BERT's.

    Attributes:
        decay_power: 1 is linear decay.
    """

    implementation: ClassVar[str] = "seg_tf.training.optimizer:build_adamw"

    decay_power: float = 1.0


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class CosineAdamWConfig(_AdamFamilyConfig):
    """Adam whose rate falls by a cosine; defaults are Transformer-XL's."""

    implementation: ClassVar[str] = "seg_tf.training.optimizer:build_cosine_adamw"

    learning_rate: float = 2.5e-4
    warmup_updates: int | None = 0
    decay_from_start: bool = True
    weight_decay: float = 0.0
    epsilon: float = 1e-8


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class LambConfig(_AdamFamilyConfig):
    """LAMB (You et al., 2019), the same schedule; defaults are NVIDIA's, phase 1.

    Attributes:
        decay_power: 1 is linear decay.
        adapt_excluded: whether LayerNorm and bias, which are not decayed, have a
            trust ratio too.
    """

    implementation: ClassVar[str] = "seg_tf.training.optimizer:build_lamb"

    learning_rate: float = 6e-3
    decay_power: float = 0.5
    decay_from_start: bool = True
    adapt_excluded: bool = True
