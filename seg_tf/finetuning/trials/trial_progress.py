"""Progress of trials on stderr: bars in a terminal, plain lines elsewhere."""

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import keras

from seg_tf.command_line import Progress, joined
from seg_tf.finetuning.classification.dev_scores import PREFIX
from seg_tf.finetuning.trials.trial import Setting
from seg_tf.finetuning.trials.trial_runs import Trial

# Between two lines of one epoch, where there are no bars.
_SECONDS_BETWEEN_LINES = 60
# More have no line each: those of probes are many, and short.
_MANY_EPOCHS = 50


class TrialsProgress:
    """A bar of all trials, in epochs, and one of the trial that runs, in updates.

    Elsewhere than in a terminal, a line an epoch and a line a trial.

    Args:
        name: that of the task.
        trials: those that will be run.
        main_metric: the score that is shown.
        stream: where to write; None takes stderr.
        probe: as for `describe_setting`.
    """

    def __init__(
        self,
        name: str,
        trials: Sequence[Trial],
        main_metric: str,
        stream: TextIO | None = None,
        probe: str | None = None,
    ):
        self._name = name
        self._trials = trials
        self._main_metric = main_metric
        self._stream = stream
        self._probe = probe
        # Epochs of the trials before each, then those of all.
        epochs = (trial.setting.epochs for trial in trials)
        self._epochs_before = list(itertools.accumulate(epochs, initial=0))
        self._last_line = time.monotonic()
        self._all = Progress(
            self._epochs_before[-1],
            stream=stream,
            desc=name,
            bar_format="{desc}, {n:.1f}/{total} epochs {percentage:3.0f}%|{bar}| "
            "[{elapsed}<{remaining}]{postfix}",
            smoothing=0,
        )

    def begin(self, number: int, trial: Trial) -> keras.callbacks.Callback:
        self._number = number
        self._trial = trial
        self._described = f"{self._name}: trial {number + 1}/{len(self._trials)}"
        self._all.bar.set_description_str(self._described)
        self._one = Progress(
            0,
            stream=self._stream,
            desc=f"  {describe(trial, self._probe)}",
            unit="update",
            leave=False,
            position=1,
        )
        return _Watch(self._show)

    def end(self, scores: Mapping[str, float] | None) -> None:
        # Early stopping may have left out epochs.
        epochs = self._epochs_before[self._number + 1]
        self._all.advance(epochs)
        self._one.close()
        outcome = "none: diverged"
        if scores is not None:
            outcome = f"{scores[self._main_metric]:.4f}"
        self._all.bar.set_postfix({f"last {self._main_metric}": outcome})
        self._line(
            f"{describe(self._trial, self._probe)}: {self._main_metric} {outcome}",
            epochs,
        )
        if self._number + 1 == len(self._trials):
            self._all.close()

    def _show(
        self, epochs: float, updates: int, total: int, logs: Mapping[str, Any]
    ) -> None:
        names = ("loss", PREFIX + self._main_metric)
        texts = {name: f"{float(logs[name]):.4f}" for name in names if name in logs}
        all_epochs = self._epochs_before[self._number] + epochs
        self._one.bar.total = total
        self._one.bar.set_postfix(texts, refresh=False)
        self._one.advance(updates)
        self._all.advance(all_epochs)
        num_epochs = self._trial.setting.epochs
        is_recent = time.monotonic() - self._last_line < _SECONDS_BETWEEN_LINES
        if (epochs.is_integer() and num_epochs <= _MANY_EPOCHS) or not is_recent:
            self._line(
                f"epoch {epochs:.3g}/{num_epochs}, update {updates:,}/{total:,}  "
                f"{joined(texts)}",
                all_epochs,
            )

    def _line(self, text: str, epochs: float) -> None:
        self._last_line = time.monotonic()
        self._all.line(f"{self._described}, {text}", epochs)


def describe(trial: Trial, probe: str | None = None) -> str:
    """A trial in few words; arguments as of `describe_setting`."""
    return f"{describe_setting(trial.setting, probe)}, seed {trial.seed}"


def describe_setting(setting: Setting, probe: str | None = None) -> str:
    """A setting in few words.

    Args:
        setting: what was trained with.
        probe: how texts were read for a probe, whose one setting is its protocol's;
            None for a fine-tuning.
    """
    if probe is not None:
        return f"probe, {probe}"
    epochs = "1 epoch" if setting.epochs == 1 else f"{setting.epochs} epochs"
    return f"lr {setting.learning_rate:g}, batch {setting.batch_size}, {epochs}"


class _Watch(keras.callbacks.Callback):
    """Tells how far a `fit` is.

    Args:
        show: is called after updates and epochs with the epochs done, a whole number
            when the last one has been scored too, the updates done, those in all and
            the logs.
    """

    def __init__(self, show: Any):
        super().__init__()
        self._tell = show
        self._epoch = 0

    def on_train_batch_end(
        self, batch: int, logs: Mapping[str, Any] | None = None
    ) -> None:
        # The last update does not end the epoch: the dev split comes after it.
        self._show(min(batch + 1, self._steps - 0.5), batch + 1, logs)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._show(self._steps, self._steps, logs)
        self._epoch = epoch + 1

    @property
    def _steps(self) -> int:
        return self.params["steps"]

    def _show(self, done: float, updates: int, logs: Mapping[str, Any] | None) -> None:
        self._tell(
            float(self._epoch + done / self._steps),
            self._epoch * self._steps + updates,
            self.params["epochs"] * self._steps,
            logs or {},
        )
