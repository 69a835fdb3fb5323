"""One setting of a paper, and values that depend on the run."""

import dataclasses
import math
from typing import Any

from seg_tf import configuration

# What the columns of several papers cite.
BERT = "BERT (arXiv:1810.04805)"
BERT_CODE = "BERT's published code"
BERT_CONFIG = "BERT's published configs"
UNSAID = object()


@dataclasses.dataclass(frozen=True)
class PaperValue:
    """One setting of a paper.

    Attributes:
        setting: its path in a `RunConfig`.
        value: what the paper has; a function gives it for a config.
        source: where it is said.
        released: what the authors' code has, where that differs.
    """

    setting: str
    value: Any
    source: str
    released: Any = UNSAID


def one_percent(config: configuration.RunConfig) -> int:
    """1 % of the run's updates."""
    return max(1, round(config.training.num_updates / 100))


def whole_run(config: configuration.RunConfig) -> int:
    """All of the run's updates."""
    return config.training.num_updates


def attention_dropout(config: configuration.RunConfig) -> Any:
    """0.1, or None where the run has one rate of dropout as well."""
    rate = getattr(config.model, "attention_dropout", 0.1)
    return None if rate is None else 0.1


def mixed_precision(config: configuration.RunConfig) -> str:
    """The run's policy if it is mixed, whatever its half precision; or one that is."""
    policy = config.training.dtype_policy
    return policy if policy.startswith("mixed_") else "mixed_float16"


def predictions(config: configuration.RunConfig) -> int:
    """80 for 512 positions, and in proportion (BERT has 20 for 128)."""
    return math.ceil(getattr(config.inputs, "window_length", 512) * 80 / 512)
