"""Trials of a task, one folder each, that continue where they were cut off."""

import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import keras

from seg_tf import files
from seg_tf.config import differing_settings
from seg_tf.finetuning.classification.dev_scores import PREFIX
from seg_tf.finetuning.trials.divergence import TrainingDiverged
from seg_tf.finetuning.trials.trial import Setting, TaskRunner
from seg_tf.training import trackers

SCORES_FILE = "scores.json"
EPOCHS_FILE = "epochs.json"


@dataclasses.dataclass(frozen=True)
class Trial:
    """One training: a setting and a seed."""

    setting: Setting
    seed: int

    @property
    def name(self) -> str:
        """Name of its folder: "learning_rate=3e-05,batch_size=16,epochs=3,…"."""
        values = {**dataclasses.asdict(self.setting), "seed": self.seed}
        return ",".join(f"{name}={value}" for name, value in values.items())


@dataclasses.dataclass(frozen=True)
class FinishedTrial:
    """Results of a finished trial.

    Attributes:
        trial: the trial.
        scores: of the model that it ended with.
        epochs: logs of each epoch.
        folder: with its predictions.
    """

    trial: Trial
    scores: Mapping[str, float]
    epochs: Sequence[Mapping[str, float]]
    folder: pathlib.Path


# From a trial and its folder to further callbacks, held open while it runs.
Watch = Callable[
    [Trial, pathlib.Path],
    contextlib.AbstractContextManager[Sequence[keras.callbacks.Callback]],
]


def unwatched(
    trial: Trial, folder: pathlib.Path
) -> contextlib.AbstractContextManager[Sequence[keras.callbacks.Callback]]:
    """No further callbacks."""
    return contextlib.nullcontext(())


class TrialsDisplay(Protocol):
    """Shows how far trials are."""

    def begin(self, number: int, trial: Trial) -> keras.callbacks.Callback:
        """Called before a trial with its number, from 0, for its callback."""

    def end(self, scores: Mapping[str, float] | None) -> None:
        """Called after it with its scores; None if it diverged."""


def all_trials(settings: Iterable[Setting], seeds: Sequence[int]) -> list[Trial]:
    """Every setting with every seed, those of a setting together; none twice."""
    trials = itertools.starmap(Trial, itertools.product(settings, seeds))
    return list(dict.fromkeys(trials))


class TrialsFolder:
    """The folder of a task's trials.

    In it are `settings.json`, what all its trials have in common, and `trials`, with a
    folder for each that is finished. One that is not has another name and starts anew.

    Args:
        path: the folder, which need not exist.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path
        self._settings_file = path / "settings.json"
        self._trials = path / "trials"

    def locked(self, is_chief: bool = True) -> contextlib.AbstractContextManager[None]:
        """Keeps a second command from working on the same trials.

        Args:
            is_chief: of several processes of one command, one holds the lock.

        Raises:
            ValueError: if another does so now.
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
        """Makes sure that trials there are, if any, were run with these settings.

        Raises:
            ValueError: if not, naming those that differ.
        """
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
        """As `check`, writes down the settings, and removes what was cut off."""
        self.check(settings)
        self._trials.mkdir(parents=True, exist_ok=True)
        files.remove_leftovers(self._trials)
        files.write_json(self._settings_file, dict(settings))

    def settings(self) -> Mapping[str, Any]:
        """Settings that the trials share.

        Raises:
            ValueError: if the folder holds no trials, or those of an earlier version.
        """
        if not self._settings_file.exists():
            raise ValueError(
                "A folder of trials must hold what `run_finetuning.py` wrote. Found no "
                f"{self._settings_file}"
            )
        settings = files.read_json(self._settings_file)
        if "randomly_initialised" in settings:
            raise ValueError(
                f"{self._settings_file}: written by an earlier version of the program. "
                "Rename `randomly_initialised` in it to `randomly_initialized`"
            )
        return settings

    def trial_folder(self, trial: Trial) -> pathlib.Path:
        return self._trials / trial.name

    def is_finished(self, trial: Trial) -> bool:
        return (self.trial_folder(trial) / SCORES_FILE).exists()

    def finished(self) -> list[FinishedTrial]:
        """All trials that are, in the order of their settings and seeds."""
        found = []
        for path in self._trials.glob(f"[!.]*/{SCORES_FILE}"):
            content = files.read_json(path)
            found.append(
                FinishedTrial(
                    Trial(Setting(**content["setting"]), content["seed"]),
                    content["scores"],
                    files.read_json(path.with_name(EPOCHS_FILE)),
                    path.parent,
                )
            )
        return sorted(
            found,
            key=lambda one: (*dataclasses.astuple(one.trial.setting), one.trial.seed),
        )

    def run(
        self,
        runner: TaskRunner,
        trial: Trial,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        watch: Watch = unwatched,
    ) -> dict[str, float]:
        """Runs a trial from its start; its folder has its name when it is finished.

        Args:
            runner: that of the task.
            trial: what to run.
            callbacks: for Keras's `fit`.
            watch: further ones, which are told of epochs and scores
                (`trackers.send_row`).

        Raises:
            TrainingDiverged: if it did; nothing is left of it.
        """
        self._trials.mkdir(parents=True, exist_ok=True)
        with files.written_aside(self.trial_folder(trial)) as unfinished:
            unfinished.mkdir()
            with watch(trial, unfinished) as watching:
                epochs = EpochLogs(watching)
                scores = runner.run(
                    trial.setting,
                    trial.seed,
                    unfinished,
                    [*callbacks, *watching, epochs],
                )
                trackers.send_row(
                    watching,
                    epochs.updates,
                    {f"final/{name}": value for name, value in scores.items()},
                )
            files.write_json(unfinished / EPOCHS_FILE, epochs.rows)
            files.write_json(
                unfinished / SCORES_FILE,
                {
                    "setting": dataclasses.asdict(trial.setting),
                    "seed": trial.seed,
                    "scores": scores,
                },
            )
        return scores


