"""Writes, removes and restores the checkpoints of a run."""

import dataclasses
import math
import pathlib
import shutil
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np

from seg_tf import files
from seg_tf.checkpoints import contents, folders
from seg_tf.checkpoints.weight_files import CheckpointError, DamagedCheckpointError
from seg_tf.config import RunConfig
from seg_tf.text.encoding import TextPreparation
from seg_tf.training.learner import Learner


@dataclasses.dataclass
class Checkpoints:
    """The folder `checkpoints` of a run.

    Each checkpoint is a folder such as `update-00001000`. Old checkpoints are removed,
    except for the newest `keep`, the one with the lowest validation loss, and the
    newest one up to `decay_begin`, from which longer runs can continue.
    """

    folder: pathlib.Path  # created with the first checkpoint
    keep: int
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # in each state
    text_preparation: TextPreparation | None = None  # from text to ids, if known
    report: Callable[[str], None] = print
    decay_begin: int | None = None  # None if the whole schedule depends on the length

    def path(self, updates: int) -> pathlib.Path:
        return self.folder / folders.name(updates)

    def updates(self) -> list[int]:
        """Returns the update numbers of the checkpoints, in ascending order."""
        return folders.existing(self.folder)

    def save(
        self,
        learner: Learner,
        *,
        updates: int,
        samples: int,
        validation: Mapping[str, float] | None = None,
    ) -> pathlib.Path:
        """Writes a checkpoint, removes old ones, and returns the new path.

        If writing fails, raises a `CheckpointError` and keeps all earlier checkpoints.
        """
        final = self.path(updates)
        text, text_files = {}, {}
        if self.text_preparation is not None:
            text = {"text": self.text_preparation.described()}
            text_files = self.text_preparation.files()
        state = {
            **self.facts,
            **text,
            "updates": updates,
            "samples": samples,
            "validation": dict(validation) if validation else None,
        }
        size = 2**20 + num_bytes(all_variables(learner))
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
                    text_files,
                    _groups(learner),
                )
        except (OSError, RuntimeError) as error:  # h5py raises either
            raise CheckpointError(
                f"{final}: could not write the checkpoint: {error}. "
                f"{self.describe_newest()}; repair the disk, then start the same "
                "command again"
            ) from error
        self._remove_old()
        return final

    def record_validation(self, updates: int, results: Mapping[str, float]) -> None:
        """Adds validation results to a checkpoint, then removes old checkpoints."""
        folder = self.path(updates)
        state = contents.read_state(folder)
        contents.write_state(folder, {**state, "validation": dict(results)})
        self._remove_old()

    def best(self) -> int | None:
        """Returns the best checkpoint's update number, or None if none is validated."""
        return folders.best(self.folder)

    def best_loss(self) -> float | None:
        return min(folders.validation_losses(self.folder).values(), default=None)

    def newest_intact(self, at_most: int | None = None) -> dict[str, Any] | None:
        """Returns the state of the newest intact checkpoint, up to update `at_most`.

        Returns None if there is none. Reports damaged checkpoints. If `at_most` is None
        and all are damaged, raises a `CheckpointError`.
        """
        damaged = []
        for updates in reversed(self.updates()):
            if at_most is None or updates <= at_most:
                try:
                    return folders.read(self.path(updates))
                except DamagedCheckpointError as error:
                    damaged.append(str(error))
                    self.report(f"Damaged checkpoint, trying the one before. {error}")
        if damaged and at_most is None:
            raise CheckpointError(
                f"{self.folder}: every checkpoint is damaged. {'; '.join(damaged)}. "
                "Start again with --overwrite"
            )
        return None

    def set_aside_newer(self, updates: int) -> None:
        """Moves the checkpoints after `updates` to the run's folder `set_aside`."""
        aside = self.folder.parent / "set_aside"
        for newer in self.updates():
            target = aside / folders.name(newer)
            if newer > updates:
                aside.mkdir(exist_ok=True)
                shutil.rmtree(target, ignore_errors=True)
                self.path(newer).rename(target)

    def describe_newest(self) -> str:
        """Returns a clause that names the newest checkpoint, or says there is none."""
        if updates := self.updates():
            return f"The last checkpoint is {self.path(updates[-1])}"
        return "There is no checkpoint yet"

    def restore(self, learner: Learner, updates: int) -> None:
        """Restores all variables of a learner. Raises `CheckpointError` on failure."""
        contents.restore(
            self.path(updates), learner.encoder, learner.objectives, _groups(learner)
        )
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
    previous: int, config: RunConfig, checkpoints: Checkpoints
) -> Mapping[str, Any] | None:
    """Returns the state of the checkpoint to resume from, or None if there is none.

    `previous` is the run's previous `num_updates`. If it has changed and the schedule
    is warmup–stable–decay, the run resumes from its newest checkpoint before both the
    old and the new decay, if there is one. It then equals a new run of the new length.
    Otherwise, it resumes from the newest. Raises `CheckpointError` if all are damaged.
    """
    length = config.training.num_updates
    state = checkpoints.newest_intact()
    if previous != length:
        begins = [config.decay_begin(updates) for updates in (previous, length)]
        known = [begin for begin in begins if begin is not None]
        if len(known) == len(begins):
            state = checkpoints.newest_intact(at_most=min(known)) or state
        updates = state["updates"] if state else 0
        checkpoints.report(
            f"After update {updates:,}, the run continues to {length:,} updates, not "
            f"to {previous:,}"
        )
    return state


def all_variables(learner: Learner) -> list[Any]:
    """Returns all variables that the next update depends on, in a fixed order."""
    encoder, objectives = learner.encoder, learner.objectives
    variables = [*encoder.weights, *contents.objective_variables(encoder, objectives)]
    groups = _groups(learner).values()
    return variables + [variable for group in groups for variable in group]


def num_bytes(variables: Iterable[Any]) -> int:
    """Returns the total size of variables in bytes."""
    return sum(
        math.prod(v.shape) * np.dtype(keras.backend.standardize_dtype(v.dtype)).itemsize
        for v in variables
    )


def _groups(learner: Learner) -> dict[str, list[Any]]:
    """Returns all variables except weights, by their group in `training_state.npz`."""
    return {
        "counters": learner.counters,
        "optimizer": learner.optimizer.variables,
        "loss_scale": list(learner.options.loss_scale.variables),
        "memory": list(learner.memory.variables),
    }
