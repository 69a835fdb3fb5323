"""How far trials are, on stderr: bars in a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import keras
from tqdm import tqdm

from seg_tf.finetuning.classification.dev_scores import PREFIX
from seg_tf.finetuning.trials.trial import Setting
from seg_tf.finetuning.trials.trial_runs import Trial, TrialsDisplay

# Between two lines of one epoch, where there are no bars.
_SECONDS_BETWEEN_LINES = 60
# More have no line each: those of probes are many, and short.
_MANY_EPOCHS = 50


def trials_display(
    name: str,
    trials: Sequence[Trial],
    main_metric: str,
    stream: TextIO | None = None,
    probe: str | None = None,
) -> TrialsDisplay:
    """The display that suits a stream.

    Args:
        name: that of the task.
        trials: those that will be run.
        main_metric: the score that is shown.
        stream: where to write; None takes stderr.
        probe: as for `describe_setting`.
    """
    stream = stream or sys.stderr
    kind = TrialBars if stream.isatty() else TrialLines
    return kind(name, trials, main_metric, stream, probe)


class _TrialsShown:
    """What both ways to show trials know of them."""

    def __init__(
        self,
        name: str,
        trials: Sequence[Trial],
        main_metric: str,
        stream: TextIO,
        probe: str | None = None,
    ):
        self._name = name
        self._trials = trials
        self._main_metric = main_metric
        self._stream = stream
        self._probe = probe
        self._num_epochs_before = _epochs_before(trials)


class TrialBars(_TrialsShown):
    """A bar of all trials, in epochs, and one of the trial that runs, in updates."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._all = tqdm(
            total=self._num_epochs_before[-1],
            desc=self._name,
            bar_format="{desc}, {n:.1f}/{total} epochs {percentage:3.0f}%|{bar}| "
            "[{elapsed}<{remaining}]{postfix}",
            file=self._stream,
            dynamic_ncols=True,
            smoothing=0,
        )
        self._trial_bar: tqdm | None = None

    def begin(self, number: int, trial: Trial) -> keras.callbacks.Callback:
        self._number = number
        self._all.set_description_str(
            f"{self._name}: trial {number + 1}/{len(self._trials)}"
        )
        self._trial_bar = tqdm(
            desc=f"  {describe(trial, self._probe)}",
            unit="update",
            file=self._stream,
            dynamic_ncols=True,
            leave=False,
            position=1,
        )
        return _Watch(self._show)

    def end(self, scores: Mapping[str, float] | None) -> None:
        # Early stopping may have left out epochs.
        self._show_epochs(self._num_epochs_before[self._number + 1])
        self._trial_bar.close()
        score = _outcome(scores, self._main_metric)
        self._all.set_postfix({f"last {self._main_metric}": score})
        if self._number + 1 == len(self._trials):
            self._all.close()

    def _show(
        self, epochs: float, updates: int, total: int, logs: Mapping[str, Any]
    ) -> None:
        self._trial_bar.total = total
        self._trial_bar.set_postfix(_shown(logs, self._main_metric), refresh=False)
        self._trial_bar.update(updates - self._trial_bar.n)
        self._show_epochs(self._num_epochs_before[self._number] + epochs)

    def _show_epochs(self, epochs: float) -> None:
        self._all.update(epochs - self._all.n)


class TrialLines(_TrialsShown):
    """A line an epoch, and a line a trial, for log files."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._start = self._last_line = time.monotonic()

    def begin(self, number: int, trial: Trial) -> keras.callbacks.Callback:
        self._number = number
        self._trial = trial
        return _Watch(self._show)

    def end(self, scores: Mapping[str, float] | None) -> None:
        self._print(
            f"{describe(self._trial, self._probe)}: {self._main_metric} "
            f"{_outcome(scores, self._main_metric)}",
            self._num_epochs_before[self._number + 1],
        )

    def _show(
        self, epochs: float, updates: int, total: int, logs: Mapping[str, Any]
    ) -> None:
        is_recent = time.monotonic() - self._last_line < _SECONDS_BETWEEN_LINES
        ends_epoch = epochs.is_integer() and self._trial.setting.epochs <= _MANY_EPOCHS
        if is_recent and not ends_epoch:
            return
        shown = "  ".join(
            f"{name} {text}" for name, text in _shown(logs, self._main_metric).items()
        )
        self._print(
            f"epoch {epochs:.3g}/{self._trial.setting.epochs}, update "
            f"{updates:,}/{total:,}  {shown}",
            self._num_epochs_before[self._number] + epochs,
        )

    def _print(self, text: str, epochs_done: float) -> None:
        self._last_line = time.monotonic()
        left = self._num_epochs_before[-1] - epochs_done
        seconds = (self._last_line - self._start) / epochs_done * left
        print(
            f"{self._name}: trial {self._number + 1}/{len(self._trials)}, {text}  "
            f"left {tqdm.format_interval(seconds)}",
            file=self._stream,
            flush=True,
        )


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
        # The last update does not end the epoch: the dev split comes behind it.
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


def _outcome(scores: Mapping[str, float] | None, main_metric: str) -> str:
    return "none: diverged" if scores is None else f"{scores[main_metric]:.4f}"


def _epochs_before(trials: Sequence[Trial]) -> list[int]:
    """Epochs of the trials before each, and behind that those of all."""
    before = [0]
    for trial in trials:
        before.append(before[-1] + trial.setting.epochs)
    return before


def _shown(logs: Mapping[str, Any], main_metric: str) -> dict[str, str]:
    names = ("loss", PREFIX + main_metric)
    return {name: f"{float(logs[name]):.4f}" for name in names if name in logs}
