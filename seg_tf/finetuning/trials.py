"""Trials: trainings of a task with settings × seeds, in one folder.

The folder holds `settings.json`, common to all trials, and `trials`, with a folder for
each finished trial: `trial.json` (setting, seed, scores, logs of the epochs), its
predictions and, on request, its model. An interrupted trial starts from the beginning.
"""

import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TextIO

import keras
import numpy as np

from seg_tf import files
from seg_tf.command_line import Progress, joined
from seg_tf.config import differing_settings
from seg_tf.training import trackers

TRIAL_FILE = "trial.json"
# Of `settings.json` and `trial.json`.
VERSION = 2
# Before the names of scores in the logs of an epoch.
DEV = "dev_"
# In the folder of a trial.
MODEL_FOLDER = "model"
LEADERBOARD_FOLDER = "leaderboard"
ADVICE = "A lower learning rate, or another dtype policy, may help"


class TrainingDiverged(ValueError):
    """A training whose outputs are not finite; other trials may succeed."""


def check_finite(are_finite: np.ndarray, described: str) -> None:
    """Raises `TrainingDiverged` unless the outputs for all examples are finite."""
    num_wrong = int((~are_finite).sum())
    if num_wrong:
        raise TrainingDiverged(
            f"The outputs for {num_wrong:,} of {len(are_finite):,} {described}, are "
            f"not finite: the training diverged. {ADVICE}"
        )


@dataclasses.dataclass(frozen=True)
class Setting:
    """Hyperparameters that papers vary."""

    learning_rate: float
    batch_size: int
    epochs: int
    probe: str | None = None

    def __str__(self) -> str:
        if self.probe is not None:
            return f"probe, {self.probe}"
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        return f"lr {self.learning_rate:g}, batch {self.batch_size}, {epochs}"


@dataclasses.dataclass(frozen=True)
class Trial:
    """A setting and a seed and, once it is finished, the results of the training."""

    setting: Setting
    seed: int
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict, compare=False)
    epochs: Sequence[Mapping[str, float]] = dataclasses.field(default=(), compare=False)
    folder: pathlib.Path | None = dataclasses.field(default=None, compare=False)

    @property
    def name(self) -> str:
        """Name of its folder."""
        setting = self.setting
        return (
            f"lr={setting.learning_rate}_batch={setting.batch_size}_"
            f"epochs={setting.epochs}_seed={self.seed}"
        )

    def __str__(self) -> str:
        return f"{self.setting}, seed {self.seed}"


