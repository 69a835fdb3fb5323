"""What trials gave: a table of them all, and a summary of settings over seeds."""

import csv
import dataclasses
import io
import pathlib
import statistics
from collections.abc import Mapping, Sequence

from seg_tf import files
from seg_tf.finetuning.trial import Setting
from seg_tf.finetuning.trial_progress import describe_setting
from seg_tf.finetuning.trials import FinishedTrial

_ABSENT = "–"


@dataclasses.dataclass(frozen=True)
class SettingResult:
    """Scores of a setting over its seeds.

    Attributes:
        setting: the setting.
        trials: its finished trials, at least one.
        main_metric: the score that chooses.
    """

    setting: Setting
    trials: Sequence[FinishedTrial]
    main_metric: str

    @property
    def main_scores(self) -> list[float]:
        return [one.scores[self.main_metric] for one in self.trials]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.main_scores)

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the seeds (n - 1 below); None of one alone."""
        if len(self.trials) < 2:
            return None
        return statistics.stdev(self.main_scores)

    def mean_of(self, name: str) -> float:
        return statistics.fmean(one.scores[name] for one in self.trials)


def by_setting(
    trials: Sequence[FinishedTrial], main_metric: str
) -> list[SettingResult]:
    """Results of every setting, in the order in which the trials have them."""
    settings = dict.fromkeys(one.trial.setting for one in trials)
    return [
        SettingResult(
            setting,
            [one for one in trials if one.trial.setting == setting],
            main_metric,
        )
        for setting in settings
    ]


def best_setting(results: Sequence[SettingResult]) -> SettingResult:
    """The one of the highest mean; of equals the first."""
    return max(results, key=lambda one: one.mean)


def best_trial(trials: Sequence[FinishedTrial], main_metric: str) -> FinishedTrial:
    """The one of the highest main metric; of equals the first."""
    return max(trials, key=lambda one: one.scores[main_metric])


def write_csv(trials: Sequence[FinishedTrial], path: pathlib.Path) -> None:
    """Writes a row a trial: setting, seed, epochs trained, scores."""
    score_names = list(dict.fromkeys(name for one in trials for name in one.scores))
    fields = [field.name for field in dataclasses.fields(Setting)]
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow([*fields, "seed", "epochs_trained", *score_names])
    for one in trials:
        writer.writerow(
            [
                *dataclasses.astuple(one.trial.setting),
                one.trial.seed,
                len(one.epochs),
                *(one.scores.get(name, "") for name in score_names),
            ]
        )
    files.write_text(path, output.getvalue())


def summary(
    results: Sequence[SettingResult],
    *,
    baseline: Mapping[str, float] | None = None,
    baseline_name: str = "most frequent label",
    compared: Sequence[SettingResult] = (),
    compared_name: str = "compared",
) -> str:
    """A table for people: a line a setting, the best marked, and what to hold beside.

    Args:
        results: at least one.
        baseline: scores of what needs no model.
        baseline_name: what that is.
        compared: results of the same task from elsewhere, such as those of a randomly
            initialised encoder.
        compared_name: what to call them.
    """
    best = best_setting(results)
    main_metric = best.main_metric
    names = [name for name in best.trials[0].scores if name != main_metric]
    others = {one.setting: one for one in compared}
    header = ["", "setting", "seeds", f"{main_metric} mean", "std", "min", "max"]
    header += [f"{name} mean" for name in names]
    header += [compared_name, "difference"] if compared else []
    lines = [header]
    for one in results:
        line = ["*" if one is best else "", describe_setting(one.setting)]
        line += _cells(one, names)
        if compared:
            other = others.get(one.setting)
            line += [
                _format(other.mean if other else None),
                _format(one.mean - other.mean if other else None, sign="+"),
            ]
        lines.append(line)
    if baseline:
        cells = [_format(baseline.get(name)) for name in (main_metric, *names)]
        lines.append(["", baseline_name, "", cells[0], "", "", "", *cells[1:]])
    if compared:
        other = best_setting(compared)
        described = f"{compared_name}, its best: {describe_setting(other.setting)}"
        difference = _format(best.mean - other.mean, sign="+")
        line = ["", described, *_cells(other, names), _format(other.mean), difference]
        lines.append(line)
    return _table([[*line, *[""] * (len(header) - len(line))] for line in lines])


def _cells(result: SettingResult, names: Sequence[str]) -> list[str]:
    scores = result.main_scores
    values = [result.mean, result.deviation, min(scores), max(scores)]
    values += [result.mean_of(name) for name in names]
    return [str(len(scores)), *map(_format, values)]


def _format(value: float | None, sign: str = "") -> str:
    if value is None:
        return _ABSENT
    # Shares have four decimals, percentages two.
    return f"{value:{sign}.4f}" if abs(value) <= 1 else f"{value:{sign}.2f}"


def _table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            # Words to the left, numbers to the right.
            cell.ljust(width) if number < 2 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
