"""The papers' pretraining settings, and the deviations of a run from them."""

import dataclasses
import math
import pathlib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from seg_tf.config import RunConfig

_SETTINGS = tomllib.loads(
    pathlib.Path(__file__).with_name("settings.toml").read_text(encoding="utf-8")
)
ABSENT = "absent"


class PaperValue(NamedTuple):
    """The value of a setting in a paper.

    `value` may be a function that computes the value from a run's config. `released` is
    the value in the authors' code if it differs.
    """

    value: Any
    source: str
    released: Any = None


def _attention_dropout(config: RunConfig) -> float | None:
    """Returns 0.1, as in the paper, or None if the run has only one dropout rate."""
    return None if getattr(config.model, "attention_dropout", 0.1) is None else 0.1


def _mixed_precision(config: RunConfig) -> str:
    policy = config.training.dtype_policy
    return policy if policy.startswith("mixed_") else "mixed_float16"


def _whole_run(config: RunConfig) -> int:
    return config.training.num_updates


# Values in settings.toml that depend on the run.
_FUNCTIONS: Mapping[str, Callable[[RunConfig], Any]] = {
    "@one_percent": lambda config: max(1, round(_whole_run(config) / 100)),
    "@whole_run": _whole_run,
    "@attention_dropout": _attention_dropout,
    "@mixed_precision": _mixed_precision,
    # 80 for 512 positions, and in proportion for others (BERT has 20 for 128).
    "@predictions": lambda config: math.ceil(
        getattr(config.inputs, "window_length", 512) * 80 / 512
    ),
    # Every masked position of a row without padding.
    "@all_masked": lambda config: math.ceil(
        getattr(config.inputs, "row_length", 0) * 0.15
    ),
}


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        path = prefix.rstrip(".") if name == "class" else f"{prefix}{name}"
        if isinstance(value, dict) and name != "index_tables":
            yield from _flat(value, f"{path}.")
        elif isinstance(value, list):
            yield path, tuple(value)
        elif isinstance(value, str):
            yield path, _FUNCTIONS.get(value, value)
        else:
            yield path, value


def _column(groups: str, says_as_bert: str) -> dict[str, PaperValue]:
    """Merges the settings of the space-separated `groups`. Earlier groups win.

    `says_as_bert` is put before the sources of settings from BERT.
    """
    values: dict[str, PaperValue] = {}
    released: dict[str, Any] = {}
    for group in groups.split():
        says = says_as_bert if group in ("bert", "full_precision") else ""
        for cited, entry in _SETTINGS["groups"][group].items():
            source = f"{says}{cited}".format_map(_SETTINGS["sources"])
            parts = {name: part for name, part in entry.items() if name != "released"}
            for setting, value in _flat(parts):
                values.setdefault(setting, PaperValue(value, source))
            released.update(_flat(entry.get("released", {})))
    return {
        setting: value._replace(released=released.get(setting))
        for setting, value in values.items()
    }


# `RunConfig.paper` ("segabert_base", "slm_base_plain", …) -> path of a setting in the
# config -> value.
COLUMNS: Mapping[str, Mapping[str, PaperValue]] = {
    name: _column(groups, paper.get("bert", ""))
    for paper in _SETTINGS["papers"].values()
    for name, groups in paper["columns"].items()
}
_NOT_COMPARED: Mapping[str, list[str]] = {
    name: paper["not_compared"]
    for paper in _SETTINGS["papers"].values()
    for name in paper["columns"]
}


@dataclasses.dataclass(frozen=True)
class Deviation:
    """A setting in which a run deviates from its paper.

    `setting` is the path in the config. `released` is whether the run uses the value in
    the authors' code.
    """

    setting: str
    paper: Any
    run: Any
    source: str
    released: bool

    def __str__(self) -> str:
        note = " (as in the authors' code)" if self.released else ""
        return (
            f"{self.setting}: {_text(self.run)}{note}; paper {_text(self.paper)} "
            f"[{self.source}]"
        )


def deviations(config: RunConfig) -> list[Deviation]:
    """Returns a run's deviations. Raises `ValueError` if `config.paper` is unknown."""
    if config.paper not in COLUMNS:
        raise ValueError(
            f"`paper` must be one of {', '.join(COLUMNS)}. "
            f"Received: paper={config.paper!r}"
        )
    parts = [field.name for field in dataclasses.fields(config)]
    column = COLUMNS[config.paper]
    deviating = []
    for setting in sorted(column, key=lambda name: parts.index(name.split(".")[0])):
        value, source, released = column[setting]
        expected = value(config) if callable(value) else value
        run = read_setting(config, setting)
        if run != expected:
            is_released = released is not None and run == released
            deviating.append(Deviation(setting, expected, run, source, is_released))
    return deviating


def describe(config: RunConfig) -> str:
    """Returns a text that lists `deviations` and the settings not compared."""
    deviating = deviations(config)
    return "\n".join(
        [
            f"Deviations from the paper ({config.paper}): {len(deviating) or 'none'}",
            *(f"  {deviation}" for deviation in deviating),
            "Not compared, because no config field holds it:",
            *(f"  {point}" for point in _NOT_COMPARED[config.paper]),
        ]
    )


def read_setting(config: RunConfig, setting: str) -> Any:
    """Returns a run's setting in the form used by `COLUMNS`, or `ABSENT` if missing."""
    value: Any = config
    for name in setting.split("."):
        if isinstance(value, Mapping):
            value = value.get(name, ABSENT)
        else:
            value = getattr(value, name, ABSENT)
    if setting in ("inputs", "inputs.masking", "optimizer"):
        return type(value).__name__
    if setting == "objectives":
        return tuple(sorted(value))
    if setting == "inputs.max_windows_per_row" and value == ABSENT:
        return 1
    if setting == "optimizer.warmup_updates" and value is None:
        return config.optimizer.warmup(config.training.num_updates)
    if setting == "optimizer.decay_updates" and value is None:
        return _whole_run(config)
    return dict(value) if isinstance(value, Mapping) else value


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
