"""Writers of a run: its log, TensorBoard events, loss curve and checkpoints."""

import json
import os
import pathlib
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tqdm import tqdm

from seg_tf import files
from seg_tf.command_line import Progress
from seg_tf.config import RunConfig
from seg_tf.training import plots, throughput, trackers, yardstick
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.learner import Learner
from seg_tf.training.run_folder import TRAIN, VALIDATION, RunFolder, read_log

_Event: Any = tf.compat.v1.Event


class RunWriter:
    """Writes checkpoints, log, loss curve and TensorBoard events of a run.

    Args:
        folder: output folder of the run.
        checkpoints: checkpoints in this folder.
        config: config of the run.
        updates: updates made before. Rows that a previous process logged after them
            are dropped, because they will be written again.
        validated: whether the validation after `updates` has been made.
        sinks: trackers and callbacks; `trackers.send_row` sends each row to them.
        measure_levels: function that returns `yardstick.losses_without_context`;
            called unless the log has these values.
        report: called with each line to print.
    """

    def __init__(
        self,
        folder: RunFolder,
        checkpoints: Checkpoints,
        config: RunConfig,
        updates: int,
        validated: bool,
        sinks: Sequence[Any] = (),
        measure_levels: Callable[[], Mapping[str, float]] = dict,
        report: Callable[[str], None] = print,
    ):
        self._folder = folder
        self._checkpoints = checkpoints
        self._name = config.name
        self._num_updates = config.training.num_updates
        self._sinks = list(sinks)
        self._report = report
        self._saved = updates if updates in checkpoints.updates() else None
        self._log = RunLog(folder.log_file, updates, validated)
        # Measuring them again would fetch the records of a bucket again.
        self._levels = {
            name: value
            for row in self._log.validations[-1:]
            for name, value in row.items()
            if name.endswith(yardstick.ENDING)
        } or measure_levels()
        self._seconds_before = self._log.last("total_seconds") or 0.0
        self._is_drawn = False
        self._events = EventFile(folder.events_folder, updates)
        self._display = Progress(
            self._num_updates, updates, unit="update", smoothing=0.05
        )

    def advance(self, updates: int) -> None:
        """Shows the progress of the run."""
        self._display.advance(updates)

    def write_interval(
        self, updates: int, row: Mapping[str, float], figures: Mapping[str, float]
    ) -> None:
        """Writes the results of a log interval, and its speed and memory."""
        values = {"loss": row["loss"], "lr": f"{row['learning_rate']:.2e}"}
        self._write(TRAIN, updates, row, figures, values)

    def write_validation(
        self,
        updates: int,
        results: Mapping[str, float],
        figures: Mapping[str, float],
        learner: Learner,
    ) -> None:
        """Writes the results of a validation, and a checkpoint if they are the best."""
        # The log comes first: a resumed run corrects the log by its checkpoint.
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
        """Writes a checkpoint, unless this update has one."""
        updates = learner.updates
        if self._saved != updates:
            self._checkpoints.save(
                learner,
                updates=updates,
                samples=learner.samples,
                validation=validation,
            )
            self._saved = updates

    def draw_curve(self) -> None:
        """Draws the losses logged so far, unless there is nothing new."""
        if self._is_drawn or not self._log.has_rows:
            return
        # With several objectives, the level belongs to masked LM, not to the total.
        levels = [name.removesuffix(yardstick.ENDING) for name in self._levels]
        plots.save_curves(
            {self._name: self._folder.path},
            self._folder.curve_file,
            metrics=tuple(dict.fromkeys([plots.LOSS, *levels[:1]])),
        )
        self._is_drawn = True

    def close(self) -> None:
        """Closes files and the progress bar."""
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
        total = self._seconds_before + figures["elapsed_seconds"]
        figures = {**figures, "total_seconds": total}
        self._log.write(kind, updates, {**row, **figures})
        self._is_drawn = False
        scalars = {f"{kind}/{name}": value for name, value in row.items()}
        scalars |= {f"health/{name}": value for name, value in figures.items()}
        self._events.write(updates, scalars)
        trackers.send_row(self._sinks, updates, scalars)
        self._display.show(updates, {**shown, **throughput.console_values(figures)})


class RunLog:
    """`log.jsonl`, to which rows are appended under the number of updates made.

    Args:
        path: the file. An existing log is continued.
        updates: updates made when the run starts or resumes. Rows that a previous
            process wrote after them are dropped.
        validated: whether the validation after `updates` has been made.

    Attributes:
        has_rows: whether the log has any rows.
        validations: rows of validations.
    """

    def __init__(self, path: pathlib.Path, updates: int = 0, validated: bool = False):
        self.path = path
        self._previous = [
            row
            for row in read_log(path)
            if row["updates"] < updates
            or (row["updates"] == updates and (validated or row["kind"] == TRAIN))
        ]
        self.validations = [row for row in self._previous if row["kind"] == VALIDATION]
        self.has_rows = bool(self._previous)
        files.write_text(path, "".join(map(_to_line, self._previous)))

    def last(self, name: str) -> float | None:
        """Last value that a previous process logged under a name."""
        values = [row[name] for row in self._previous if name in row]
        return values[-1] if values else None

    def write(self, kind: str, updates: int, values: Mapping[str, Any]) -> None:
        row = {"kind": kind, "updates": updates, **values}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(_to_line(row))
            file.flush()
            # A checkpoint must not outlive the rows before it.
            os.fsync(file.fileno())
        self.has_rows = True
        if kind == VALIDATION:
            self.validations.append(row)


def _to_line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


class EventFile:
    """Writes scalars for TensorBoard to a new event file in `folder`.

    Unlike `tf.summary`, it tells TensorBoard to forget what a killed process wrote
    after the update from which this process continues.
    """

    def __init__(self, folder: pathlib.Path, updates: int = 0):
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files of a folder in the order of their names.
        self.path = folder / (
            f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        )
        self._writer = tf.io.TFRecordWriter(str(self.path))
        start = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
        self._write(
            _Event(file_version="brain.Event:2"),
            # TensorBoard drops what it has from this step on.
            _Event(step=updates + 1, session_log=start),
        )

    def write(self, updates: int, scalars: Mapping[str, float]) -> None:
        values = [
            tf.compat.v1.Summary.Value(tag=tag, simple_value=value)
            for tag, value in scalars.items()
        ]
        self._write(_Event(step=updates, summary=tf.compat.v1.Summary(value=values)))

    def close(self) -> None:
        self._writer.close()

    def _write(self, *events: Any) -> None:
        for event in events:
            event.wall_time = time.time()
            self._writer.write(event.SerializeToString())
        try:
            self._writer.flush()
        except tf.errors.OpError as error:
            raise OSError(f"{self.path}: {error.message}") from error
