"""What happens around the updates: logging, checkpoints, stopping."""

import math
import signal
import time
from collections.abc import Mapping
from typing import Any

import keras

from seg_tf import configuration
from seg_tf.training import run_log
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.errors import Interrupted, NonFiniteLossError
from seg_tf.training.event_file import EventFile
from seg_tf.training.interrupts import StopRequest
from seg_tf.training.progress import Progress
from seg_tf.training.run_log import RunLog


class Supervisor(keras.callbacks.Callback):
    """Counts updates and does what is due after each, in this order.

    1. at a log interval, read, reset and write the interval's metrics;
    2. at a checkpoint interval and at the end, write a checkpoint;
    3. if a signal came, write a checkpoint and stop.

    Nothing is read from the device in between.

    Args:
        settings: the run's `TrainingConfig`.
        updates: updates done before.
        checkpoints: where checkpoints go.
        log: the JSON-lines log.
        events: the TensorBoard log.
        display: shown progress.
        stop_request: true once a signal has come.
    """

    def __init__(
        self,
        settings: configuration.TrainingConfig,
        *,
        updates: int,
        checkpoints: Checkpoints,
        log: RunLog,
        events: EventFile,
        display: Progress,
        stop_request: StopRequest,
    ):
        super().__init__()
        self.updates = updates
        self.last_validation: dict[str, float] | None = None
        self._settings = settings
        self._checkpoints = checkpoints
        self._saved = updates in checkpoints.updates()
        self._log = log
        self._events = events
        self._display = display
        self._stop_request = stop_request
        self._stopwatch = _Stopwatch()

    @property
    def samples(self) -> int:
        """Samples of the input order consumed."""
        return self.updates * self._settings.batch_size

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.updates += 1
        self._saved = False
        self._display.advance(self.updates)
        if not self._stopwatch.running:
            # The first update of a process builds the graph; it is not counted.
            self._stopwatch.start(self._tokens_seen())
        if self.updates % self._settings.log_interval == 0:
            self._write_interval()
        if self._is_due(self._settings.checkpoint_interval):
            self.save()
        self._stop_if_asked()
        if self.updates >= self._settings.num_updates:
            self.model.stop_training = True

    def on_test_begin(self, logs: Any = None) -> None:
        self._stopwatch.pause()

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._stop_if_asked()

    def on_test_end(self, logs: Any = None) -> None:
        self._stopwatch.go_on()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        prefix = "val_"
        self.validated(
            {
                name.removeprefix(prefix): value
                for name, value in (logs or {}).items()
                if name.startswith(prefix)
            }
        )

    def validated(self, results: dict[str, float]) -> None:
        """Writes the results of a validation after the updates done so far."""
        self._check_finite(results, "The validation loss")
        self.last_validation = results
        # First the log, which a resume corrects, then the checkpoint it goes by.
        self._log.write(run_log.VALIDATION, self.updates, results)
        self._events.write(
            self.updates,
            {f"validation/{name}": value for name, value in results.items()},
        )
        self._display.show(self.updates, {"validation loss": results["loss"]})
        if self._saved:
            self._checkpoints.record_validation(self.updates, results)
        elif self._is_best(results["loss"]):
            self.save(results)

    def save(self, validation: Mapping[str, float] | None = None) -> None:
        """Writes a checkpoint of now, unless there is one."""
        if self._saved:
            return
        self._stopwatch.pause()
        self._check_finite(self.model.interval_results(), "The loss")
        self._checkpoints.save(
            self.model,
            updates=self.updates,
            samples=self.samples,
            validation=validation,
        )
        self._saved = True
        self._stopwatch.go_on()

    def close(self) -> None:
        self._events.close()
        self._display.close()

    def _is_due(self, interval: int) -> bool:
        return (
            self.updates % interval == 0 or self.updates >= self._settings.num_updates
        )

    def _is_best(self, loss: float) -> bool:
        best = self._checkpoints.best_loss()
        return best is None or loss < best

    def _write_interval(self) -> None:
        results = self.model.interval_results()
        self._check_finite(results, "The loss or gradient")
        row = {
            **results,
            "learning_rate": float(self.model.learning_rate.result()),
            "samples": self.samples,
            "tokens": int(self._tokens_seen()),
        }
        speed = self._stopwatch.lap(row["tokens"])
        if speed is not None:
            row["tokens_per_second"] = speed
        self.model.reset_interval()
        self._log.write(run_log.TRAIN, self.updates, row)
        self._events.write(
            self.updates, {f"train/{name}": value for name, value in row.items()}
        )
        shown = ("loss", "learning_rate", "tokens_per_second")
        self._display.show(
            self.updates,
            {name.replace("_", " "): row[name] for name in shown if name in row},
        )

    def _tokens_seen(self) -> float:
        return float(self.model.tokens_seen.result())

    def _check_finite(self, results: Mapping[str, float], what: str) -> None:
        bad = {
            name: value for name, value in results.items() if not math.isfinite(value)
        }
        if not bad:
            return
        raise NonFiniteLossError(
            f"{what} is not finite within the updates up to {self.updates}: {bad}. "
            f"{self._checkpoints.describe_newest()}. Lower "
            "--config.optimizer.learning_rate, lengthen "
            "--config.optimizer.warmup_updates or set --config.optimizer.clip_norm, in "
            "another --output_dir"
        )

    def _stop_if_asked(self) -> None:
        if not self._stop_request:
            return
        number = self._stop_request.signal_number
        self.save()
        raise Interrupted(
            f"Stopped by {signal.Signals(number).name} after update {self.updates:,} "
            f"of {self._settings.num_updates:,}. The state is in "
            f"{self._checkpoints.path(self.updates)}; the same command goes on from "
            "there",
            number,
        )


class _Stopwatch:
    """Tokens per second of training alone, validations and checkpoints left out."""

    def __init__(self):
        self._since: float | None = None
        self._tokens = 0.0
        self._seconds = 0.0
        self.running = False

    def start(self, tokens: float) -> None:
        self.running = True
        self._tokens = tokens
        self._seconds = 0.0
        self._since = time.perf_counter()

    def pause(self) -> None:
        if self._since is not None:
            self._seconds += time.perf_counter() - self._since
            self._since = None

    def go_on(self) -> None:
        if self.running and self._since is None:
            self._since = time.perf_counter()

    def lap(self, tokens: float) -> float | None:
        """Speed since the last lap; None if nothing was timed. Starts the next."""
        self.pause()
        seconds, counted = self._seconds, tokens - self._tokens
        self.start(tokens)
        return counted / seconds if counted > 0 and seconds > 0 else None
