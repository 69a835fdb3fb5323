"""Checkpoints of a run: writing, keeping and restoring them."""

import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from seg_tf import files
from seg_tf.checkpoints import contents, folders
from seg_tf.checkpoints.errors import CheckpointError, DamagedCheckpointError
from seg_tf.config import RunConfig
from seg_tf.text.encoding import TextPreparation
from seg_tf.training.learner import Learner


class Checkpoints:
    """The folder `checkpoints` of a run.

    A checkpoint is a folder `update-00001000`. It is written under a temporary name
    and renamed, so a folder with this name is complete. Old checkpoints are removed,
    except for the newest `keep`, the one with the lowest validation loss, and the
    newest one from before `decay_begin`.

    Args:
        folder: the folder, created with the first checkpoint.
        keep: number of newest checkpoints that stay.
        facts: facts about the run that each `state.json` contains.
        text_preparation: steps from text to ids, which each checkpoint contains. None
            if the inputs do not know them.
        report: called with each line to print.
        decay_begin: update from which longer runs differ; None if they always do.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        keep: int,
        facts: Mapping[str, Any] | None = None,
        text_preparation: TextPreparation | None = None,
        report: Callable[[str], None] = print,
        decay_begin: int | None = None,
    ):
        self.folder = pathlib.Path(folder)
        self.keep = keep
        self.facts = dict(facts or {})
        self._text_files: dict[str, bytes] = {}
        if text_preparation is not None:
            self._text_files = text_preparation.files()
            self.facts["text"] = text_preparation.described()
        self.report = report
        self.decay_begin = decay_begin

    def path(self, updates: int) -> pathlib.Path:
        return self.folder / folders.name(updates)

    def updates(self) -> list[int]:
        """Updates of the checkpoints, in ascending order."""
        return folders.existing(self.folder)

    def save(
        self,
        learner: Learner,
        *,
        updates: int,
        samples: int,
        validation: Mapping[str, float] | None = None,
    ) -> pathlib.Path:
        """Writes a checkpoint, removes those that are no longer kept; returns its path.

        Args:
            learner: the learner.
            updates: updates made.
            samples: samples of the input order that were read.
            validation: results of a validation after these updates, if there was one.

        Raises:
            CheckpointError: if it cannot be written; earlier checkpoints are intact.
        """
        final = self.path(updates)
        state = {
            **self.facts,
            "updates": updates,
            "samples": samples,
            "validation": dict(validation) if validation else None,
        }
        size = 2**20 + sum(map(len, self._text_files.values()))
        size += sum(
            math.prod(variable.shape) * tf.as_dtype(variable.dtype).size
            for variable in all_variables(learner)
        )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            files.remove_leftovers(self.folder)
            files.check_room(self.folder, size)
            with files.written_aside(final) as unfinished:
                unfinished.mkdir()
                contents.write(
                    unfinished,
                    learner.encoder,
                    learner.objectives,
                    state,
                    self._text_files,
                    _groups(learner),
                )
        except (OSError, RuntimeError) as error:  # h5py raises either
            raise CheckpointError(
                f"{final}: could not write the checkpoint: {error}. "
                f"{self.describe_newest()}; free or repair the disk, then start "
                "the same command again"
            ) from error
        self._remove_old()
        return final

    def record_validation(self, updates: int, results: Mapping[str, float]) -> None:
        """Adds results to the checkpoint of `updates`, atomically."""
        folder = self.path(updates)
        state = contents.read_state(folder)
        contents.write_state(folder, {**state, "validation": dict(results)})
        self._remove_old()

    def best(self) -> int | None:
        """Updates of the checkpoint with the lowest validation loss, if any."""
        return folders.best(self.folder)

    def best_loss(self) -> float | None:
        """The lowest validation loss of a checkpoint, if any has one."""
        return min(folders.validation_losses(self.folder).values(), default=None)

    def newest_intact(self, at_most: int | None = None) -> dict[str, Any] | None:
        """State of the newest undamaged checkpoint; None if there is no checkpoint.

        Args:
            at_most: maximum number of updates; None is no limit.

        Raises:
            CheckpointError: if there are checkpoints and all are damaged.
        """
        damaged = []
        for updates in reversed(self.updates()):
            if at_most is not None and updates > at_most:
                continue
            try:
                return folders.read(self.path(updates))
            except DamagedCheckpointError as error:
                damaged.append(str(error))
                self.report(f"Damaged checkpoint, trying the one before. {error}")
        if damaged:
            raise CheckpointError(
                f"{self.folder}: every checkpoint is damaged. "
                + "; ".join(damaged)
                + ". Start again with --overwrite, or in another --output_dir"
            )
        return None

    def discard_newer(self, updates: int) -> None:
        """Removes the checkpoints after `updates`, which were found to be damaged.

        Otherwise they would count among the newest, in place of intact ones.
        """
        for newer in self.updates():
            if newer > updates:
                files.remove_folder(self.path(newer))

    def move_newer(self, updates: int, folder: pathlib.Path) -> None:
        """Moves the checkpoints after `updates` to `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        for newer in self.updates():
            target = folder / folders.name(newer)
            if newer > updates:
                if target.exists():
                    files.remove_folder(target)
                self.path(newer).rename(target)

    def describe_newest(self) -> str:
        """Names the newest checkpoint, as part of a message."""
        existing = self.updates()
        if not existing:
            return "No checkpoint was written before"
        return f"The last checkpoint is {self.path(existing[-1])}"

    def restore(self, learner: Learner, updates: int) -> None:
        """Sets every variable of a learner to its value in a checkpoint.

        Raises:
            CheckpointError: if the checkpoint belongs to another model.
        """
        contents.restore(
            self.path(updates), learner.encoder, learner.objectives, _groups(learner)
        )
        # Lanes that this process held before do not belong to the checkpoint.
        learner.memory.share()

    def _remove_old(self) -> None:
        existing = self.updates()
        keep = {*existing[-self.keep :], self.best()}
        if self.decay_begin is not None:
            keep.update([n for n in existing if n <= self.decay_begin][-1:])
        for updates in existing:
            if updates not in keep:
                files.remove_folder(self.path(updates))


def choose_for_length(
    previous: int,
    config: RunConfig,
    checkpoints: Checkpoints,
    ends_folder: pathlib.Path,
) -> Mapping[str, Any] | None:
    """Chooses the checkpoint from which a run of another length continues.

    A warm-up–stable–decay run goes back to its last checkpoint before the decay, and
    then equals a run that had the new length from the start, bit for bit. Later
    checkpoints move to `ends_folder`. Any other run continues from its newest
    checkpoint, at the learning rates of the new length.

    Returns:
        State of the checkpoint; None if there is none.

    Raises:
        CheckpointError: if no such checkpoint is intact.
    """
    length, report = config.training.num_updates, checkpoints.report
    state = checkpoints.newest_intact()
    before, now = config.decay_begin(previous), config.decay_begin(length)
    shared = None if before is None or now is None else min(before, now)
    if state and shared is not None and state["updates"] > shared:
        earlier = checkpoints.newest_intact(at_most=shared)
        if earlier:
            checkpoints.move_newer(earlier["updates"], ends_folder)
            report(f"Checkpoints of the decay are now in {ends_folder}")
            state = earlier
        else:
            report(
                f"No checkpoint from before the decay, at update {shared:,}, is left. "
                "The result will differ from that of a run that had "
                f"{length:,} updates from the start"
            )
    updates = state["updates"] if state else 0
    report(
        f"From update {updates:,} on the run has {length:,} updates, not {previous:,}"
    )
    return state


def all_variables(learner: Learner) -> list[Any]:
    """Everything that the next update depends on, in an order fixed by the model."""
    encoder, objectives = learner.encoder, learner.objectives
    variables = [*encoder.weights, *contents.objective_variables(encoder, objectives)]
    groups = _groups(learner).values()
    return variables + [variable for group in groups for variable in group]


def _groups(learner: Learner) -> dict[str, list[Any]]:
    """Variables besides the weights, by their group in `training_state.npz`."""
    return {
        "counters": learner.counters,
        "optimizer": learner.optimizer.variables,
        "loss_scale": list(learner.options.loss_scale.variables),
        "memory": list(learner.memory.variables),
    }
