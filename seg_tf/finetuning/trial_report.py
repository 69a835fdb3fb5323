"""Writes tables of trial results, and prediction files for the GLUE leaderboard."""

import csv
import io
import pathlib
import statistics
from collections.abc import Mapping, Sequence

from seg_tf import files
from seg_tf.command_line import aligned_table
from seg_tf.finetuning.trials import Setting, TaskRunner, Trial, TrialsFolder
from seg_tf.tasks import glue

SUBMISSION_FOLDER = "submission"
# Entries of the scores that are not metrics but values chosen on dev.
_CHOICES = ("l2", "null_threshold")


def best_setting(trials: Sequence[Trial], main_metric: str) -> list[Trial]:
    """Returns the trials of the setting with the highest mean of the main metric."""
    groups = _by_setting(trials).values()
    return max(groups, key=lambda group: _mean_score(group, main_metric))


def best_trial(trials: Sequence[Trial], main_metric: str) -> Trial:
    """Returns the trial with the highest main metric."""
    return max(trials, key=lambda trial: trial.scores[main_metric])


def _by_setting(trials: Sequence[Trial]) -> dict[Setting, list[Trial]]:
    groups: dict[Setting, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.setting, []).append(trial)
    return groups


def _mean_score(trials: Sequence[Trial], name: str) -> float:
    return statistics.fmean(trial.scores[name] for trial in trials)


def write_report(folder: TrialsFolder, runner: TaskRunner) -> str:
    """Writes `results.csv` and `summary.txt` to `folder`, and returns the summary."""
    trials, main_metric = folder.finished(), runner.main_metric
    best = best_trial(trials, main_metric)
    text = (
        f"{runner.name}: {main_metric} on the dev split\n"
        f"{summary(trials, main_metric, runner.baselines)}\n"
        f"best setting (*): {best_setting(trials, main_metric)[0].setting}\n"
        f"best trial: {best}: {best.scores[main_metric]:.4f}\n"
    )
    write_csv(trials, folder.path / "results.csv")
    files.write_text(folder.path / "summary.txt", text)
    return text


def write_csv(trials: Sequence[Trial], path: pathlib.Path) -> None:
    """Writes a CSV row for each trial: setting, seed, epochs trained and scores."""
    score_names = list(dict.fromkeys(name for trial in trials for name in trial.scores))
    fields = ("learning_rate", "batch_size", "epochs")
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow([*fields, "seed", "epochs_trained", *score_names])
    for trial in trials:
        setting = (getattr(trial.setting, name) for name in fields)
        scores = (trial.scores.get(name, "") for name in score_names)
        writer.writerow([*setting, trial.seed, len(trial.epochs), *scores])
    files.write_text(path, output.getvalue())


def summary(
    trials: Sequence[Trial],
    main_metric: str,
    baselines: Mapping[str, Mapping[str, float]],
) -> str:
    """Returns a table of settings, baselines and scores. `*` marks the best setting."""
    best = best_setting(trials, main_metric)
    hidden = (main_metric, *_CHOICES)
    names = [name for name in best[0].scores if name not in hidden]
    lines = [["", "setting", "seeds", f"{main_metric} mean", "std", "min", "max"]]
    lines[0] += [f"{name} mean" for name in names]
    for setting, group in _by_setting(trials).items():
        scores = [trial.scores[main_metric] for trial in group]
        deviation = statistics.stdev(scores) if len(scores) > 1 else None
        values = [statistics.fmean(scores), deviation, min(scores), max(scores)]
        values += [_mean_score(group, name) for name in names]
        marked = "*" if group == best else ""
        lines.append([marked, str(setting), str(len(scores)), *map(_shown, values)])
    for title, scores in baselines.items():
        main, *rest = (_shown(scores.get(name)) for name in (main_metric, *names))
        lines.append(["", title, "", main, "", "", "", *rest])
    return aligned_table(lines)


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def write_submission(
    folder: TrialsFolder, runner: TaskRunner, output_dir: pathlib.Path
) -> None:
    """Writes the best trial's test predictions in the format of GLUE's leaderboard.

    Writes nothing if the task is not part of GLUE or its test split was not predicted.
    """
    best = best_trial(folder.finished(), runner.main_metric)
    for name, (task, split) in glue.COLUMNS.items():
        # An MNLI model also predicts the diagnostic set.
        task_name = "glue/mnli" if name == "AX" else task.name
        path = best.folder / f"{split}_predictions.tsv"
        if task_name == runner.name and path.exists():
            rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
            output_dir.mkdir(parents=True, exist_ok=True)
            # MRPC's test set may have labels between index and prediction.
            text = "".join(f"{row[0]}\t{row[-1]}\n" for row in rows)
            files.write_text(output_dir / f"{name}.tsv", text)