def run_trials(
    runner: TaskRunner,
    folder: TrialsFolder,
    trials: Sequence[Trial],
    display: TrialsDisplay,
    *,
    patience: int | None = None,
    watch: Watch = unwatched,
) -> list[Trial]:
    """Runs trials one after another; one that diverges does not keep others from it.

    Args:
        runner: that of the task.
        folder: where they go; it has to be prepared.
        trials: those to run, none of them finished.
        display: shows how far they are.
        patience: ends a trial after so many epochs without a better main metric, and
            goes back to the weights of the best epoch; None trains all epochs, and
            keeps the last weights.
        watch: as for `TrialsFolder.run`.

    Returns:
        Those that diverged, and have no scores.

    Raises:
        ValueError: if the runner does not score every epoch, which patience needs.
    """
    diverged = []
    for number, trial in enumerate(trials):
        callbacks = [display.begin(number, trial)]
        if patience is not None:
            callbacks.append(early_stopping(runner.main_metric, patience))
        try:
            scores = folder.run(runner, trial, callbacks, watch)
        except TrainingDiverged:
            scores = None
            diverged.append(trial)
        display.end(scores)
    return diverged


def early_stopping(main_metric: str, patience: int) -> keras.callbacks.EarlyStopping:
    """Stops when a metric no longer rises, with the weights of its first highest."""
    return _EarlyStopping(
        monitor=PREFIX + main_metric,
        mode="max",
        patience=patience,
        restore_best_weights=True,
    )


class _EarlyStopping(keras.callbacks.EarlyStopping):
    """Keras's, for which a metric that is not there is no mere warning."""

    def get_monitor_value(self, logs: Mapping[str, float] | None) -> float:
        if self.monitor not in (logs or {}):
            raise ValueError(
                f"`--early_stopping` needs {self.monitor} after every epoch, which "
                f"this task does not have. Received: {', '.join(logs or {})}"
            )
        return super().get_monitor_value(logs)


class EpochLogs(keras.callbacks.Callback):
    """Keeps the logs of every epoch.

    Args:
        listeners: callbacks that are told of them.

    Attributes:
        rows: an epoch each.
        updates: those done.
    """

    def __init__(self, listeners: Sequence[keras.callbacks.Callback] = ()):
        super().__init__()
        self.rows: list[dict[str, float]] = []
        self.updates = 0
        self._listeners = listeners

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        row = {name: float(value) for name, value in (logs or {}).items()}
        self.rows.append({"epoch": epoch + 1, **row})
        self.updates = (epoch + 1) * self.params["steps"]
        trackers.send_row(self._listeners, self.updates, self.rows[-1])
