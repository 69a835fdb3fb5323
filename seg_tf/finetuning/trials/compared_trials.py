"""Trials of another folder to hold beside, and whether that is fair."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from seg_tf.config import differing_settings
from seg_tf.finetuning.trials.trial_runs import TrialsFolder

# Without these the same: what was trained on, and what scores are of.
_SAME = ("files_sha256", "limit", "dev_limit")
# Who compares may want it other, but has to know.
_TOLD = ("max_length", "early_stopping")
# Of SQuAD: how texts were read, which depends on the model.
_READING = ("windows", "sentence_splitter")


@dataclasses.dataclass(frozen=True)
class Compared:
    """Trials of the same task elsewhere, to hold beside.

    Attributes:
        folder: with the trials.
        name: what to call them.
        differences: what was other there, besides the model, as lines of text.
    """

    folder: TrialsFolder
    name: str
    differences: tuple[str, ...] = ()


def compared_trials(path: pathlib.Path, settings: Mapping[str, Any]) -> Compared:
    """Finished trials of a task in another folder.

    Args:
        path: the folder.
        settings: those of the trials that they are compared with.

    Raises:
        ValueError: if there are none, or they are of another task or of other data.
    """
    folder = TrialsFolder(path)
    try:
        there = folder.settings()
    except ValueError as error:
        raise ValueError(
            f"`--compare` must be a folder of trials. Received: {path}. {error}"
        ) from error
    if there["task"] != settings["task"]:
        raise ValueError(
            f"`--compare` must be the folder of trials of {settings['task']}. "
            f"Received: {path}, which holds those of {there['task']}"
        )
    unfair = differing_settings(_of_data(there, settings), _of_data(settings, there))
    if unfair:
        raise ValueError(
            "`--compare` must hold trials of the same examples. Received: "
            f"{path}, whose trials differ in " + "; ".join(unfair)
        )
    if not folder.finished():
        raise ValueError(
            f"`--compare` must hold finished trials. Received: {path}, without"
        )
    kind = "randomly initialized" if there["randomly_initialized"] else "compared"
    told = differing_settings(_of_reading(there), _of_reading(settings))
    return Compared(folder, kind, tuple(told))


def _of_data(settings: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that must agree; test splits that the others lack need not."""
    found = {name: settings.get(name) for name in _SAME}
    of_others = others["files_sha256"]
    found["files_sha256"] = {
        name: checksum
        for name, checksum in settings["files_sha256"].items()
        if name not in _READING and (name in of_others or not name.startswith("test"))
    }
    return found


def _of_reading(settings: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: settings.get(name) for name in _TOLD}
    for name in _READING:
        found[name] = settings["files_sha256"].get(name)
    return found
