"""Results below folders: trials, perplexities, logs, configs and submissions."""

import dataclasses
import os
import pathlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from seg_tf import configuration, files, tasks
from seg_tf.checkpoints import contents, folders, pretrained
from seg_tf.fidelity.comparison import read_setting
from seg_tf.finetuning.trials import results as trial_results
from seg_tf.finetuning.trials.trial_runs import FinishedTrial, TrialsFolder
from seg_tf.paper_tables.table import (
    Average,
    BestSetting,
    ConfigValue,
    Figure,
    FineTuned,
    Perplexity,
    Row,
    Submitted,
    Validated,
)
from seg_tf.tasks import finetuning_settings
from seg_tf.tasks.finetuning_settings import Recipe
from seg_tf.training.outputs import run_log

LEADERBOARD_FILE = "leaderboard.json"
PERPLEXITY_FILE = "perplexity.json"
# Folders that hold nothing of the above.
_PRUNED = ("checkpoints", "trials", "tensorboard", "records")
# Choose among trials where the task's own main metric has another name in them.
_MAIN_METRICS = {
    "glue/mnli": "matched_accuracy",
    "squad/v1.1": "f1",
    "squad/v2.0": "f1",
}


class Caveat(NamedTuple):
    """A difference from the paper, and the task or file that has it, if one does."""

    text: str
    of: str = ""

    def __str__(self) -> str:
        return f"{self.of}: {self.text}" if self.of else self.text


@dataclasses.dataclass(frozen=True)
class Found:
    """A figure of a run.

    Attributes:
        value: the figure; None where it was not run.
        deviations: how it differs from the paper's.
    """

    value: float | None = None
    deviations: tuple[Caveat, ...] = ()


class Results:
    """Everything below some folders that belongs into a table.

    Trials belong to the run whose name their `settings.json` holds. `perplexity.json`
    is the `--output` of `evaluate_perplexity`, and `leaderboard.json` is written by
    hand: `{"segabert_base": {"CoLA": {"matthews": 50.7}, …}}`, in percent.

    Args:
        paths: the folders.

    Raises:
        ValueError: if one is missing, or two hold the same trials, perplexity, run or
            submission.
    """

    def __init__(self, paths: Sequence[pathlib.Path]):
        self._trials: dict[tuple[str, str], TrialsFolder] = {}
        self._perplexities: dict[str, tuple[pathlib.Path, Mapping[str, Any]]] = {}
        self._runs: dict[str, pathlib.Path] = {}
        self._configs: dict[str, configuration.RunConfig] = {}
        self._submissions: dict[
            str, tuple[pathlib.Path, Mapping[str, Mapping[str, float]]]
        ] = {}
        for path in paths:
            if not path.is_dir():
                raise ValueError(f"`runs` must be folders. Received: {path}")
            for file in _files_below(path):
                self._take(file)

    def _take(self, file: pathlib.Path) -> None:
        if file.name == "settings.json":
            folder = TrialsFolder(file.parent)
            settings = folder.settings()
            if "task" in settings and not _is_aside(settings):
                key = (settings["run"], settings["task"])
                _put(self._trials, key, folder, lambda one: one.path)
        elif file.name == PERPLEXITY_FILE:
            result = files.read_json(file)
            _put(self._perplexities, result["run"], (file, result), lambda one: one[0])
        elif file.name == "log.jsonl":
            checkpoint = folders.find_checkpoint(file.parent)
            config = pretrained.read_config(checkpoint, contents.read_state(checkpoint))
            _put(self._runs, config.name, file.parent, lambda one: one)
            self._configs[config.name] = config
        elif file.name == LEADERBOARD_FILE:
            for run, scores in files.read_json(file).items():
                _put(self._submissions, run, (file, scores), lambda one: one[0])

    @property
    def runs(self) -> tuple[str, ...]:
        """Names of all runs of which there is anything."""
        names = [run for run, _ in self._trials]
        names += [*self._perplexities, *self._runs, *self._submissions]
        return tuple(sorted(set(names)))

    def figures(
        self, row: Row, columns: Mapping[str, Figure], recipe: str
    ) -> dict[str, Found]:
        """The figures of a row by the names of the columns."""
        found = {
            name: self._figure(row, figure, recipe)
            for name, figure in columns.items()
            if not isinstance(figure, Average)
        }
        for name, figure in columns.items():
            if isinstance(figure, Average):
                values = {one: found[one].value for one in figure.columns}
                complete = {k: v for k, v in values.items() if v is not None}
                is_complete = len(complete) == len(values)
                found[name] = Found(figure.mean(complete) if is_complete else None)
        return {name: found[name] for name in columns}

    def _figure(self, row: Row, figure: Figure, recipe: str) -> Found:
        match figure:
            case FineTuned():
                return self._fine_tuned(row.run, figure, recipe)
            case BestSetting():
                return self._best_setting(row, figure, recipe)
            case Submitted():
                _, scores = self._submissions.get(row.run, (None, {}))
                return Found(scores.get(figure.column, {}).get(figure.metric))
            case Perplexity():
                return self._perplexity(row.run)
            case Validated():
                return self._validated(row.run, figure.metric)
            case ConfigValue():
                if row.run not in self._configs:
                    return Found()
                return Found(read_setting(self._configs[row.run], figure.path))
        raise TypeError(f"`figure` must be one of a table. Received: {figure!r}")

    def _fine_tuned(self, run: str, figure: FineTuned, recipe: str) -> Found:
        values, deviations = [], []
        for task in figure.tasks:
            folder = self._trials.get((run, task))
            trials = folder.finished() if folder else []
            if not folder or not trials:
                return Found()
            of_paper = _recipe(recipe, task)
            chosen = _chosen(trials, of_paper, task)
            missing = [one for one in chosen if figure.metric not in one.scores]
            if missing:
                lacking = Caveat(f"no {figure.metric} in {folder.path}", task)
                return Found(None, (lacking,))
            value = statistics.fmean(one.scores[figure.metric] for one in chosen)
            values.append(value if task.startswith("squad/") else 100 * value)
            deviations += [
                Caveat(text, task)
                for text in _deviations(folder.settings(), trials, of_paper)
            ]
        return Found(statistics.fmean(values), tuple(deviations))

    def _best_setting(self, row: Row, figure: BestSetting, recipe: str) -> Found:
        (task,) = row.tasks
        folder = self._trials.get((row.run, task))
        trials = folder.finished() if folder else []
        if not trials:
            return Found()
        chosen = _chosen(trials, _recipe(recipe, task), task)
        return Found(getattr(chosen[0].trial.setting, figure.name))

    def _perplexity(self, run: str) -> Found:
        if run not in self._perplexities:
            return Found()
        path, result = self._perplexities[run]
        deviations = []
        if "standard" not in result:
            deviations.append(
                Caveat("not by the standard count of WikiText", str(path))
            )
        of = result.get("standard", result["predicted"])
        return Found(of["perplexity"], tuple(deviations))

    def _validated(self, run: str, metric: str) -> Found:
        if run not in self._runs:
            return Found()
        rows = [
            one
            for one in run_log.read(self._runs[run] / "log.jsonl")
            if one["kind"] == run_log.VALIDATION and metric in one
        ]
        if not rows:
            return Found()
        after = Caveat(f"after {rows[-1]['updates']:,} updates")
        return Found(100 * rows[-1][metric], (after,))


