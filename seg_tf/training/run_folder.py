"""The output folder of a run: its files, the run's identity, and its log."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seg_tf import files, papers
from seg_tf.checkpoints import folders
from seg_tf.config import RunConfig, differing_settings, from_config_dict, to_dict
from seg_tf.config.base import flat
from seg_tf.training import engine
from seg_tf.training.errors import OutputFolderError

if TYPE_CHECKING:  # which imports TensorFlow
    from seg_tf.training.inputs import Inputs

# Kinds of rows in a log.
TRAIN, VALIDATION = "train", "validation"
_LENGTH = "config.training.num_updates"
# Settings that may change when a run is resumed: its weights do not depend on them.
_FREE_SETTINGS = frozenset(
    {
        "config.name",
        # Records are identified by their checksums and weights.
        "config.records_dir",
        # The gradient is the same except for rounding and the units that dropout drops.
        "config.training.micro_batch_size",
        # The gradient is the same except for rounding.
        "config.training.recompute_layers",
        # Kernels round in another order.
        "config.training.deterministic_ops",
        "config.training.jit_compile",
        "config.training.vocab_multiple",
        # With three processes and more, sums may round in another order.
        "config.training.gradient_groups",
        "config.training.max_skipped_steps",
        "config.training.log_interval",
        "config.training.validation_interval",
        "config.training.validation_batches",
        "config.training.checkpoint_interval",
        "config.training.keep_checkpoints",
        # Their authors are responsible for what they change.
        "config.training.callbacks",
    }
)


class RunFolder:
    """Names of the files that a run writes below its `--output_dir`."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.run_file = path / "run.json"  # config and records
        self.deviations_file = path / "deviations.txt"
        self.log_file = path / "log.jsonl"
        self.trackers_file = path / "trackers.json"  # ids of the run in trackers
        self.curve_file = path / "loss_curve.png"
        self.events_folder = path / "tensorboard"
        self.checkpoints_folder = path / "checkpoints"
        # Checkpoints of a decay that a longer run does not share.
        self.ends_folder = path / "ends"

    @classmethod
    def of_checkpoint(cls, folder: pathlib.Path) -> RunFolder | None:
        """The run that a checkpoint belongs to, if any."""
        checkpoints = folder.resolve().parent
        run = cls(checkpoints.parent)
        return run if checkpoints == run.checkpoints_folder else None

    def remove_run(self) -> None:
        """Removes the files of a run, and nothing else."""
        for folder in (self.checkpoints_folder, self.events_folder, self.ends_folder):
            shutil.rmtree(folder, ignore_errors=True)
        # `run.json` last, so that an interrupted removal still looks like the run.
        for path in (
            self.log_file,
            self.trackers_file,
            self.curve_file,
            self.deviations_file,
            self.run_file,
        ):
            path.unlink(missing_ok=True)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Keeps other processes from training into the same folder.

        Raises:
            OutputFolderError: if another process is doing so.
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
    config: RunConfig,
    records: Mapping[str, Any],
    initial_weights: str | None = None,
) -> dict[str, Any]:
    """Identity of a run, as plain values."""
    return {
        "config": to_dict(config),
        "records": dict(records),
        "initial_weights": initial_weights,
    }


def facts(
    config: RunConfig, inputs: Inputs, description: Mapping[str, Any]
) -> dict[str, Any]:
    """Facts about a run that every checkpoint contains."""
    return {
        **description,
        "seed": config.training.seed,
        "vocab_size": config.model.vocab_size or inputs.vocab_size,
        "vocab_checksum": inputs.vocab_checksum,
        "deviations": [str(deviation) for deviation in papers.deviations(config)],
        "versions": engine.installed_versions(),
    }


def prepare(
    folder: RunFolder, run: Mapping[str, Any], *, resume: bool, overwrite: bool
) -> int | None:
    """Prepares an output folder for a run, or refuses it.

    A new length is not written yet: `record` does so, after the run has gone back to
    the checkpoint from which it continues.

    Returns:
        `num_updates` of the run in the folder, if it differs.

    Raises:
        OutputFolderError: if the folder contains another run, naming the settings that
            differ, or one that must not continue, or one that is longer already.
    """
    check(folder, run, resume=resume, overwrite=overwrite)
    if overwrite:
        folder.remove_run()
    folder.path.mkdir(parents=True, exist_ok=True)
    previous = flat(_read(folder)).get(_LENGTH)
    if previous in (None, flat(run)[_LENGTH]):
        record(folder, run)
        return None
    return previous


def record(folder: RunFolder, run: Mapping[str, Any]) -> None:
    """Writes the run's file."""
    files.write_text(folder.run_file, files.to_json(run))


def check(
    folder: RunFolder, run: Mapping[str, Any], *, resume: bool, overwrite: bool
) -> None:
    """Raises as `prepare` does, without changing anything."""
    path = folder.path
    if path.exists() and not path.is_dir():
        raise OutputFolderError(
            f"`--output_dir` must be a folder. Received: {path}, which is a file"
        )
    if overwrite or not folder.run_file.exists():
        return
    before = _read(folder)
    differences = differing_settings(before, run, {*_FREE_SETTINGS, _LENGTH})
    if differences:
        raise OutputFolderError(
            f"`--output_dir` holds another run: {path}. It differs in "
            + "; ".join(differences)
            + ". Choose another --output_dir, or remove that run with --overwrite"
        )
    done = folders.existing(folder.checkpoints_folder)
    previous, length = flat(before).get(_LENGTH), flat(run)[_LENGTH]
    if done and length < done[-1] and length != previous:
        raise OutputFolderError(
            "`--config.training.num_updates` must be at least the updates that are "
            f"done. Received: num_updates={length}, and {path} has a checkpoint "
            f"after {done[-1]} of {previous} updates. Use a larger number, or "
            "choose another --output_dir"
        )
    if not resume and done:
        raise OutputFolderError(
            f"`--output_dir` holds checkpoints of this run: {path}, and --noresume "
            "was given. Choose another --output_dir, or remove them with --overwrite"
        )


def _read(folder: RunFolder) -> dict[str, Any]:
    """Content of the run's file, if there is one.

    Fields that the config did not have yet get their default values.
    """
    if not folder.run_file.exists():
        return {}
    run = json.loads(folder.run_file.read_text(encoding="utf-8"))
    try:
        config = to_dict(from_config_dict(run["config"]))
    except (TypeError, ValueError):  # a config that this version does not know
        return run
    return {**run, "config": config}


def read_log(path: pathlib.Path) -> list[dict[str, Any]]:
    """Rows of a `log.jsonl`, one for each log interval and each validation, in order.

    A missing log has no rows. A last line that a kill cut off is left out.

    Raises:
        ValueError: if any other line is not JSON, naming the line.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number == len(lines):  # without a newline: never finished
                break
            raise ValueError(f"{path}:{number}: not valid JSON: {error.msg}") from error
    return rows
