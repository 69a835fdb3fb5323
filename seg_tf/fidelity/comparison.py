"""Compares a run with the column of a paper that its config names."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from seg_tf import configuration
from seg_tf.fidelity import reat, segatron, segatron_lm, slm
from seg_tf.fidelity.paper_values import UNSAID, PaperValue, whole_run

# What `RunConfig.paper` may name: "segabert_base", "slm_base_no_shuffle", …
COLUMNS: Mapping[str, tuple[PaperValue, ...]] = (
    segatron.COLUMNS | segatron_lm.COLUMNS | slm.COLUMNS | reat.COLUMNS
)
_NOT_COMPARED = {
    column: paper.NOT_COMPARED
    for paper in (segatron, segatron_lm, slm, reat)
    for column in paper.COLUMNS
}


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
        run = read_setting(config, value.setting)
        if not _same(run, expected):
            released = value.released is not UNSAID and _same(run, value.released)
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
    lines += [f"  {point}" for point in _NOT_COMPARED[config.paper]]
    return "\n".join(lines)


def _type_name(_: configuration.RunConfig, value: Any) -> str:
    return type(value).__name__


def _warmup(config: configuration.RunConfig, value: Any) -> Any:
    if value is None:
        return config.optimizer.warmup(config.training.num_updates)
    return value


def _decay(config: configuration.RunConfig, value: Any) -> Any:
    return whole_run(config) if value is None else value


def _windows_per_row(config: configuration.RunConfig, value: Any) -> Any:
    return 1 if value == "absent" else value


# Settings whose value in a config means another one.
_READERS: Mapping[str, Callable[[configuration.RunConfig, Any], Any]] = {
    "inputs": _type_name,
    "inputs.masking": _type_name,
    "optimizer": _type_name,
    "objectives": lambda config, value: tuple(sorted(value)),
    "inputs.max_windows_per_row": _windows_per_row,
    "optimizer.warmup_updates": _warmup,
    "optimizer.decay_updates": _decay,
}


def read_setting(config: configuration.RunConfig, setting: str) -> Any:
    """Value of a run that is compared with `setting`; "absent" if there is none."""
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
