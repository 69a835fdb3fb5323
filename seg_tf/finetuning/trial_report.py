"""Report on a folder of trials: a table, learning curves, files for a leaderboard."""

import csv
import dataclasses
import io
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from seg_tf import files
from seg_tf.command_line import aligned_table
from seg_tf.config import differing_settings
from seg_tf.finetuning.trials import (
    DEV,
    LEADERBOARD_FOLDER,
    Setting,
    TaskRunner,
    Trial,
    TrialsFolder,
)
from seg_tf.tasks import glue

SUBMISSION_FOLDER = "submission"
# More colours cannot be distinguished.
MAX_CURVES = 8
# Values chosen on dev, among the scores.
_CHOICES = ("l2", "null_threshold")


def by_setting(trials: Sequence[Trial]) -> dict[Setting, list[Trial]]:
    """Trials of every setting, in the order in which the settings appear."""
    groups: dict[Setting, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.setting, []).append(trial)
    return groups


def mean_score(trials: Sequence[Trial], name: str) -> float | None:
    """Mean of a score; None if a trial does not have it."""
    if any(name not in trial.scores for trial in trials):
        return None
    return statistics.fmean(trial.scores[name] for trial in trials)


def best_setting(trials: Sequence[Trial], main_metric: str) -> list[Trial]:
    """The trials of the first setting with the highest mean."""
    groups = by_setting(trials).values()
    return max(groups, key=lambda group: mean_score(group, main_metric))


def best_trial(trials: Sequence[Trial], main_metric: str) -> Trial:
    """The first trial with the highest main metric."""
    return max(trials, key=lambda trial: trial.scores[main_metric])


# === Trials to compare with ===


@dataclasses.dataclass(frozen=True)
class Compared:
    """Finished trials of the same task in another folder."""

    trials: Sequence[Trial]
    name: str
    differences: tuple[str, ...] = ()


def compared_trials(path: pathlib.Path, settings: Mapping[str, Any]) -> Compared:
    """Finished trials of a task in another folder.

    Raises:
        ValueError: if there are none, or they are of another task or of other data.
    """
    folder = TrialsFolder(path)
    try:
        compared = folder.settings()
    except ValueError as error:
        raise ValueError(
            f"`--compare` must be a folder of trials. Received: {path}. {error}"
        ) from error
    if compared["task"] != settings["task"]:
        raise ValueError(
            f"`--compare` must be the folder of trials of {settings['task']}. "
            f"Received: {path}, which holds those of {compared['task']}"
        )
    # How SQuAD's texts are split depends on the model.
    reading = ("windows", "sentence_splitter")
    data, options = [], []
    for these, those in ((compared, settings), (settings, compared)):
        # The other folder may lack test splits.
        checksums = {
            name: checksum
            for name, checksum in these["files_sha256"].items()
            if name not in reading
            and (name in those["files_sha256"] or not name.startswith("test"))
        }
        limits = {name: these.get(name) for name in ("limit", "dev_limit")}
        data.append({"files_sha256": checksums, **limits})
        options.append(
            {name: these.get(name) for name in ("max_length", "early_stopping")}
            | {name: these["files_sha256"].get(name) for name in reading}
        )
    if unfair := differing_settings(*data):
        raise ValueError(
            "`--compare` must hold trials of the same examples. Received: "
            f"{path}, whose trials differ in " + "; ".join(unfair)
        )
    trials = folder.finished()
    if not trials:
        raise ValueError(
            f"`--compare` must hold finished trials. Received: {path}, without"
        )
    name = "randomly initialized" if compared["randomly_initialized"] else "compared"
    return Compared(trials, name, tuple(differing_settings(*options)))


# === Tables and curves ===


def write_report(
    folder: TrialsFolder,
    runner: TaskRunner,
    *,
    uses_best_epochs: bool = False,
    compared: Compared | None = None,
) -> str:
    """Writes `results.csv`, `summary.txt` and `learning_curves.png`."""
    trials, main_metric = folder.finished(), runner.main_metric
    best = best_trial(trials, main_metric)
    epoch = "best" if uses_best_epochs else "last"
    score = format_score(best.scores[main_metric], runner.in_percent)
    baseline = {
        "baseline": runner.baseline,
        "baseline_name": runner.baseline_name,
    }
    table = summary(
        trials,
        main_metric,
        **baseline,
        compared=compared,
        in_percent=runner.in_percent,
    )
    text = f"""{runner.name}: {main_metric} on the dev split after the {epoch} epoch
{table}
best setting (*): {best_setting(trials, main_metric)[0].setting}
best trial: {best}: {score}
"""
    for difference in compared.differences if compared else ():
        text += f"note: the {compared.name} trials differ in {difference}\n"
    write_csv(trials, folder.path / "results.csv")
    files.write_text(folder.path / "summary.txt", text)
    figure = learning_curves(trials, main_metric, title=runner.name, **baseline)
    with files.written_aside(folder.path / "learning_curves.png") as unfinished:
        figure.savefig(unfinished, format="png", dpi=120)
    return text


