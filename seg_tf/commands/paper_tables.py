r"""Prints the tables of a paper as Markdown, with the results of your runs.

  seg-tf paper-tables --paper=segatron --runs=runs,finetuning > segatron.md

Results in the folders of --runs are recognized by their contents (see
docs/paper_tables.md). The tables report the setting with the best dev score and, as in
the paper, the mean or the best of its seeds. The notes list differences from the paper.
"""

import dataclasses
import os
import pathlib
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import flags

from seg_tf import files, tasks
from seg_tf.checkpoints import contents, folders, pretrained
from seg_tf.finetuning import trial_report
from seg_tf.finetuning.trials import Trial, TrialsFolder
from seg_tf.papers import tables
from seg_tf.papers.settings import read_setting
from seg_tf.papers.tables import Figure, Row, RunFigure, Table
from seg_tf.tasks import finetuning_settings
from seg_tf.tasks.finetuning_settings import Recipe
from seg_tf.training import run_folder

_SIZE = "base"
# Subfolders of runs that contain no results.
_PRUNED = ("checkpoints", "trials", "tensorboard", "records")
# Metrics that rank trials, if their names in a trial differ from the task's.
_MAIN_METRICS = {
    "glue/mnli": "matched_accuracy",
    "squad/v1.1": "f1",
    "squad/v2.0": "f1",
}


class Results:
    """Trials, perplexities, training logs and submission scores found in folders."""

    def __init__(self, paths: Sequence[pathlib.Path]):
        # Maps (run, task or kind) to a `TrialsFolder`, JSON or a `RunConfig`.
        self._results: dict[tuple[str, str], Any] = {}
        self._paths: dict[tuple[str, str], pathlib.Path] = {}
        for path in paths:
            if not path.is_dir():
                raise ValueError(f"`runs` must be folders. Received: {path}")
            for parent, subfolders, names in os.walk(path):
                subfolders[:] = sorted(set(subfolders).difference(_PRUNED))
                for name in sorted(names):
                    self._read(pathlib.Path(parent, name))

    def _read(self, file: pathlib.Path) -> None:
        if file.name == "settings.json":
            folder = TrialsFolder(file.parent)
            settings = folder.settings()
            # No table has randomly initialized baselines or probes.
            is_aside = settings.get("randomly_initialized") or settings.get("probe")
            if "task" in settings and not is_aside:
                self._add(settings["run"], settings["task"], folder, folder.path)
        elif file.name == "perplexity.json":
            result = files.read_json(file)
            self._add(result["run"], "perplexity", result, file)
        elif file.name == "log.jsonl" and folders.is_checkpoint(file.parent):
            checkpoint = folders.find_checkpoint(file.parent)
            config = pretrained.read_config(checkpoint, contents.read_state(checkpoint))
            self._add(config.name, "log", config, file)
        elif file.name == "leaderboard.json":
            for run, scores in files.read_json(file).items():
                self._add(run, "submission", scores, file)

    def _add(self, run: str, kind: str, result: Any, path: pathlib.Path) -> None:
        if (run, kind) in self._paths:
            raise ValueError(
                f"`runs` must hold results once. Received: {kind} of {run} in "
                f"{self._paths[run, kind]} and in {path}; name one of them"
            )
        self._results[run, kind], self._paths[run, kind] = result, path

    @property
    def runs(self) -> set[str]:
        """Names of all runs with results."""
        return {run for run, _ in self._paths}

    def measure(self, row: Row, table: Table) -> dict[str, RunFigure]:
        """Returns the `RunFigure` of each column in a row, by column name."""
        measured: dict[str, RunFigure] = {}
        for name, figure in table.columns.items():
            if isinstance(figure, tables.Average):
                values = [measured[column].value for column in figure.columns]
                mean = None if None in values else statistics.fmean(values)
                measured[name] = RunFigure(mean)
            else:
                measured[name] = self._figure(row, figure, table.recipe)
        return measured

    def _figure(self, row: Row, figure: Figure, recipe: str) -> RunFigure:
        def get(kind: str) -> Any:
            return self._results.get((row.run, kind))

        match figure:
            case tables.FineTuned():
                return self._fine_tuned(row.run, figure, recipe)
            case tables.BestSetting(name) if folder := get(row.task):
                if trials := folder.finished():
                    chosen = _chosen(trials, _recipe(recipe, row.task), row.task)
                    return RunFigure(getattr(chosen[0].setting, name))
            case tables.Submitted(column, metric) if scores := get("submission"):
                return RunFigure(scores.get(column, {}).get(metric))
            case tables.Perplexity() if result := get("perplexity"):
                if "standard" in result:
                    return RunFigure(result["standard"]["perplexity"])
                path = self._paths[row.run, "perplexity"]
                caveat = f"{path}: not by the standard count of WikiText"
                return RunFigure(result["predicted"]["perplexity"], (caveat,))
            case tables.Validated(metric) if get("log"):
                validations = [
                    entry
                    for entry in run_folder.read_log(self._paths[row.run, "log"])
                    if entry["kind"] == run_folder.VALIDATION and metric in entry
                ]
                if validations:
                    last = validations[-1]
                    caveat = f"after {last['updates']:,} updates"
                    return RunFigure(100 * last[metric], (caveat,))
            case tables.ConfigValue(path) if config := get("log"):
                return RunFigure(read_setting(config, path))
        return RunFigure()

    def _fine_tuned(self, run: str, figure: tables.FineTuned, name: str) -> RunFigure:
        values, caveats = [], []
        for task in figure.tasks:
            folder = self._results.get((run, task))
            trials = folder.finished() if folder else []
            if not trials:
                return RunFigure()
            recipe = _recipe(name, task)
            chosen = _chosen(trials, recipe, task)
            if any(figure.metric not in trial.scores for trial in chosen):
                return RunFigure(None, (f"no {figure.metric} in {folder.path}",))
            value = statistics.fmean(trial.scores[figure.metric] for trial in chosen)
            values.append(value if task.startswith("squad/") else 100 * value)
            differences = _differences(folder.settings(), trials, recipe)
            caveats += [f"{task}: {text}" for text in differences]
        return RunFigure(statistics.fmean(values), tuple(caveats))


