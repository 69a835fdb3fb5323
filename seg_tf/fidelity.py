"""What the papers train with, as data, and where a run departs from it.

A column holds the settings of one of the compared models. The recipe `paper` is
what the paper says and, where it is silent, what BERT does, whose settings it
takes over. The recipe `released` is what its authors' code does where that
differs; a run that follows it deviates from the paper, and is told so.

The columns "…_nvidia_phase1" and "…_nvidia_phase2" have the model and the objective of
the large column, and window, batch and optimizer of NVIDIA's two-phase recipe for BERT
large, which trains next sentence prediction as well.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from seg_tf import configuration

_SEGABERT = "SegaBERT (arXiv:2004.14996), section 2"
_BERT = "BERT (arXiv:1810.04805), appendix A.2"
_BERT_CODE = "BERT's published code"
_BERT_CONFIG = "BERT's published configs"
_NVIDIA = "NVIDIA's BERT for TensorFlow 2, LAMB recipe"
_UNSAID = object()


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
    released: Any = _UNSAID


@dataclasses.dataclass(frozen=True)
class Deviation:
    """One setting in which a run departs from its paper.

    Attributes:
        setting: its path in the run's config.
        paper: the paper's value.
        run: the run's.
        source: where the paper's value is said.
        released: whether the run has what the authors' code has.
    """

    setting: str
    paper: Any
    run: Any
    source: str
    released: bool

    def __str__(self) -> str:
        note = " (as the authors' code)" if self.released else ""
        return (
            f"{self.setting}: {_text(self.run)}{note}; paper {_text(self.paper)} "
            f"[{self.source}]"
        )


def _one_percent(config: configuration.RunConfig) -> int:
    return max(1, round(config.training.num_updates / 100))


def _whole_run(config: configuration.RunConfig) -> int:
    return config.training.num_updates


def _predictions(config: configuration.RunConfig) -> int:
    """80 for 512 positions, and in proportion (BERT has 20 for 128)."""
    return math.ceil(getattr(config.inputs, "window_length", 512) * 80 / 512)


_SHARED = (
    PaperValue("model.dropout", 0.1, _BERT),
    PaperValue("model.layer_norm_epsilon", 1e-12, _BERT_CODE, released=1e-5),
    PaperValue("model.initializer_range", 0.02, _BERT_CONFIG),
    PaperValue("model.num_token_types", 0, f"{_SEGABERT}, input sum", released=2),
    PaperValue("inputs.window_length", 512, f"{_SEGABERT}, input representation"),
    PaperValue("inputs.max_windows_per_row", 1, f"{_SEGABERT}, input representation"),
    PaperValue("inputs.masking.mask_rate", 0.15, "BERT, section 3.1"),
    PaperValue("inputs.masking.max_predictions", _predictions, _BERT_CODE),
    PaperValue("inputs.masking.mask_token_rate", 0.8, "BERT, section 3.1"),
    PaperValue("inputs.masking.random_token_rate", 0.1, "BERT, section 3.1"),
    PaperValue("objectives", ("masked_lm",), f"{_SEGABERT}, training objective"),
    PaperValue("objectives.masked_lm.loss_weight", 1.0, _SEGABERT),
    PaperValue("optimizer", "AdamWConfig", f"{_SEGABERT}: Adam; {_BERT}: with decay"),
    PaperValue("optimizer.learning_rate", 1e-4, f"{_SEGABERT}, training setup"),
    PaperValue("optimizer.beta_1", 0.9, f"{_SEGABERT}, training setup"),
    PaperValue("optimizer.beta_2", 0.999, f"{_SEGABERT}, training setup"),
    PaperValue("optimizer.epsilon", 1e-6, _BERT_CODE),
    PaperValue("optimizer.weight_decay", 0.01, _BERT),
    PaperValue("training.clip_norm", 1.0, _BERT_CODE),
    PaperValue("optimizer.warmup_updates", _one_percent, f"{_SEGABERT}: 1 % of steps"),
    PaperValue("optimizer.decay_power", 1.0, f"{_SEGABERT}: linear decay"),
    PaperValue("optimizer.end_learning_rate", 0.0, _BERT_CODE, released=2e-6),
    PaperValue("optimizer.decay_updates", _whole_run, _BERT_CODE, released=900_000),
    PaperValue("training.batch_size", 256, _BERT),
)

_SIZES = {
    "base": (
        PaperValue("model.num_layers", 12, _SEGABERT),
        PaperValue("model.hidden_size", 768, _SEGABERT),
        PaperValue("model.num_heads", 12, _SEGABERT),
        PaperValue("model.intermediate_size", 3072, _BERT),
        PaperValue("training.num_updates", 500_000, f"{_SEGABERT}, training setup"),
    ),
    "large": (
        PaperValue("model.num_layers", 24, _SEGABERT),
        PaperValue("model.hidden_size", 1024, _SEGABERT),
        # The paper prints 24, which does not divide the width.
        PaperValue("model.num_heads", 16, "config published by SegaBERT's authors"),
        PaperValue("model.intermediate_size", 4096, _BERT),
        PaperValue("training.num_updates", 1_000_000, f"{_SEGABERT}, training setup"),
    ),
}

_POSITION = {"position_index": 512}
_SEGMENTS = {"paragraph_index": 50, "sentence_index": 100}

_TABLES = {
    "segabert": PaperValue(
        "model.index_tables",
        _SEGMENTS | {"token_index": 256},
        f"{_SEGABERT}, training setup",
        released=_SEGMENTS | {"token_index": 512},
    ),
    "bert": PaperValue("model.index_tables", _POSITION, "SegaBERT, section 3.3: BERT"),
    "bert_ps": PaperValue(
        "model.index_tables",
        _POSITION | _SEGMENTS,
        "SegaBERT, section 3.3: BERT with P.S.",
    ),
}

_NVIDIA_SHARED = {
    "optimizer": "LambConfig",
    "optimizer.decay_power": 0.5,
    "optimizer.decay_from_start": True,
    "optimizer.adapt_excluded": True,
    "optimizer.end_learning_rate": 0.0,
    "optimizer.decay_updates": _whole_run,
}
_NVIDIA_PHASES = {
    "phase1": {
        "inputs.window_length": 128,
        "inputs.masking.max_predictions": 20,
        "optimizer.learning_rate": 6e-3,
        "optimizer.warmup_updates": 2_000,
        "training.batch_size": 65_536,
        "training.num_updates": 7_038,
    },
    "phase2": {
        "inputs.window_length": 512,
        "inputs.masking.max_predictions": 80,
        "optimizer.learning_rate": 4e-3,
        "optimizer.warmup_updates": 200,
        "training.batch_size": 32_768,
        "training.num_updates": 1_564,
    },
}


def _nvidia_column(model: str, phase: str) -> tuple[PaperValue, ...]:
    """The large column of `model`, but for what the recipe of `phase` says."""
    recipe = {
        setting: PaperValue(setting, value, f"{_NVIDIA}, {phase}")
        for setting, value in {**_NVIDIA_SHARED, **_NVIDIA_PHASES[phase]}.items()
    }
    large = (_TABLES[model], *_SIZES["large"], *_SHARED)
    return tuple({**{value.setting: value for value in large}, **recipe}.values())


# What `RunConfig.paper` may name: "segabert_base", "bert_large_nvidia_phase1", …
COLUMNS: Mapping[str, tuple[PaperValue, ...]] = {
    f"{model}_{size}": (tables, *values, *_SHARED)
    for model, tables in _TABLES.items()
    for size, values in _SIZES.items()
} | {
    f"{model}_large_nvidia_{phase}": _nvidia_column(model, phase)
    for model in _TABLES
    for phase in _NVIDIA_PHASES
}

# What a config does not hold, so that nothing here can compare it.
NOT_COMPARED = (
    "the corpus (base: English Wikipedia; large: with BookCorpus) and its vocabulary",
    "the sentence splitter (NLTK Punkt)",
    "short windows (1 in 100 has a random length) and their layout (one stretch of a "
    "document; the authors' code: two, A and B)",
    "the initial weights (phase 2 of NVIDIA's recipe: those of phase 1)",
)


def deviations(config: configuration.RunConfig) -> list[Deviation]:
    """Every setting in which `config` departs from the column that it names.

    Args:
        config: a run; `config.paper` is one of `COLUMNS`.

    Returns:
        Deviations in the order of the column; none for a run that does as the
        paper says.

    Raises:
        ValueError: if there is no such column.
    """
    if config.paper not in COLUMNS:
        raise ValueError(
            f"`paper` must be one of {', '.join(COLUMNS)}. "
            f"Received: paper={config.paper!r}"
        )
    found = []
    for value in COLUMNS[config.paper]:
        expected = value.value(config) if callable(value.value) else value.value
        run = _read(config, value.setting)
        if not _same(run, expected):
            released = value.released is not _UNSAID and _same(run, value.released)
            found.append(
                Deviation(value.setting, expected, run, value.source, released)
            )
    return found


def describe(config: configuration.RunConfig) -> str:
    """The deviations as text, a line each."""
    found = deviations(config)
    lines = [f"Deviations from the paper ({config.paper}): {len(found) or 'none'}"]
    lines += [f"  {deviation}" for deviation in found]
    lines.append("Not compared, since no config holds it:")
    lines += [f"  {point}" for point in NOT_COMPARED]
    return "\n".join(lines)


def _warmup(config: configuration.RunConfig, value: Any) -> Any:
    return _one_percent(config) if value is None else value


def _decay(config: configuration.RunConfig, value: Any) -> Any:
    return _whole_run(config) if value is None else value


def _windows_per_row(config: configuration.RunConfig, value: Any) -> Any:
    return 1 if value == "absent" else value


# Settings whose value in a config stands for another one.
_READERS: Mapping[str, Callable[[configuration.RunConfig, Any], Any]] = {
    "optimizer": lambda config, value: type(value).__name__,
    "objectives": lambda config, value: tuple(sorted(value)),
    "inputs.max_windows_per_row": _windows_per_row,
    "optimizer.warmup_updates": _warmup,
    "optimizer.decay_updates": _decay,
}


def _read(config: configuration.RunConfig, setting: str) -> Any:
    value = config
    for name in setting.split("."):
        if isinstance(value, Mapping):
            value = value.get(name, "absent")
        else:
            value = getattr(value, name, "absent")
    reader = _READERS.get(setting)
    value = reader(config, value) if reader else value
    return dict(value) if isinstance(value, Mapping) else value


def _same(run: Any, paper: Any) -> bool:
    if isinstance(run, float) and isinstance(paper, float):
        return math.isclose(run, paper, rel_tol=1e-9, abs_tol=0.0)
    return run == paper


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items())
    if isinstance(value, tuple):
        return ", ".join(_text(part) for part in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