def write_csv(trials: Sequence[Trial], path: pathlib.Path) -> None:
    """Writes a row for each trial: setting, seed, epochs trained, scores."""
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
    *,
    baseline: Mapping[str, float] | None = None,
    baseline_name: str = "most frequent label",
    compared: Compared | None = None,
    in_percent: bool = False,
) -> str:
    """A table with a line for each setting, the best marked, and for comparisons."""
    best = best_setting(trials, main_metric)
    names = [
        name for name in best[0].scores if name != main_metric and name not in _CHOICES
    ]

    def shown(value: float | None, sign: str = "") -> str:
        return format_score(value, in_percent, sign)

    def cells(group: Sequence[Trial]) -> list[str]:
        scores = [trial.scores[main_metric] for trial in group]
        deviation = statistics.stdev(scores) if len(scores) > 1 else None
        values = [statistics.fmean(scores), deviation, min(scores), max(scores)]
        values += [mean_score(group, name) for name in names]
        return [str(len(scores)), *map(shown, values)]

    def difference(group: Sequence[Trial], base: Sequence[Trial]) -> list[str]:
        other = mean_score(base, main_metric)
        return [shown(other), shown(mean_score(group, main_metric) - other, "+")]

    base_groups = by_setting(compared.trials) if compared else {}
    header = ["", "setting", "seeds", f"{main_metric} mean", "std", "min", "max"]
    header += [f"{name} mean" for name in names]
    header += [compared.name, "difference"] if compared else []
    lines = [header]
    for setting, group in by_setting(trials).items():
        line = ["*" if group == best else "", str(setting), *cells(group)]
        if setting in base_groups:
            line += difference(group, base_groups[setting])
        elif compared:
            line += ["–", "–"]
        lines.append(line)
    if baseline:
        main, *more = (shown(baseline.get(name)) for name in (main_metric, *names))
        lines.append(["", baseline_name, "", main, "", "", "", *more])
    if compared:
        other = best_setting(compared.trials, main_metric)
        name = f"{compared.name}, its best: {other[0].setting}"
        lines.append(["", name, *cells(other), *difference(best, other)])
    return aligned_table([[*line, *[""] * (len(header) - len(line))] for line in lines])


def format_score(value: float | None, in_percent: bool, sign: str = "") -> str:
    """A score with four decimals, as a percentage with two; "–" for None."""
    if value is None:
        return "–"
    return f"{value:{sign}.{2 if in_percent else 4}f}"


def learning_curves(
    trials: Sequence[Trial],
    main_metric: str,
    *,
    title: str,
    baseline: Mapping[str, float] | None = None,
    baseline_name: str = "most frequent label",
) -> Figure:
    """Draws training loss, dev loss and main metric by epoch.

    Each seed has a thin line in the color of its setting, and the mean over seeds a
    thick one up to the shortest trial. A probe, which is trained with several strengths
    of its penalty, is drawn with the chosen one. Only the best `MAX_CURVES` settings
    are drawn, by their mean.
    """
    # MNLI has two dev losses.
    dev_loss = DEV + "_".join([*main_metric.split("_")[:-1], "loss"])
    labels = {
        "loss": "training loss",
        dev_loss: "dev loss",
        DEV + main_metric: f"dev {main_metric}",
    }
    groups = by_setting(trials)
    drawn = sorted(groups, key=lambda name: -mean_score(groups[name], main_metric))
    drawn = drawn[:MAX_CURVES]
    panels = [
        name
        for name in labels
        if any(
            name in row
            for setting in drawn
            for trial in groups[setting]
            for row in trial.epochs
        )
    ]
    figure = Figure(figsize=(6 * max(1, len(panels)), 6), layout="constrained")
    FigureCanvasAgg(figure)
    some = f" (best {len(drawn)} of {len(groups)} settings)"
    figure.suptitle(title + (some if len(groups) > len(drawn) else ""))
    for number, name in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), number)
        for color, setting in enumerate(drawn):
            curves = [
                [
                    row[name]
                    for row in trial.epochs
                    if name in row
                    and row.get("l2", trial.scores.get("l2")) == trial.scores.get("l2")
                ]
                for trial in groups[setting]
            ]
            for curve in curves:
                line = {"linewidth": 0.8, "alpha": 0.45, "color": f"C{color}"}
                axes.plot(range(1, 1 + len(curve)), curve, **line)
            means = [sum(values) / len(values) for values in zip(*curves, strict=False)]
            seeds = "1 seed" if len(curves) == 1 else f"{len(curves)} seeds"
            line = {"marker": "o", "markersize": 3, "color": f"C{color}"}
            line["label"] = f"{setting} ({seeds})"
            axes.plot(range(1, 1 + len(means)), means, **line)
        if name == DEV + main_metric and main_metric in (baseline or {}):
            line = {"color": "gray", "linestyle": "--", "linewidth": 1}
            axes.axhline(baseline[main_metric], label=baseline_name, **line)
        axes.set_xlabel("epoch")
        axes.set_ylabel(labels[name])
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(visible=True, alpha=0.3)
    if panels:
        figure.legend(
            *axes.get_legend_handles_labels(), loc="outside lower center", ncols=2
        )
    return figure


# === Leaderboard ===


def write_submission(
    folder: TrialsFolder, main_metric: str, output_dir: pathlib.Path
) -> None:
    """Copies the leaderboard files of the best trial, if there are any."""
    best = best_trial(folder.finished(), main_metric)
    for path in sorted((best.folder / LEADERBOARD_FOLDER).glob("*.tsv")):
        output_dir.mkdir(parents=True, exist_ok=True)
        files.write_text(output_dir / path.name, path.read_text(encoding="utf-8"))


def describe_submission(output_dir: pathlib.Path) -> str:
    """States that the leaderboard would accept a folder, or why it would not."""
    problems = glue.submission_problems(output_dir)
    if not problems:
        return f"{output_dir}: complete; zip its files for the leaderboard"
    return (
        f"{output_dir}: not yet complete for the leaderboard, for {len(problems)} "
        f"reasons; the first: {problems[0]}"
    )
