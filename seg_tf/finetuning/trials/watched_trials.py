"""Callbacks of one's own, and experiment trackers, for every trial of a task."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras

from seg_tf.finetuning.trials.trial_progress import describe
from seg_tf.finetuning.trials.trial_runs import Trial, TrialsFolder, Watch
from seg_tf.training import trackers

_TRACKERS_FOLDER = "trackers"


def watched_trials(
    folder: TrialsFolder,
    settings: Mapping[str, Any],
    factories: Iterable[trackers.CallbackFactory],
    chosen_trackers: Mapping[str, str],
) -> Watch:
    """Makes the callbacks of each trial, which trackers show as a run.

    Args:
        folder: of the task's trials.
        settings: those that all trials share.
        factories: called with a trial's folder.
        chosen_trackers: project or experiment by tracker.
    """

    @contextlib.contextmanager
    def watch(
        trial: Trial, trial_folder: pathlib.Path
    ) -> Iterator[list[keras.callbacks.Callback]]:
        title = folder.path.absolute().name
        run = trackers.TrackedRun(
            name=f"{title}: {describe(trial, settings.get('probe'))}",
            group=title,
            parameters={
                **settings,
                **dataclasses.asdict(trial.setting),
                "seed": trial.seed,
            },
            id_file=folder.path / _TRACKERS_FOLDER / f"{trial.name}.json",
        )
        with contextlib.ExitStack() as stack:
            watching = trackers.make_callbacks(factories, trial_folder)
            for name, project in chosen_trackers.items():
                tracker = trackers.Tracker(name, project, run)
                stack.push(tracker.close)
                watching.append(tracker)
            yield watching

    return watch