def _files_below(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    for parent, subfolders, names in os.walk(folder):
        subfolders[:] = sorted(set(subfolders).difference(_PRUNED))
        yield from (pathlib.Path(parent, name) for name in sorted(names))


def _is_aside(settings: Mapping[str, Any]) -> bool:
    """True of trials of a baseline, or of a probe of our own."""
    return bool(settings.get("randomly_initialized") or settings.get("probe"))


def _put(found: dict[Any, Any], key: Any, value: Any, path_of: Any) -> None:
    if key in found:
        what = key if isinstance(key, str) else " of ".join(reversed(key))
        raise ValueError(
            f"`runs` must hold results once. Received: {what} in "
            f"{path_of(found[key])} and in {path_of(value)}; name one of them"
        )
    found[key] = value


def _recipe(name: str, task: str) -> Recipe | None:
    """That of a paper; None where a table's paper says none."""
    return finetuning_settings.get(name, task) if name else None


def _chosen(
    trials: Sequence[FinishedTrial], recipe: Recipe | None, task: str
) -> Sequence[FinishedTrial]:
    """The trials that are reported: the best one, or all seeds of the best setting."""
    main_metric = _MAIN_METRICS.get(task) or tasks.get(task).main_metric
    if recipe and recipe.score == "best":
        return [trial_results.best_trial(trials, main_metric)]
    of_settings = trial_results.by_setting(trials, main_metric)
    return trial_results.best_setting(of_settings).trials


def _deviations(
    settings: Mapping[str, Any],
    trials: Sequence[FinishedTrial],
    recipe: Recipe | None,
) -> Iterator[str]:
    for name in ("limit", "dev_limit"):
        if settings.get(name) is not None:
            yield f"{name}: {settings[name]}; paper all"
    if not recipe:
        return
    seeds = {one.trial.seed for one in trials}
    if recipe.num_runs and len(seeds) != recipe.num_runs:
        yield f"seeds: {len(seeds)}; paper {recipe.num_runs}"
    tried = {
        (one.learning_rate, one.batch_size, one.epochs)
        for one in (trial.trial.setting for trial in trials)
    }
    of_paper = {
        (one.learning_rate, one.batch_size, one.num_epochs) for one in recipe.settings()
    }
    if tried != of_paper:
        yield (
            f"settings tried: {len(tried & of_paper)} of the paper's "
            f"{len(of_paper)}, and {len(tried - of_paper)} others"
        )
    length = settings.get("max_length")
    if recipe.row_length and length and length != recipe.row_length:
        yield f"max_length: {length}; paper {recipe.row_length}"
