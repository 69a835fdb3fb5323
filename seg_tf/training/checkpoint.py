"""Checkpoints of a run: writing them, keeping some, and continuing from one."""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from seg_tf import files
from seg_tf.checkpoints import contents, folder_names, folders
from seg_tf.checkpoints.errors import CheckpointError, DamagedCheckpointError
from seg_tf.text.encoding import TextPreparation
from seg_tf.training import training_state
from seg_tf.training.pretrainer import Pretrainer


class Checkpoints:
    """The folder `checkpoints` of a run.

    A checkpoint is a folder `update-00001000`, written aside and renamed, so that
    whatever has that name is whole. The newest `keep` stay, the one with the lowest
    validation loss, and the newest one from before `decay_begin`.

    Args:
        folder: where they lie; created with the first.
        keep: how many of the newest stay.
        facts: what each `state.json` says about the run, besides the counters.
        text_preparation: how the run's text became ids; each checkpoint
            keeps it with the weights. None where the inputs do not know.
        report: called with a line of text when something is worth saying.
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
        return self.folder / folder_names.name(updates)

    def updates(self) -> list[int]:
        """Updates after which there is a checkpoint, rising."""
        return folder_names.existing(self.folder)

    def save(
        self,
        pretrainer: Pretrainer,
        *,
        updates: int,
        samples: int,
        validation: Mapping[str, float] | None = None,
    ) -> pathlib.Path:
        """Writes a checkpoint and removes those that are not kept any more.

        Args:
            pretrainer: the model, its optimizer and metrics.
            updates: updates done.
            samples: samples of the input order consumed.
            validation: results of a validation after these updates, where there
                was one.

        Returns:
            The checkpoint's folder.

        Raises:
            CheckpointError: if it cannot be written; those before are intact.
        """
        final = self.path(updates)
        state = {
            **self.facts,
            "updates": updates,
            "samples": samples,
            "validation": dict(validation) if validation else None,
        }
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            files.remove_leftovers(self.folder)
            size = training_state.size_in_bytes(pretrainer)
            size += sum(map(len, self._text_files.values()))
            files.check_room(self.folder, size)
            with files.written_aside(final) as unfinished:
                unfinished.mkdir()
                contents.write(
                    unfinished,
                    pretrainer.encoder,
                    pretrainer.objectives,
                    state,
                    self._text_files,
                    training_state.groups(pretrainer),
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
        """Adds results to the checkpoint of `updates`, in one stroke."""
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
        """State of the newest checkpoint whose every byte is as it was written.

        Args:
            at_most: updates that it may have; None takes any.

        Returns:
            Its `state.json`, or None if there is no checkpoint at all.

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
                self.report(f"Damaged checkpoint, going to the one before. {error}")
        if damaged:
            raise CheckpointError(
                f"{self.folder}: every checkpoint is damaged. "
                + "; ".join(damaged)
                + ". Start anew with --overwrite, or in another --output_dir"
            )
        return None

    def discard_newer(self, updates: int) -> None:
        """Removes the checkpoints after `updates`: damaged ones, once passed over.

        Left there, they would count among the newest, in place of whole ones.
        """
        for newer in self.updates():
            if newer > updates:
                files.remove_folder(self.path(newer))

    def move_newer(self, updates: int, folder: pathlib.Path) -> None:
        """Moves the checkpoints after `updates` to `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        for newer in self.updates():
            target = folder / folder_names.name(newer)
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

    def restore(self, pretrainer: Pretrainer, updates: int) -> None:
        """Sets every variable of a built pretrainer."""
        training_state.restore(self.path(updates), pretrainer)

    def _remove_old(self) -> None:
        existing = self.updates()
        kept = {*existing[-self.keep :], self.best()}
        if self.decay_begin is not None:
            kept.update([one for one in existing if one <= self.decay_begin][-1:])
        for updates in existing:
            if updates not in kept:
                files.remove_folder(self.path(updates))
