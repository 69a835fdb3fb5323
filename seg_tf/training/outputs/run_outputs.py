"""Files that the chief process of a run writes while it trains."""

from collections.abc import Callable, Iterable, Mapping

import keras
from tqdm import tqdm

from seg_tf.command_line import Progress
from seg_tf.config import TrainingConfig
from seg_tf.training import throughput, yardstick
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.outputs import plots, run_callbacks, run_log
from seg_tf.training.outputs.event_file import EventFile
from seg_tf.training.outputs.run_log import RunLog
from seg_tf.training.pretrainer import Pretrainer
from seg_tf.training.run_folder import RunFolder


class SilentOutputs:
    """Outputs of a process that writes nothing."""

    def advance(self, updates: int) -> None:
        """An update was made."""

    def write_interval(
        self, updates: int, row: Mapping[str, float], figures: Mapping[str, float]
    ) -> None:
        """A log interval ended with these results and figures of health."""

    def write_validation(
        self,
        updates: int,
        results: Mapping[str, float],
        figures: Mapping[str, float],
        pretrainer: Pretrainer,
    ) -> None:
        """A validation after so many updates ended with these results and figures."""

    def save(self, pretrainer: Pretrainer) -> None:
        """Writes a checkpoint of now, unless there is one."""

    def describe_checkpoint(self, updates: int) -> str:
        """Location of the checkpoint of so many updates, as part of a message."""
        return "the checkpoint that the first process wrote"

    def draw_curve(self) -> None:
        """Draws the losses logged so far, unless that was done or there are none."""

    def close(self) -> None:
        """Ends whatever was begun."""


class Outputs(SilentOutputs):
    """Checkpoints, log, loss curve, TensorBoard events and the display of progress.

    Args:
        folder: output folder of the run.
        checkpoints: those in it.
        settings: the run's `TrainingConfig`.
        updates: updates done before. What a previous process logged after them is
            dropped, since it will be written again.
        validated: whether the validation after `updates` is done too.
        name: name of the run in the legend of its curve.
        callbacks: those of the run, some of which take rows of the log.
        measure_levels: `yardstick.losses_without_context` of the run, called unless
            the log has its values.
        report: called with the lines of `yardstick.plateau_message`.
    """

    def __init__(
        self,
        folder: RunFolder,
        checkpoints: Checkpoints,
        settings: TrainingConfig,
        updates: int,
        validated: bool,
        name: str,
        callbacks: Iterable[keras.callbacks.Callback] = (),
        measure_levels: Callable[[], Mapping[str, float]] = dict,
        report: Callable[[str], None] = print,
    ):
        self._folder = folder
        self._name = name
        self._callbacks = list(callbacks)
        self._is_drawn = False
        self._checkpoints = checkpoints
        self._saved = updates if updates in checkpoints.updates() else None
        self._log = RunLog(folder.log_file, updates, validated)
        # Records of a bucket would be fetched again to measure them.
        self._levels = {
            name: value
            for row in self._log.validations[-1:]
            for name, value in row.items()
            if name.endswith(yardstick.ENDING)
        } or measure_levels()
        self._num_updates = settings.num_updates
        self._report = report
        self._events = EventFile(folder.events_folder, updates)
        self._display = Progress(
            settings.num_updates, updates, unit="update", smoothing=0.05
        )
        self._seconds_before = self._log.last_kept("total_seconds") or 0.0

    def advance(self, updates: int) -> None:
        self._display.advance(updates)

    def write_interval(
        self, updates: int, row: Mapping[str, float], figures: Mapping[str, float]
    ) -> None:
        figures = self._with_total(figures)
        self._write(run_log.TRAIN, updates, row, figures)
        values = {"loss": row["loss"], "lr": f"{row['learning_rate']:.2e}"}
        self._display.show(updates, {**values, **throughput.console_values(figures)})

    def write_validation(
        self,
        updates: int,
        results: Mapping[str, float],
        figures: Mapping[str, float],
        pretrainer: Pretrainer,
    ) -> None:
        figures = self._with_total(figures)
        # First the log, which a resume corrects, then the checkpoint it goes by.
        self._write(run_log.VALIDATION, updates, {**results, **self._levels}, figures)
        values = {"validation loss": results["loss"]}
        self._display.show(updates, {**values, **throughput.console_values(figures)})
        message = yardstick.plateau_message(self._log.validations, self._num_updates)
        if message:
            with tqdm.external_write_mode():
                self._report(message)
        if self._saved == updates:
            self._checkpoints.record_validation(updates, results)
        elif self._is_best(results["loss"]):
            self.save(pretrainer, results)

    def save(
        self, pretrainer: Pretrainer, validation: Mapping[str, float] | None = None
    ) -> None:
        updates = pretrainer.updates
        if self._saved == updates:
            return
        self._checkpoints.save(
            pretrainer,
            updates=updates,
            samples=pretrainer.samples,
            validation=validation,
        )
        self._saved = updates

    def describe_checkpoint(self, updates: int) -> str:
        return str(self._checkpoints.path(updates))

    def draw_curve(self) -> None:
        if self._is_drawn or not self._log.has_rows:
            return
        # With several objectives the level is that of masked LM, not of the total.
        levels = [name.removesuffix(yardstick.ENDING) for name in self._levels]
        plots.save_curves(
            {self._name: self._folder.path},
            self._folder.curve_file,
            metrics=tuple(dict.fromkeys([plots.LOSS, *levels[:1]])),
        )
        self._is_drawn = True

    def close(self) -> None:
        self._events.close()
        self._display.close()

    def _with_total(self, figures: Mapping[str, float]) -> dict[str, float]:
        total = self._seconds_before + figures["elapsed_seconds"]
        return {**figures, "total_seconds": total}

    def _write(
        self,
        kind: str,
        updates: int,
        row: Mapping[str, float],
        figures: Mapping[str, float],
    ) -> None:
        self._log.write(kind, updates, {**row, **figures})
        self._is_drawn = False
        scalars = {f"{kind}/{name}": value for name, value in row.items()}
        scalars |= {f"health/{name}": value for name, value in figures.items()}
        self._events.write(updates, scalars)
        run_callbacks.tell(self._callbacks, updates, scalars)

    def _is_best(self, loss: float) -> bool:
        best = self._checkpoints.best_loss()
        return best is None or loss < best
