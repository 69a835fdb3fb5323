"""Runs a task's trials, one per setting and seed, and keeps the results in a folder.

The folder contains `settings.json`, which applies to all trials, and `trials`, with a
folder for each finished trial: `trial.json` (setting, seed, scores and epoch logs), the
predictions and, on request, the model. Commands skip finished trials, and restart
interrupted trials from the beginning.
"""

import dataclasses
import itertools
import pathlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import keras
import numpy as np

from seg_tf import files
from seg_tf.config import differing_settings
from seg_tf.tasks.finetuning_settings import Setting
from seg_tf.training import trackers

TRIAL_FILE = "trial.json"
# Version of `settings.json` and `trial.json`.
VERSION = 3
# Prefix of dev scores in the epoch logs.
DEV = "dev_"
# Subfolder of a trial's folder.
MODEL_FOLDER = "model"
ADVICE = "A lower learning rate, or another dtype policy, may help"

Callbacks = Sequence[keras.callbacks.Callback]
# Scores on the dev split, and the logs of every epoch.
Result = tuple[dict[str, float], list[dict[str, float]]]


class TrainingDiverged(ValueError):
    """Raised if a model's outputs are not finite. Other trials may succeed."""


def check_finite(outputs: np.ndarray, described: str) -> None:
    """Raises `TrainingDiverged`, naming `described`, if any output is not finite."""
    if not np.isfinite(outputs).all():
        raise TrainingDiverged(
            f"Outputs for {described} are not finite: the training diverged. {ADVICE}"
        )


@dataclasses.dataclass(frozen=True)
class Trial:
    """A training run with one setting and one seed.

    `scores`, `epochs` (logs) and `folder` are its results, which comparisons ignore.
    """

    setting: Setting
    seed: int
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict, compare=False)
    epochs: Sequence[Mapping[str, float]] = dataclasses.field(default=(), compare=False)
    folder: pathlib.Path | None = dataclasses.field(default=None, compare=False)

    @property
    def name(self) -> str:
        """Name of the trial's folder."""
        setting = self.setting
        return (
            f"lr={setting.learning_rate}_batch={setting.batch_size}_"
            f"epochs={setting.epochs}_seed={self.seed}"
        )

    def __str__(self) -> str:
        return f"{self.setting}, seed {self.seed}"


class TaskRunner(Protocol):
    """Trains models for one task from one checkpoint.

    Files are read and texts are encoded once for all trials. `main_metric` names the
    score that ranks settings. `baselines` maps the names of simple predictors to their
    scores. `num_examples` is the number of training examples.
    """

    name: str
    main_metric: str
    baselines: Mapping[str, Mapping[str, float]]
    num_examples: int

    def describe(self) -> dict[str, Any]:
        """Returns JSON values that scores depend on, such as file checksums."""

    def run(
        self, trial: Trial, folder: pathlib.Path, callbacks: Callbacks = ()
    ) -> Result:
        """Trains a model, writes predictions to `folder`, and returns a `Result`.

        Raises `TrainingDiverged` if the model's outputs are not finite.
        """


class DevScores(keras.callbacks.Callback):
    """Callback that adds scores to the epoch logs, as `dev_<score>`, and prints them.

    `score` returns scores by name, such as F1, which require all predictions at once.
    """

    def __init__(self, score: Callable[[keras.Model], Mapping[str, float]]):
        super().__init__()
        self._score = score

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = {} if logs is None else logs
        for name, value in self._score(self.model).items():
            logs[DEV + name] = value
        values = "  ".join(f"{name} {value:.4f}" for name, value in logs.items())
        print(f"epoch {epoch + 1}/{self.params['epochs']}  {values}", file=sys.stderr)


def all_trials(settings: Iterable[Setting], seeds: Sequence[int]) -> list[Trial]:
    """Combines every setting with every seed, without duplicates."""
    pairs = itertools.product(settings, seeds)
    return list(dict.fromkeys(itertools.starmap(Trial, pairs)))


class TrialsFolder:
    """The folder that contains the trials of a task."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self._settings_file = path / "settings.json"
        self._trials = path / "trials"

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raises a ValueError if existing trials differ in settings or version."""
        if not self._settings_file.exists():
            return
        stored = self.settings()
        # Without a trial, such as after a divergence, settings may change.
        is_unused = "task" in stored and not any(self._trials.glob("*"))
        differences = differing_settings(stored, settings)
        if differences and not is_unused:
            raise ValueError(
                f"`--output_dir` holds other trials: {self.path}. They differ in "
                + "; ".join(differences)
                + ". Choose another --output_dir, or remove that folder"
            )

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Calls `check` and writes `settings.json`."""
        self.check(settings)
        self._trials.mkdir(parents=True, exist_ok=True)
        files.write_json(self._settings_file, {"version": VERSION, **settings})

    def settings(self) -> dict[str, Any]:
        """Reads the trials' settings. Raises a ValueError if their version differs."""
        settings = files.read_json(self._settings_file)
        version = settings.pop("version", 1)
        # Other programs may write files with this name.
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
        """Returns all finished trials, sorted by setting and seed."""
        trials = []
        for path in self._trials.glob(f"[!.]*/{TRIAL_FILE}"):
            content = files.read_json(path)
            setting = Setting(**content.pop("setting"))
            trials.append(Trial(setting, **content, folder=path.parent))
        return sorted(
            trials, key=lambda trial: (*dataclasses.astuple(trial.setting), trial.seed)
        )


def run_trials(
    runner: TaskRunner,
    folder: TrialsFolder,
    trials: Sequence[Trial],
    *,
    name: str | None = None,
    patience: int | None = None,
    factories: Iterable[trackers.CallbackFactory] = (),
) -> list[Trial]:
    """Runs trials one after another, and returns the trials that diverged.

    A trial's folder appears in `folder` when the trial is finished. Diverged trials
    have no folder. If `patience` is not None, training stops after `patience` epochs
    without a better main metric, and the best weights are restored. Messages contain
    `name`, by default the runner's. `factories` create callbacks for every trial.
    """
    diverged = []
    for number, trial in enumerate(trials, start=1):
        title = f"{name or runner.name}: trial {number}/{len(trials)}, {trial}"
        print(title, file=sys.stderr)
        callbacks: list[keras.callbacks.Callback] = []
        if patience is not None:
            callbacks.append(
                keras.callbacks.EarlyStopping(
                    monitor=DEV + runner.main_metric,
                    mode="max",
                    patience=patience,
                    restore_best_weights=True,
                )
            )
        path = folder.trial_folder(trial)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with files.written_aside(path) as unfinished:
                unfinished.mkdir()
                callbacks += trackers.make_callbacks(factories, unfinished)
                scores, epochs = runner.run(trial, unfinished, callbacks)
                content = {
                    "setting": dataclasses.asdict(trial.setting),
                    "seed": trial.seed,
                    "scores": scores,
                    "epochs": epochs,
                }
                files.write_json(unfinished / TRIAL_FILE, content)
            outcome = f"{scores[runner.main_metric]:.4f}"
        except TrainingDiverged:
            diverged.append(trial)
            outcome = "none: diverged"
        print(f"{title}: {runner.main_metric} {outcome}", file=sys.stderr)
    return diverged
