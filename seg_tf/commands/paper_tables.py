r"""Prints the tables of a paper: its figures, and below them those of your runs.

  python -m seg_tf.commands.paper_tables --paper=segatron --runs=runs,finetuning

--paper is segatron, segabert (its first version), slm or reat. Below --runs, files and
folders are found by their contents:

  an --output_dir of run_pretraining.py     settings, validation results
  an --output_dir of run_finetuning.py      scores, by the name of the checkpoint's run
  perplexity.json                           --output of evaluate_perplexity
  leaderboard.json                          test scores of GLUE, written by hand:
                              {"segabert_base": {"CoLA": {"matthews": 50.7}}}

Of several settings, the best on dev is reported; of its seeds, what the paper reports,
the mean or the best. Notes below each table say what was done differently. Missing
figures are shown as "not run". --size=tiny fills the rows of base models with runs of
size tiny:

  python -m seg_tf.commands.paper_tables --paper=slm --runs=runs --size=tiny \
    --format=markdown --output=tables.md
"""

import dataclasses
import os
import pathlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import flags

from seg_tf import command_line, files, tasks
from seg_tf.checkpoints import contents, folders, pretrained
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.config import RunConfig
from seg_tf.finetuning import trial_report
from seg_tf.finetuning.trials import Trial, TrialsFolder
from seg_tf.papers import rendering
from seg_tf.papers.rendering import Caveat, RunFigure
from seg_tf.papers.settings import read_setting
from seg_tf.papers.tables import (
    TABLES,
    TITLES,
    Average,
    BestSetting,
    ConfigValue,
    Figure,
    FineTuned,
    Perplexity,
    Row,
    Submitted,
    Table,
    Validated,
)
from seg_tf.tasks import finetuning_settings
from seg_tf.tasks.finetuning_settings import Recipe
from seg_tf.training import run_folder

_SIZE = "base"
# Folders inside runs that hold none of these files.
_PRUNED = ("checkpoints", "trials", "tensorboard", "records")
# Metrics that choose among trials, where a trial's name for it is not the task's.
_MAIN_METRICS = {
    "glue/mnli": "matched_accuracy",
    "squad/v1.1": "f1",
    "squad/v2.0": "f1",
}


class Results:
    """Trials, perplexities, runs and submissions below folders.

    Args:
        paths: the folders.

    Raises:
        ValueError: if one is missing, or two hold the same trials, perplexity, run or
            submission.
    """

    def __init__(self, paths: Sequence[pathlib.Path]):
        self._paths: dict[tuple[str, ...], pathlib.Path] = {}
        self._trials: dict[tuple[str, str], TrialsFolder] = {}
        self._perplexities: dict[str, Mapping[str, Any]] = {}
        self._configs: dict[str, RunConfig] = {}
        self._submissions: dict[str, Mapping[str, Mapping[str, float]]] = {}
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
            # Trials of a baseline, or of a probe of our own, belong in no table.
            is_aside = settings.get("randomly_initialized") or settings.get("probe")
            if "task" in settings and not is_aside:
                key = (settings["run"], settings["task"])
                self._claim(key, folder.path)
                self._trials[key] = folder
        elif file.name == "perplexity.json":
            result = files.read_json(file)
            self._claim((result["run"], "perplexity"), file)
            self._perplexities[result["run"]] = result
        elif file.name == "log.jsonl":
            checkpoint = folders.find_checkpoint(file.parent)
            config = pretrained.read_config(checkpoint, contents.read_state(checkpoint))
            self._claim((config.name, "log"), file)
            self._configs[config.name] = config
        elif file.name == "leaderboard.json":
            for run, scores in files.read_json(file).items():
                self._claim((run, "submission"), file)
                self._submissions[run] = scores

    def _claim(self, key: tuple[str, str], path: pathlib.Path) -> None:
        if key in self._paths:
            run, kind = key
            raise ValueError(
                f"`runs` must hold results once. Received: {kind} of {run} in "
                f"{self._paths[key]} and in {path}; name one of them"
            )
        self._paths[key] = path

    @property
    def runs(self) -> set[str]:
        """Names of all runs with results."""
        return {run for run, _ in self._paths}

    def measure(self, row: Row, table: Table) -> dict[str, RunFigure]:
        """The figures of a row, by the names of the table's columns."""
        measured: dict[str, RunFigure] = {}
        for name, figure in table.columns.items():
            if isinstance(figure, Average):
                values = [measured[one].value for one in figure.columns]
                complete = None not in values
                measured[name] = RunFigure(
                    statistics.fmean(values) if complete else None
                )
            else:
                measured[name] = self._figure(row, figure, table.recipe)
        return measured

    def _figure(self, row: Row, figure: Figure, recipe: str) -> RunFigure:
        match figure:
            case FineTuned():
                return self._fine_tuned(row.run, figure, recipe)
            case BestSetting(name):
                trials = self._finished(row.run, row.task)
                if not trials:
                    return RunFigure()
                chosen = _chosen(trials, _recipe(recipe, row.task), row.task)
                return RunFigure(getattr(chosen[0].setting, name))
            case Submitted(column, metric):
                scores = self._submissions.get(row.run, {})
                return RunFigure(scores.get(column, {}).get(metric))
            case Perplexity():
                return self._perplexity(row.run)
            case Validated(metric):
                return self._validated(row.run, metric)
            case ConfigValue(path) if row.run in self._configs:
                return RunFigure(read_setting(self._configs[row.run], path))
        return RunFigure()

    def _finished(self, run: str, task: str) -> list[Trial]:
        folder = self._trials.get((run, task))
        return folder.finished() if folder else []

    def _fine_tuned(self, run: str, figure: FineTuned, name: str) -> RunFigure:
        values, caveats = [], []
        for task in figure.tasks:
            trials = self._finished(run, task)
            if not trials:
                return RunFigure()
            folder = self._trials[run, task]
            recipe = _recipe(name, task)
            chosen = _chosen(trials, recipe, task)
            if any(figure.metric not in one.scores for one in chosen):
                missing = Caveat(f"no {figure.metric} in {folder.path}", task)
                return RunFigure(None, (missing,))
            value = statistics.fmean(one.scores[figure.metric] for one in chosen)
            values.append(value if task.startswith("squad/") else 100 * value)
            for text in _differences(folder.settings(), trials, recipe):
                caveats.append(Caveat(text, task))
        return RunFigure(statistics.fmean(values), tuple(caveats))

    def _perplexity(self, run: str) -> RunFigure:
        if run not in self._perplexities:
            return RunFigure()
        result = self._perplexities[run]
        if "standard" in result:
            return RunFigure(result["standard"]["perplexity"])
        path = str(self._paths[run, "perplexity"])
        caveat = Caveat("not by the standard count of WikiText", path)
        return RunFigure(result["predicted"]["perplexity"], (caveat,))

    def _validated(self, run: str, metric: str) -> RunFigure:
        if run not in self._configs:
            return RunFigure()
        rows = [
            one
            for one in run_folder.read_log(self._paths[run, "log"])
            if one["kind"] == run_folder.VALIDATION and metric in one
        ]
        if not rows:
            return RunFigure()
        caveat = Caveat(f"after {rows[-1]['updates']:,} updates")
        return RunFigure(100 * rows[-1][metric], (caveat,))