class TaskRunner(Protocol):
    """Trains models of one task, from one checkpoint.

    The constructor reads files and encodes texts once, for all trials.

    Attributes:
        name: name of the task, as in "glue/mrpc".
        main_metric: the score that ranks settings.
        baseline: scores without a model.
        baseline_name: name of the baseline, as in "most frequent label".
        in_percent: whether scores are percentages; otherwise they are shares.
        num_examples: number of training examples.
    """

    name: str
    main_metric: str
    baseline: Mapping[str, float]
    baseline_name: str
    in_percent: bool
    num_examples: int

    def describe(self) -> dict[str, Any]:
        """JSON-able values that scores depend on, above all checksums of files."""

    def run(
        self,
        setting: Setting,
        seed: int,
        folder: pathlib.Path,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> dict[str, float]:
        """Trains one model and returns its scores on the dev split.

        Raises:
            TrainingDiverged: if the model's outputs are not finite.
        """


class DevScores(keras.callbacks.Callback):
    """Adds scores to the logs of every epoch, as `dev_<score>`.

    Metrics such as F1 need all predictions together.
    """

    def __init__(self, score: Callable[[keras.Model], Mapping[str, float]]):
        super().__init__()
        self._score = score

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        scores = self._score(self.model)
        if logs is not None:
            logs.update({DEV + name: value for name, value in scores.items()})


def all_trials(settings: Iterable[Setting], seeds: Sequence[int]) -> list[Trial]:
    """Every setting with every seed, without repetitions."""
    pairs = itertools.product(settings, seeds)
    return list(dict.fromkeys(itertools.starmap(Trial, pairs)))


class TrialsFolder:
    """The folder of a task's trials."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self._settings_file = path / "settings.json"
        self._trials = path / "trials"

    def locked(self, is_chief: bool = True) -> contextlib.AbstractContextManager[None]:
        """Keeps a second command from working on the same trials.

        Raises:
            ValueError: if another command holds it.
        """
        if not is_chief:
            return contextlib.nullcontext()
        self.path.mkdir(parents=True, exist_ok=True)
        return files.locked(
            self.path,
            ValueError(
                f"`--output_dir` must not be in use. Received: {self.path}, into which "
                "another process fine-tunes now"
            ),
        )

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raises a ValueError if existing trials were run with other settings."""
        if not self._settings_file.exists():
            return
        differences = differing_settings(self.settings(), settings)
        if differences:
            raise ValueError(
                f"`--output_dir` holds other trials: {self.path}. They differ in "
                + "; ".join(differences)
                + ". Choose another --output_dir, or remove that folder"
            )

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Checks and writes the settings, and removes interrupted trials."""
        self.check(settings)
        self._trials.mkdir(parents=True, exist_ok=True)
        files.remove_leftovers(self._trials)
        files.write_json(self._settings_file, {"version": VERSION, **settings})

    def settings(self) -> dict[str, Any]:
        """Settings that the trials share.

        Raises:
            ValueError: if the folder holds no trials, or those of another version.
        """
        if not self._settings_file.exists():
            raise ValueError(
                "A folder of trials must be the --output_dir of `seg-tf finetune`. "
                f"Found no {self._settings_file}"
            )
        settings = files.read_json(self._settings_file)
        version = settings.pop("version", 1)
        # Other programs may have files of this name.
        if "task" in settings and version != VERSION:
            raise ValueError(
                f"{self._settings_file}: `version` must be {VERSION}. Received: "
                f"{version}, of another version of seg_tf. Run the trials again in a "
                "new folder"
            )
        return settings

    def trial_folder(self, trial: Trial) -> pathlib.Path:
        return self._trials / trial.name

    def is_finished(self, trial: Trial) -> bool:
        return (self.trial_folder(trial) / TRIAL_FILE).exists()

    def finished(self) -> list[Trial]:
        """All finished trials, in the order of their settings and seeds."""
        trials = []
        for path in self._trials.glob(f"[!.]*/{TRIAL_FILE}"):
            content = files.read_json(path)
            setting = Setting(**content.pop("setting"))
            trials.append(Trial(setting, **content, folder=path.parent))

        def order(trial: Trial) -> tuple[Any, ...]:
            return (*dataclasses.astuple(trial.setting)[:3], trial.seed)

        return sorted(trials, key=order)

    def run(
        self,
        runner: TaskRunner,
        trial: Trial,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        factories: Iterable[trackers.CallbackFactory] = (),
        chosen_trackers: Mapping[str, str] | None = None,
    ) -> dict[str, float]:
        """Runs a trial. Its folder appears when it is finished.

        Raises:
            TrainingDiverged: if it diverged; nothing is written.
        """
        self._trials.mkdir(parents=True, exist_ok=True)
        with files.written_aside(self.trial_folder(trial)) as unfinished:
            unfinished.mkdir()
            with contextlib.ExitStack() as stack:
                added = trackers.make_callbacks(factories, unfinished)
                started = []
                title = self.path.absolute().name
                for name, project in (chosen_trackers or {}).items():
                    parameters = {
                        **dataclasses.asdict(trial.setting),
                        **self.settings(),
                        "seed": trial.seed,
                    }
                    run = trackers.TrackedRun(
                        name=f"{title}: {trial}",
                        group=title,
                        parameters=parameters,
                        id_file=self.path / "trackers" / f"{trial.name}.json",
                    )
                    started.append(trackers.Tracker(name, project, run))
                    stack.push(started[-1].close)
                sinks = [*added, *started]
                epochs = _EpochLogs(sinks)
                scores = runner.run(
                    trial.setting,
                    trial.seed,
                    unfinished,
                    [*callbacks, *added, epochs],
                )
                trackers.send_row(
                    sinks,
                    epochs.updates,
                    {f"final/{name}": value for name, value in scores.items()},
                )
            files.write_json(
                unfinished / TRIAL_FILE,
                {
                    "setting": dataclasses.asdict(trial.setting),
                    "seed": trial.seed,
                    "scores": scores,
                    "epochs": epochs.rows,
                },
            )
        return scores


def run_trials(
    runner: TaskRunner,
    folder: TrialsFolder,
    trials: Sequence[Trial],
    *,
    name: str | None = None,
    patience: int | None = None,
    factories: Iterable[trackers.CallbackFactory] = (),
    chosen_trackers: Mapping[str, str] | None = None,
    stream: TextIO | None = None,
) -> list[Trial]:
    """Runs trials one after another, and continues after those that diverge.

    Returns:
        Trials that diverged, and have no scores.

    Raises:
        ValueError: if the runner does not score every epoch, which patience needs.
    """
    diverged = []
    progress = _Progress(name or runner.name, trials, runner.main_metric, stream)
    for trial in trials:
        progress.start(trial)
        callbacks: list[keras.callbacks.Callback] = [progress]
        if patience is not None:
            callbacks.append(
                _EarlyStopping(
                    monitor=DEV + runner.main_metric,
                    mode="max",
                    patience=patience,
                    restore_best_weights=True,
                )
            )
        scores = None
        try:
            scores = folder.run(runner, trial, callbacks, factories, chosen_trackers)
        except TrainingDiverged:
            diverged.append(trial)
        progress.finish(scores)
    progress.close()
    return diverged


class _EarlyStopping(keras.callbacks.EarlyStopping):
    """Keras's, for which a missing metric is an error."""

    def get_monitor_value(self, logs: Mapping[str, float] | None) -> float:
        if self.monitor not in (logs or {}):
            raise ValueError(
                f"`--early_stopping` needs {self.monitor} after every epoch, which "
                f"this task does not have. Received: {', '.join(logs or {})}"
            )
        return super().get_monitor_value(logs)


class _EpochLogs(keras.callbacks.Callback):
    """Collects the logs of every epoch and sends them to trackers and callbacks."""

    def __init__(self, sinks: Sequence[Any]):
        super().__init__()
        self.rows: list[dict[str, float]] = []
        self.updates = 0
        self._sinks = sinks

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        row = {name: float(value) for name, value in (logs or {}).items()}
        self.rows.append({"epoch": epoch + 1, **row})
        self.updates = (epoch + 1) * self.params["steps"]
        trackers.send_row(self._sinks, self.updates, self.rows[-1])


class _Progress(keras.callbacks.Callback):
    """A bar of all epochs of all trials; without a terminal, a line for each."""

    # Probes have more, and shorter ones, without a line for each.
    max_epochs_with_lines = 50

    def __init__(
        self,
        name: str,
        trials: Sequence[Trial],
        main_metric: str,
        stream: TextIO | None,
    ):
        super().__init__()
        self._name = name
        self._main_metric = main_metric
        self._num_trials, self._number = len(trials), 0
        self._epochs_before = self._num_epochs = self._epoch = 0
        self._progress = Progress(
            sum(trial.setting.epochs for trial in trials),
            stream=stream,
            desc=name,
            bar_format="{desc}, {n:.1f}/{total} epochs {percentage:3.0f}%|{bar}| "
            "[{elapsed}<{remaining}]{postfix}",
            smoothing=0,
        )

    def start(self, trial: Trial) -> None:
        self._trial = trial
        self._number += 1
        # Early stopping may have skipped epochs of the previous trial.
        self._epochs_before += self._num_epochs
        self._num_epochs, self._epoch = trial.setting.epochs, 0
        self._title = f"{self._name}: trial {self._number}/{self._num_trials}"
        self._progress.bar.set_description_str(f"{self._title}, {trial}")

    def finish(self, scores: Mapping[str, float] | None) -> None:
        outcome = "none: diverged"
        if scores is not None:
            outcome = f"{scores[self._main_metric]:.4f}"
        self._show(
            self._num_epochs,
            {f"last {self._main_metric}": outcome},
            f"{self._trial}: {self._main_metric} {outcome}",
        )
        self._progress.bar.refresh()

    def close(self) -> None:
        self._progress.close()

    def on_train_batch_end(
        self, batch: int, logs: Mapping[str, Any] | None = None
    ) -> None:
        # The last update does not end the epoch: the dev split follows.
        steps = self.params["steps"]
        self._show(
            self._epoch + min(batch + 1, steps - 0.5) / steps, self._texts(logs or {})
        )

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._epoch = epoch + 1
        texts = self._texts(logs or {})
        line = f"epoch {self._epoch}/{self._num_epochs}  {joined(texts)}"
        has_line = self._num_epochs <= self.max_epochs_with_lines
        self._show(self._epoch, texts, line if has_line else None)

    def _texts(self, logs: Mapping[str, Any]) -> dict[str, str]:
        names = ("loss", DEV + self._main_metric)
        return {name: f"{float(logs[name]):.4f}" for name in names if name in logs}

    def _show(
        self, epochs: float, texts: Mapping[str, str], line: str | None = None
    ) -> None:
        self._progress.bar.set_postfix(texts, refresh=False)
        self._progress.advance(self._epochs_before + epochs)
        if line:
            done = self._epochs_before + epochs
            self._progress.line(f"{self._title}, {line}", done)
