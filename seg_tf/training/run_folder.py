"""The output folder of a run: its files, whose run it is, and how long that is."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seg_tf import files, papers
from seg_tf.checkpoints import folder_names
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
        # Records are known by their checksums and weights.
        "config.records_dir",
        # The gradient is the same, but for rounding and which units dropout drops.
        "config.training.micro_batch_size",
        # The gradient is the same, but for rounding.
        "config.training.recompute_layers",
        # Kernels round in another order.
        "config.training.deterministic_ops",
        "config.training.jit_compile",
        "config.training.vocab_multiple",
        # Of three processes and more, sums may round in another order.
        "config.training.gradient_groups",
        "config.training.max_skipped_steps",
        "config.training.log_interval",
        "config.training.validation_interval",
        "config.training.validation_batches",
        "config.training.checkpoint_interval",
        "config.training.keep_checkpoints",
        # They watch; what one changes is for its author to answer for.
        "config.training.callbacks",
    }
)


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """Names of what a run writes below its `--output_dir`."""

    path: pathlib.Path

    @property
    def run_file(self) -> pathlib.Path:
        """Config and records of the run."""
        return self.path / "run.json"

    @property
    def deviations_file(self) -> pathlib.Path:
        return self.path / "deviations.txt"

    @property
    def log_file(self) -> pathlib.Path:
        return self.path / "log.jsonl"

    @property
    def trackers_file(self) -> pathlib.Path:
        """Ids by which experiment trackers know the run."""
        return self.path / "trackers.json"

    @property
    def curve_file(self) -> pathlib.Path:
        return self.path / "loss_curve.png"

    @property
    def events_folder(self) -> pathlib.Path:
        return self.path / "tensorboard"

    @property
    def checkpoints_folder(self) -> pathlib.Path:
        return self.path / "checkpoints"

    @property
    def ends_folder(self) -> pathlib.Path:
        """Checkpoints of a decay that a longer run does not share."""
        return self.path / "ends"

    @classmethod
    def of_checkpoint(cls, folder: pathlib.Path) -> RunFolder | None:
        """The run that a checkpoint lies in; None if it lies in none."""
        checkpoints = folder.resolve().parent
        run = cls(checkpoints.parent)
        return run if checkpoints == run.checkpoints_folder else None

    def remove_run(self) -> None:
        """Removes what a run has written, and nothing else."""
        for written in (self.checkpoints_folder, self.events_folder, self.ends_folder):
            shutil.rmtree(written, ignore_errors=True)
        # Last, so that a removal cut short still looks like the run it was.
        for written in (
            self.log_file,
            self.trackers_file,
            self.curve_file,
            self.deviations_file,
            self.run_file,
        ):
            written.unlink(missing_ok=True)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Keeps a second process from training into the same folder.

        Raises:
            OutputFolderError: if another process does so now.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        return files.locked(
            self.path,
            OutputFolderError(
                f"`--output_dir` must not be in use. Received: {self.path}, into which "
                "another process trains now"
            ),
        )


def describe_run(
    config: RunConfig,
    records: Mapping[str, Any],
    initial_weights: str | None = None,
) -> dict[str, Any]:
    """Identity of a run, as plain values: its config, records and initial weights.

    Args:
        config: the run's.
        records: what `record_sources.describe` says of its records.
        initial_weights: checksum of the weights it starts from; None is chance.
    """
    return {
        "config": to_dict(config),
        "records": dict(records),
        "initial_weights": initial_weights,
    }


def facts(
    config: RunConfig, inputs: Inputs, description: Mapping[str, Any]
) -> dict[str, Any]:
    """Facts about a run that every checkpoint contains.

    Args:
        config: the run.
        inputs: its input pipeline.
        description: the result of `describe_run`.
    """
    return {
        **description,
        "seed": config.training.seed,
        "vocab_size": config.model.vocab_size or inputs.vocab_size,
        "vocab_checksum": inputs.vocab_checksum,
        "deviations": [str(one) for one in papers.deviations(config)],
        "versions": engine.installed_versions(),
    }


def prepare(
    folder: RunFolder, run: Mapping[str, Any], *, resume: bool, overwrite: bool
) -> int | None:
    """Readies an output folder for a run, or refuses it.

    Another length is not written yet: `record` does so, once the run has gone back to
    the checkpoint from which it continues.

    Args:
        folder: the output folder.
        run: the answer of `describe_run`.
        resume: whether a run that the folder holds may continue.
        overwrite: whether to remove a run that the folder holds.

    Returns:
        `num_updates` of the run that the folder holds, if it differs.

    Raises:
        OutputFolderError: if the folder holds another run, naming the settings that
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
    """Raises as `prepare` does, and touches nothing."""
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
    done = folder_names.existing(folder.checkpoints_folder)
    previous, length = flat(before).get(_LENGTH), flat(run)[_LENGTH]
    if done and length < done[-1] and length != previous:
        raise OutputFolderError(
            "`--config.training.num_updates` must be at least the updates that are "
            f"done. Received: num_updates={length}, and {path} has a checkpoint "
            f"after {done[-1]} of {previous} updates. Give a larger number, or "
            "choose another --output_dir"
        )
    if not resume and done:
        raise OutputFolderError(
            f"`--output_dir` holds checkpoints of this run: {path}, and --noresume "
            "was given. Choose another --output_dir, or remove them with --overwrite"
        )


def _read(folder: RunFolder) -> dict[str, Any]:
    """Content of the run's file, if there is one.

    Fields of the config that the version which wrote it did not have get the values
    that a config without them has now.
    """
    if not folder.run_file.exists():
        return {}
    run = json.loads(folder.run_file.read_text(encoding="utf-8"))
    try:
        config = to_dict(from_config_dict(run["config"]))
    except (TypeError, ValueError):  # of a config that this version does not know
        return run
    return {**run, "config": config}


def read_log(path: pathlib.Path) -> list[dict[str, Any]]:
    """Rows of a `log.jsonl`, one for each log interval and each validation, in order.

    A missing log has no rows. A last line that was cut off when its process was killed
    is left out.

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
