"""Actions after each update: logging, checkpoints, stopping."""

from __future__ import annotations

import dataclasses
import math
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import keras

from seg_tf.config import TrainingConfig
from seg_tf.training.errors import Interrupted, NonFiniteLossError
from seg_tf.training.interrupts import StopRequest

if TYPE_CHECKING:
    from seg_tf.training.outputs.run_outputs import SilentOutputs
    from seg_tf.training.throughput import Throughput


@dataclasses.dataclass(frozen=True)
class Validation:
    """The last validation of a run.

    Attributes:
        updates: after how many updates it was; None if there was none.
        results: what was measured.
    """

    updates: int | None = None
    results: Mapping[str, float] | None = None


class Supervisor(keras.callbacks.Callback):
    """Does what is due after each update, in this order.

    1. at a log interval, read, reset and write the interval's metrics;
    2. at a checkpoint interval and at the end, write a checkpoint;
    3. if any process was asked to stop, write a checkpoint and stop.

    Every process of a run has one, and all do the same at the same update; only the
    chief's outputs write anything.

    Args:
        settings: the run's `TrainingConfig`.
        updates: updates done before.
        validation: the last one before.
        outputs: what is written.
        throughput: measures speed, time and memory for the log.
        stop_request: true once a signal has come to this process.
    """

    def __init__(
        self,
        settings: TrainingConfig,
        *,
        updates: int,
        validation: Validation,
        outputs: SilentOutputs,
        throughput: Throughput,
        stop_request: StopRequest,
    ):
        super().__init__()
        self.updates = updates
        self.validation = validation
        self._settings = settings
        self._outputs = outputs
        self._stop_request = stop_request
        self._throughput = throughput

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.updates += 1
        if self._reads_state():
            self.model.settle()
        self._outputs.advance(self.updates)
        self._throughput.update_done(self.updates, self._tokens)
        if self.updates % self._settings.log_interval == 0:
            self._write_interval()
        if self._is_due(self._settings.checkpoint_interval):
            self.save()
        self._stop_if_agreed()
        if self.updates >= self._settings.num_updates:
            self.model.stop_training = True

    def on_test_begin(self, logs: Any = None) -> None:
        self._throughput.stopwatch.pause()

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._stop_if_agreed()

    def on_test_end(self, logs: Any = None) -> None:
        self._throughput.stopwatch.go_on()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        if not self._settings.validation_interval:
            return
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
        self._check_finite(results)
        self.model.memory.collect(self.model.step_options.distribution)
        self.validation = Validation(self.updates, results)
        self._outputs.write_validation(
            self.updates, results, self._throughput.now(), self.model
        )

    def save(self) -> None:
        """Writes a checkpoint of now, unless there is one."""
        self._throughput.stopwatch.pause()
        self.model.memory.collect(self.model.step_options.distribution)
        self._outputs.save(self.model)
        self._throughput.stopwatch.go_on()

    def _reads_state(self) -> bool:
        """True if something is going to read what this update leaves.

        The same on all processes, but where a single one does as it was asked at once.
        """
        settings, model = self._settings, self.model
        intervals = (
            settings.log_interval,
            settings.checkpoint_interval,
            settings.validation_interval,
        )
        is_alone = model.step_options.distribution.size == 1
        return (
            not self._throughput.is_measuring
            or any(interval and self._is_due(interval) for interval in intervals)
            or (is_alone and bool(self._stop_request))
        )

    def _is_due(self, interval: int) -> bool:
        return (
            self.updates % interval == 0 or self.updates >= self._settings.num_updates
        )

    def _write_interval(self) -> None:
        row = {
            **self.model.interval_results(),
            "learning_rate": float(self.model.learning_rate.result()),
            "samples": self.model.samples,
            "tokens": int(self._tokens()),
            "padding_share": self.model.padding_share,
            "skipped_steps": int(self.model.totals["skipped_steps"].result()),
        }
        loss_scale = self.model.step_options.loss_scale
        if loss_scale.variables:
            row["loss_scale"] = float(loss_scale.value)
        self.model.reset_interval()
        self._outputs.write_interval(
            self.updates, row, self._throughput.interval(self.updates, row["tokens"])
        )

    def _tokens(self) -> float:
        return float(self.model.totals["tokens"].result())

    def _check_finite(self, results: Mapping[str, float]) -> None:
        bad = {
            name: value for name, value in results.items() if not math.isfinite(value)
        }
        if bad:
            raise NonFiniteLossError(
                f"The validation after update {self.updates:,} is not finite: {bad}"
            )

    def _stop_if_agreed(self) -> None:
        if not self.model.collective_flags.stop_agreed():
            return
        self.model.settle()
        self.save()
        self._outputs.draw_curve()
        # The launcher kills all once one has ended, so nobody may leave before the
        # chief has written its checkpoint and its curve.
        self.model.step_options.distribution.gather(None)
        # Another process may have got the signal.
        number = self._stop_request.signal_number or signal.SIGTERM
        raise Interrupted(
            f"Stopped by {signal.Signals(number).name} after update {self.updates:,} "
            f"of {self._settings.num_updates:,}. The state is in "
            f"{self._outputs.describe_checkpoint(self.updates)}; the same command "
            "goes on from there, if it has no --overwrite or --noresume",
            number,
        )
