"""Configs of optimizers and their learning rate schedules."""

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
    """Returns the number of updates in the fraction `share` of a run, at least 1."""
    return max(1, round(num_updates * share))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _AdamFamilyConfig(Ranged):
    """Settings shared by Adam-like optimizers with a warmup.

    Attributes:
        learning_rate: peak learning rate for the global batch.
        warmup_updates: number of updates of linear warmup.
        end_learning_rate: learning rate at the end of the decay.
        weight_decay: weight decay rate. LayerNorm and bias weights are never decayed.
    """

    learning_rate: NonNegative = 1e-4
    warmup_updates: int | None = None
    end_learning_rate: NonNegative = 0.0
    weight_decay: NonNegative = 0.01
    beta_1: Dropout = 0.9
    beta_2: Dropout = 0.999
    epsilon: Positive = 1e-6

    def decay_begin(self, num_updates: int) -> int | None:
        """Returns the last update unaffected by the run's length, if any, else None."""
        return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _DecayingConfig(_AdamFamilyConfig):
    """Settings of optimizers whose learning rate decays after the warmup.

    Attributes:
        warmup_updates: number of linear warmup updates. If None, uses `warmup_share`.
        warmup_share: warmup as a fraction of the run. Used if `warmup_updates` is None.
        decay_updates: update number at which the rate reaches `end_learning_rate`.
            Defaults to the length of the run, which it may exceed.
        decay_from_start: whether the decay is computed from the first update instead of
            the end of the warmup. If so, the rate drops when the warmup ends.
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
                f"{self.warmup_updates}, --config.{flag}={length}. Lower the first "
                f"(to {length // 10}, for example) or raise the second, or set "
                "--config.optimizer.warmup_share"
            )


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamWConfig(_DecayingConfig):
    """AdamW with linear warmup and polynomial decay. Defaults to BERT's settings.

    Attributes:
        decay_power: exponent of the decay. 1 is linear.
    """

    decay_power: Positive = 1.0


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class CosineAdamWConfig(_DecayingConfig):
    """AdamW with cosine decay. Defaults to Transformer-XL's settings (Adam)."""

    learning_rate: NonNegative = 2.5e-4
    warmup_updates: int | None = 0
    decay_from_start: bool = True
    weight_decay: NonNegative = 0.0
    epsilon: Positive = 1e-8


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class LambConfig(_DecayingConfig):
    """LAMB (You et al., 2019) with polynomial decay, by default as in NVIDIA's phase 1.

    Attributes:
        decay_power: exponent of the decay. 1 is linear.
        adapt_excluded: whether the trust ratio also applies to LayerNorm and bias
            weights, which are never decayed.
    """

    learning_rate: NonNegative = 6e-3
    decay_power: Positive = 0.5
    decay_from_start: bool = True
    adapt_excluded: bool = True


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class StableAdamWConfig(_AdamFamilyConfig):
    """AdamW with a warmup–stable–decay schedule (Hu et al., 2024, section 4).

    The rate rises linearly, stays at its peak and falls linearly over the last
    `decay_share` of the run. Updates before the decay do not depend on the length of
    the run, so a run can be extended.
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
                f"{begin}. Lower the first (to {begin // 10}, for example) or raise "
                "the second"
            )


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class MuonConfig(StableAdamWConfig):
    """Muon (Jordan et al., 2024) for hidden matrices, AdamW for all other weights.

    Both follow the schedule of `StableAdamWConfig`, each with its own peak rate.

    Attributes:
        learning_rate: peak rate of AdamW. The logged rate is AdamW's.
        matrix_learning_rate: peak rate of Muon, which decays in proportion to AdamW's.
        momentum: decay rate of Muon's momentum.
    """

    learning_rate: Positive = 2e-3
    matrix_learning_rate: NonNegative = 0.02
    momentum: Dropout = 0.95
