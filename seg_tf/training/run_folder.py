"""Manages a run's output folder, with its files `run.json` and `log.jsonl`."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any

from seg_tf import files
from seg_tf.config import RunConfig, differing_settings, from_config_dict, to_dict
from seg_tf.config.base import flat
from seg_tf.training.errors import OutputFolderError

# Kinds of rows in a log.
TRAIN, VALIDATION = "train", "validation"
_LENGTH = "config.training.num_updates"
# Settings that may change when a run is resumed. They only affect gradients by rounding
# and by the choice of dropped units. Records are identified by checksums.
_FREE_SETTINGS = {"config.name", "config.records_dir"} | {
    f"config.training.{name}"
    for name in (
        "micro_batch_size",
        "recompute_layers",
        "deterministic_ops",
        "jit_compile",
        "vocab_multiple",
        "gradient_groups",
        "max_skipped_steps",
        "log_interval",
        "validation_interval",
        "validation_batches",
        "checkpoint_interval",
        "keep_checkpoints",
        "callbacks",
        "probes",
    )
}


class RunFolder:
    """Paths of the files and folders that a run writes to its `--output_dir`."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.run_file = path / "run.json"  # config and records
        self.deviations_file = path / "deviations.txt"
        self.log_file = path / "log.jsonl"
        self.trackers_file = path / "trackers.json"  # ids of the run in trackers
        self.curve_file = path / "loss_curve.png"
        self.events_folder = path / "tensorboard"
        self.checkpoints_folder = path / "checkpoints"
        # Checkpoints that are damaged or from a decay that a longer run does not share.
        self.set_aside_folder = path / "set_aside"
        aside = self.set_aside_folder
        self._folders = (self.checkpoints_folder, self.events_folder, aside)

    @classmethod
    def of_checkpoint(cls, folder: pathlib.Path) -> RunFolder | None:
        """Returns a checkpoint's `RunFolder`, or None if it is not in a run folder."""
        checkpoints = folder.resolve().parent
        run = cls(checkpoints.parent)
        return run if checkpoints == run.checkpoints_folder else None

    def existing_parts(self) -> list[str]:
        """Returns the names of the folders and the log that exist."""
        parts = (*self._folders, self.log_file)
        return [path.name for path in parts if path.exists()]

    def remove_run(self) -> None:
        """Removes the files and folders of a run. Other content is kept."""
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        # `run.json` is last, so that after an interruption the folder is still a run.
        files_ = (self.log_file, self.trackers_file, self.curve_file)
        for path in (*files_, self.deviations_file, self.run_file):
            path.unlink(missing_ok=True)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Context manager that creates and locks the folder.

        Raises an `OutputFolderError` if another process has locked it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        return files.locked(
            self.path,
            OutputFolderError(
                f"`--output_dir` must not be in use. Received: {self.path}, into which "
                "another process is training"
            ),
        )


def describe_run(
    config: RunConfig, records: Mapping[str, Any], initial_weights: str | None = None
) -> dict[str, Any]:
    """Returns the content of `run.json`, with the checksum of any initial weights."""
    return {
        "config": to_dict(config),
        "records": dict(records),
        "initial_weights": initial_weights,
    }


def prepare(folder: RunFolder, run: Mapping[str, Any], *, overwrite: bool) -> int:
    """Creates a run's output folder, and returns the `num_updates` of a previous run.

    With `overwrite`, removes a previous run. Without one, returns the `num_updates` of
    `run`. Writes `run.json` if `num_updates` has not changed. Otherwise, the trainer
    must write it after restoring. Raises `OutputFolderError` like `check`.
    """
    check(folder, run, overwrite=overwrite)
    if overwrite:
        folder.remove_run()
    folder.path.mkdir(parents=True, exist_ok=True)
    length = flat(run)[_LENGTH]
    previous: int = flat(_read(folder)).get(_LENGTH, length)
    if previous == length:
        files.write_json(folder.run_file, run)
    return previous


def check(folder: RunFolder, run: Mapping[str, Any], *, overwrite: bool) -> None:
    """Raises `OutputFolderError` if the folder has another run, unless `overwrite`.

    Files that are named like a run's, but without `run.json`, are never removed.
    """
    if not folder.run_file.exists() and (parts := folder.existing_parts()):
        raise OutputFolderError(
            "`--output_dir` must be new or the folder of a run, which has run.json. "
            f"Received: {folder.path}, which has {', '.join(parts)} without it"
        )
    if overwrite or not folder.run_file.exists():
        return
    differences = differing_settings(_read(folder), run, {*_FREE_SETTINGS, _LENGTH})
    if differences:
        raise OutputFolderError(
            f"`--output_dir` holds another run: {folder.path}. It differs in "
            + "; ".join(differences)
            + ". Choose another --output_dir, or remove that run with --overwrite"
        )


def _read(folder: RunFolder) -> dict[str, Any]:
    """Reads `run.json`, adding defaults of new fields. Returns {} without the file."""
    if not folder.run_file.exists():
        return {}
    run = files.read_json(folder.run_file)
    return {**run, "config": to_dict(from_config_dict(run["config"]))}


def read_log(path: pathlib.Path) -> list[dict[str, Any]]:
    """Reads the rows of a `log.jsonl`, one per log interval or validation.

    Returns [] if the file is missing. Ignores an incomplete last line. Raises a
    `ValueError` if another line is not valid JSON.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows += [json.loads(line)] if line else []
        except json.JSONDecodeError as error:
            if number < len(lines):  # the last one has no newline
                raise ValueError(
                    f"{path}:{number}: not valid JSON: {error.msg}"
                ) from error
    return rows