def _recipe(name: str, task: str) -> Recipe | None:
    return finetuning_settings.get(name, task) if name else None


def _chosen(
    trials: Sequence[Trial], recipe: Recipe | None, task: str
) -> Sequence[Trial]:
    """Returns the best trial if the paper reports it, or the best setting's trials."""
    main_metric = _MAIN_METRICS.get(task) or tasks.get(task).main_metric
    if recipe and recipe.score == "best":
        return [trial_report.best_trial(trials, main_metric)]
    return trial_report.best_setting(trials, main_metric)


def _differences(
    settings: Mapping[str, Any], trials: Sequence[Trial], recipe: Recipe | None
) -> Iterator[str]:
    for name in ("limit", "dev_limit"):
        if settings.get(name) is not None:
            yield f"{name}: {settings[name]}; paper all"
    if not recipe:
        return
    seeds = {trial.seed for trial in trials}
    if recipe.num_runs and len(seeds) != recipe.num_runs:
        yield f"seeds: {len(seeds)}; paper {recipe.num_runs}"
    tried, grid = {trial.setting for trial in trials}, {*recipe.settings}
    if tried != grid:
        yield (
            f"settings tried: {len(tried & grid)} of the paper's {len(grid)}, and "
            f"{len(tried - grid)} others"
        )
    length = settings.get("max_length")
    if recipe.row_length and length and length != recipe.row_length:
        yield f"max_length: {length}; paper {recipe.row_length}"


def define_flags() -> None:
    flags.DEFINE_enum("paper", None, list(tables.TABLES), "Paper.", required=True)
    flags.DEFINE_list(
        "runs", None, "Comma-separated folders of runs and trials.", required=True
    )
    flags.DEFINE_string("size", _SIZE, "Size of the runs in rows of base models.")


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    results = Results([pathlib.Path(path) for path in values.runs])
    shown = [_with_size(table, values.size) for table in tables.TABLES[values.paper]]
    print(tables.render(shown, results.measure, tables.TITLES[values.paper]))
    rows = {row.run for table in shown for row in table.rows}
    filled = ", ".join(sorted(results.runs & rows)) or "no run"
    print(f"Filled by: {filled}", file=sys.stderr)
    if unused := sorted(results.runs - rows):
        print(f"In none of these tables: {', '.join(unused)}", file=sys.stderr)


def _with_size(table: Table, size: str) -> Table:
    """Replaces the base-size runs in a table's rows with runs of another size."""
    rows = []
    for row in table.rows:
        parts = [size if part == _SIZE else part for part in row.run.split("_")]
        rows.append(dataclasses.replace(row, run="_".join(parts)))
    if rows == list(table.rows):
        return table
    note = f"rows of base models are filled by runs of size {size}"
    return dataclasses.replace(table, rows=rows, notes=(*table.notes, note))
