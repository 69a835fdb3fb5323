"""What a run writes while it trains; only the chief of its processes does."""

from collections.abc import Mapping

from seg_tf import configuration
from seg_tf.training import run_log
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.event_file import EventFile
from seg_tf.training.pretrainer import Pretrainer
from seg_tf.training.progress import progress
from seg_tf.training.run_folder import RunFolder
from seg_tf.training.run_log import RunLog


class SilentOutputs:
    """Those of a process that writes nothing."""

    def advance(self, updates: int) -> None:
        """An update was made."""

    def write_interval(self, updates: int, row: Mapping[str, float]) -> None:
        """A log interval ended with these results."""

    def write_validation(
        self, updates: int, results: Mapping[str, float], pretrainer: Pretrainer
    ) -> None:
        """A validation after so many updates ended with these results."""

    def save(self, pretrainer: Pretrainer) -> None:
        """Writes a checkpoint of now, unless there is one."""

    def describe_checkpoint(self, updates: int) -> str:
        """Where the checkpoint of so many updates is, as part of a message."""
        return "the checkpoint that the first process wrote"

    def close(self) -> None:
        """Ends whatever was begun."""


class Outputs(SilentOutputs):
    """Checkpoints, log, TensorBoard events and the display of progress.

    Args:
        folder: output folder of the run.
        checkpoints: those in it.
        settings: the run's `TrainingConfig`.
        updates: updates done before. What a previous process logged after them is
            dropped, since it will be written again.
        validated: whether the validation after `updates` is done too.
    """

    def __init__(
        self,
        folder: RunFolder,
        checkpoints: Checkpoints,
        settings: configuration.TrainingConfig,
        updates: int,
        validated: bool,
    ):
        self._checkpoints = checkpoints
        self._saved = updates if updates in checkpoints.updates() else None
        self._log = RunLog(folder.log_file, updates, validated)
        self._events = EventFile(folder.events_folder, updates)
        self._display = progress(settings.num_updates, updates)

    def advance(self, updates: int) -> None:
        self._display.advance(updates)

    def write_interval(self, updates: int, row: Mapping[str, float]) -> None:
        self._log.write(run_log.TRAIN, updates, row)
        self._events.write(
            updates, {f"train/{name}": value for name, value in row.items()}
        )
        shown = ("loss", "learning_rate", "tokens_per_second")
        self._display.show(
            updates,
            {name.replace("_", " "): row[name] for name in shown if name in row},
        )

    def write_validation(
        self, updates: int, results: Mapping[str, float], pretrainer: Pretrainer
    ) -> None:
        # First the log, which a resume corrects, then the checkpoint it goes by.
        self._log.write(run_log.VALIDATION, updates, results)
        self._events.write(
            updates, {f"validation/{name}": value for name, value in results.items()}
        )
        self._display.show(updates, {"validation loss": results["loss"]})
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

    def close(self) -> None:
        self._events.close()
        self._display.close()

    def _is_best(self, loss: float) -> bool:
        best = self._checkpoints.best_loss()
        return best is None or loss < best