def _recipe(name: str, task: str) -> Recipe | None:
    """The paper's recipe; None where the table's paper has none."""
    return finetuning_settings.get(name, task) if name else None


def _chosen(
    trials: Sequence[Trial], recipe: Recipe | None, task: str
) -> Sequence[Trial]:
    """The trials that are reported: the best one, or all seeds of the best setting."""
    main_metric = _MAIN_METRICS.get(task) or tasks.get(task).main_metric
    if recipe and recipe.score == "best":
        return [trial_report.best_trial(trials, main_metric)]
    return trial_report.best_setting(trials, main_metric)


def _differences(
    settings: Mapping[str, Any],
    trials: Sequence[Trial],
    recipe: Recipe | None,
) -> Iterator[str]:
    for name in ("limit", "dev_limit"):
        if settings.get(name) is not None:
            yield f"{name}: {settings[name]}; paper all"
    if not recipe:
        return
    seeds = {one.seed for one in trials}
    if recipe.num_runs and len(seeds) != recipe.num_runs:
        yield f"seeds: {len(seeds)}; paper {recipe.num_runs}"
    tried = {
        (one.learning_rate, one.batch_size, one.epochs)
        for one in (trial.setting for trial in trials)
    }
    grid = {
        (one.learning_rate, one.batch_size, one.num_epochs) for one in recipe.settings()
    }
    if tried != grid:
        yield (
            f"settings tried: {len(tried & grid)} of the paper's {len(grid)}, and "
            f"{len(tried - grid)} others"
        )
    length = settings.get("max_length")
    if recipe.row_length and length and length != recipe.row_length:
        yield f"max_length: {length}; paper {recipe.row_length}"


def define_flags() -> None:
    flags.DEFINE_enum(
        "paper", None, list(TABLES), "Whose tables to print.", required=True
    )
    flags.DEFINE_list(
        "runs", None, "Folders of runs and trials, comma-separated.", required=True
    )
    flags.DEFINE_string(
        "size", _SIZE, "Size of the runs that fill rows of base models."
    )
    flags.DEFINE_enum("format", "text", rendering.FORMATS, "Form of the tables.")
    flags.DEFINE_string("output", None, "File to write; without it they are printed.")


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    results = Results([pathlib.Path(path) for path in values.runs])
    tables = [_with_size(table, values.size) for table in TABLES[values.paper]]
    title = TITLES[values.paper]
    text = rendering.render(tables, results.measure, title, values.format).rstrip("\n")
    if values.output:
        files.write_text(pathlib.Path(values.output), f"{text}\n")
        print(f"The tables are in {values.output}")
    else:
        print(text)
    if values.format != "csv" or values.output:
        wanted = {row.run for table in tables for row in table.rows}
        print(f"\nFilled by: {', '.join(sorted(results.runs & wanted)) or 'no run'}")
        if others := sorted(results.runs - wanted):
            print(f"In none of these tables: {', '.join(others)}")


def _with_size(table: Table, size: str) -> Table:
    """`table` with runs of `size` in its rows of base models."""
    if size == _SIZE:
        return table
    rows = []
    for row in table.rows:
        parts = [size if part == _SIZE else part for part in row.run.split("_")]
        rows.append(dataclasses.replace(row, run="_".join(parts)))
    notes = table.notes
    if rows != list(table.rows):
        notes += (f"rows of base models are filled by runs of size {size}",)
    return dataclasses.replace(table, rows=rows, notes=notes)


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
