"""Writes the log, TensorBoard events, loss curve and checkpoints of a run."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tqdm import tqdm

from seg_tf import files
from seg_tf.command_line import Progress
from seg_tf.training import plots, throughput, trackers, yardstick
from seg_tf.training.learner import Learner
from seg_tf.training.run_folder import TRAIN, VALIDATION, read_log

if TYPE_CHECKING:
    from seg_tf.training.trainer import Trainer


class RunWriter:
    """Writes the checkpoints, log, loss curve and TensorBoard events of a run.

    If the run is resumed, log rows after its checkpoint are dropped, because they will
    be written again. New rows are also sent to the trainer's sinks.
    """

    def __init__(self, trainer: Trainer):
        self._folder, self._checkpoints = trainer.folder, trainer.checkpoints
        self._name = trainer.config.name
        self._num_updates = trainer.config.training.num_updates
        self._sinks, self._report = trainer.sinks, trainer.report
        folder, updates = trainer.folder, trainer.updates
        self._saved = updates if updates in trainer.checkpoints.updates() else None
        self._log = RunLog(folder.log_file, updates, trainer.is_validated)
        # Taken from the log if possible, because computing them reads many records.
        self._levels = {
            name: value
            for row in self._log.validations[-1:]
            for name, value in row.items()
            if name.endswith(yardstick.ENDING)
        } or yardstick.losses_without_context(trainer.config, trainer.inputs)
        # Events are rewritten from the log, so that TensorBoard shows each update once.
        for path in folder.events_folder.glob("events.out.tfevents*"):
            path.unlink()
        self._events = tf.summary.create_file_writer(str(folder.events_folder))
        for row in self._log.rows:
            self._write_events(row)
        self._display = Progress(
            self._num_updates, updates, unit="update", smoothing=0.05
        )

    def advance(self, updates: int) -> None:
        self._display.advance(updates)

    def write_interval(
        self, updates: int, row: Mapping[str, float], figures: Mapping[str, float]
    ) -> None:
        """Writes the results, speed and memory use of a log interval."""
        values = {"loss": row["loss"], "lr": f"{row['learning_rate']:.2e}"}
        self._write(TRAIN, updates, row, figures, values)

    def write_validation(
        self,
        updates: int,
        results: Mapping[str, float],
        figures: Mapping[str, float],
        learner: Learner,
    ) -> None:
        """Writes validation results, and a checkpoint if the loss is the lowest yet."""
        # The log is first, because a resumed run corrects it by its checkpoint.
        row = {**results, **self._levels}
        values = {"validation loss": results["loss"]}
        self._write(VALIDATION, updates, row, figures, values)
        message = yardstick.plateau_message(self._log.validations, self._num_updates)
        if message:
            with tqdm.external_write_mode():
                self._report(message)
        best = self._checkpoints.best_loss()
        if self._saved == updates:
            self._checkpoints.record_validation(updates, results)
        elif best is None or results["loss"] < best:
            self.save(learner, results)

    def save(
        self, learner: Learner, validation: Mapping[str, float] | None = None
    ) -> None:
        """Writes a checkpoint, unless this update already has one."""
        updates = learner.updates
        if self._saved != updates:
            self._checkpoints.save(
                learner, updates=updates, samples=learner.samples, validation=validation
            )
            self._saved = updates

    def draw_curve(self) -> None:
        """Draws the losses logged so far, if there are any."""
        if not self._log.rows:
            return
        # With several objectives, the level is for masked LM, not for the total loss.
        levels = [name.removesuffix(yardstick.ENDING) for name in self._levels]
        plots.save_curves(
            {self._name: self._folder.path},
            self._folder.curve_file,
            metrics=tuple(dict.fromkeys([plots.LOSS, *levels[:1]])),
        )

    def close(self) -> None:
        """Draws the loss curve, even if the run failed, and closes the files."""
        try:
            self.draw_curve()
        except (OSError, ValueError) as error:  # must not hide the run's own error
            self._report(f"The loss curve was not drawn: {error}")
        self._events.close()
        self._display.close()

    def _write(
        self,
        kind: str,
        updates: int,
        row: Mapping[str, float],
        figures: Mapping[str, float],
        shown: Mapping[str, Any],
    ) -> None:
        logged = self._log.write(kind, updates, {**row, **figures})
        scalars = self._write_events(logged)
        trackers.send_row(self._sinks, updates, scalars)
        self._display.show(updates, {**shown, **throughput.console_values(figures)})

    def _write_events(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Writes a row for TensorBoard and returns it with TensorBoard's names."""
        kind, updates = row["kind"], row["updates"]
        scalars = {
            f"{'health' if name in throughput.FIGURES else kind}/{name}": value
            for name, value in row.items()
            if name not in ("kind", "updates")
        }
        try:
            with self._events.as_default(updates):
                for name, value in scalars.items():
                    tf.summary.scalar(name, value)
            self._events.flush()
        except tf.errors.OpError as error:  # such as a full disk
            raise OSError(error.message) from error
        return scalars


class RunLog:
    """The file `log.jsonl`, to which one row per log interval or validation is added.

    Rows after `updates` in an existing log are dropped. The validation at `updates` is
    also dropped, unless `validated` is true.
    """

    def __init__(self, path: pathlib.Path, updates: int = 0, validated: bool = False):
        self.path = path
        self.rows = [
            row
            for row in read_log(path)
            if row["updates"] < updates
            or (row["updates"] == updates and (validated or row["kind"] == TRAIN))
        ]
        files.write_text(path, "".join(map(_to_line, self.rows)))

    @property
    def validations(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["kind"] == VALIDATION]

    def write(
        self, kind: str, updates: int, values: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Appends a row and returns it."""
        row = {"kind": kind, "updates": updates, **values}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(_to_line(row))
            file.flush()
            # A checkpoint must not outlive the rows before it.
            os.fsync(file.fileno())
        self.rows.append(row)
        return row


def _to_line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
