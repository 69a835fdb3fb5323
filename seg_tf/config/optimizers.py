"""Configs of optimizers and their schedules."""

import dataclasses

from seg_tf.config.base import (
    Count,
    Dropout,
    NonNegative,
    Positive,
    Ranged,
    Share,
    register_config,
)


def share_of_run(num_updates: int, share: float) -> int:
    """Updates of a share of a run; at least one."""
    return max(1, round(num_updates * share))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _AdamFamilyConfig(Ranged):
    """Settings of every optimizer with two moments and a warm-up.

    Attributes:
        learning_rate: the effective, global peak rate.
        warmup_updates: updates of linear warm-up.
        end_learning_rate: the rate at the end of the decay.
        weight_decay: LayerNorm and biases are never decayed.
    """

    learning_rate: NonNegative = 1e-4
    warmup_updates: int | None = None
    end_learning_rate: NonNegative = 0.0
    weight_decay: NonNegative = 0.01
    beta_1: Dropout = 0.9
    beta_2: Dropout = 0.999
    epsilon: Positive = 1e-6

    def decay_begin(self, num_updates: int) -> int | None:
        """Updates that a run of this length shares with all longer ones, if any."""
        return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _DecayingConfig(_AdamFamilyConfig):
    """Settings of optimizers whose rate falls after the warm-up.

    Attributes:
        warmup_updates: updates of linear warm-up; None uses `warmup_share`.
        warmup_share: share of the run for the warm-up if `warmup_updates` is None.
        decay_updates: updates until the end rate is reached, possibly more than those
            of the run; None uses the whole run.
        decay_from_start: whether the decay is counted from the first update, not
            from the end of the warm-up, where the rate then drops.
    """

    warmup_share: Share = 0.01
    decay_updates: Count | None = None
    decay_from_start: bool = False

    def warmup(self, num_updates: int) -> int:
        if self.warmup_updates is None:
            return share_of_run(num_updates, self.warmup_share)
        return self.warmup_updates

    def check_length(self, num_updates: int) -> None:
        length, flag = num_updates, "training.num_updates"
        if self.decay_updates is not None:
            length, flag = self.decay_updates, "optimizer.decay_updates"
        if not 0 <= self.warmup(num_updates) <= length:
            raise ValueError(
                "`warmup_updates` must be at least 0 and at most the updates of the "
                "decay. Received: --config.optimizer.warmup_updates="
                f"{self.warmup_updates}, --config.{flag}={length}. Lower the first or "
                "raise the second, or set --config.optimizer.warmup_share"
            )


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamWConfig(_DecayingConfig):
    """AdamW with linear warm-up and polynomial decay; defaults are BERT's.

    Attributes:
        decay_power: 1 is linear decay.
    """

    decay_power: Positive = 1.0


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class CosineAdamWConfig(_DecayingConfig):
    """Adam with cosine decay; defaults are Transformer-XL's."""

    learning_rate: NonNegative = 2.5e-4
    warmup_updates: int | None = 0
    decay_from_start: bool = True
    weight_decay: NonNegative = 0.0
    epsilon: Positive = 1e-8


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class LambConfig(_DecayingConfig):
    """LAMB (You et al., 2019), the same schedule; defaults are NVIDIA's, phase 1.

    Attributes:
        decay_power: 1 is linear decay.
        adapt_excluded: whether LayerNorm and biases, which are not decayed, have a
            trust ratio too.
    """

    learning_rate: NonNegative = 6e-3
    decay_power: Positive = 0.5
    decay_from_start: bool = True
    adapt_excluded: bool = True


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class StableAdamWConfig(_AdamFamilyConfig):
    """AdamW with a warm-up–stable–decay schedule (Hu et al., 2024, section 4).

    The rate rises linearly, stays at its peak and falls linearly over the last share of
    the run. Before the decay nothing depends on the length, so a run can be lengthened.
    """

    warmup_updates: int = 1_000
    decay_share: Share = 0.1

    def warmup(self, num_updates: int) -> int:
        return self.warmup_updates

    def decay_begin(self, num_updates: int) -> int:
        return num_updates - share_of_run(num_updates, self.decay_share)

    def check_length(self, num_updates: int) -> None:
        begin = self.decay_begin(num_updates)
        if not 0 <= self.warmup_updates <= begin:
            raise ValueError(
                "`warmup_updates` must be at least 0 and at most the updates before "
                "the decay. Received: --config.optimizer.warmup_updates="
                f"{self.warmup_updates}, --config.training.num_updates={num_updates} "
                f"of which --config.optimizer.decay_share={self.decay_share} leaves "
                f"{begin}. Lower the first or raise the second"
            )


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class MuonConfig(StableAdamWConfig):
    """Muon (Jordan et al., 2024) for hidden matrices, AdamW for everything else.

    Both follow the schedule of `StableAdamWConfig`, each with a separate peak. On a CPU
    Muon is not worth its cost.

    Attributes:
        learning_rate: peak rate of AdamW, which logs report.
        matrix_learning_rate: peak rate of the hidden matrices, which falls to the same
            share of its peak as AdamW's.
        momentum: decay of the matrices' momentum.
    """

    learning_rate: Positive = 2e-3
    matrix_learning_rate: NonNegative = 0.02
    momentum: Dropout = 0.95
