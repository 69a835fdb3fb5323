"""Results of trials: a table of them all, and a summary of settings over seeds."""

import csv
import dataclasses
import functools
import io
import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence

from seg_tf import files
from seg_tf.command_line import aligned_table
from seg_tf.finetuning.trials.trial import Setting
from seg_tf.finetuning.trials.trial_progress import describe_setting
from seg_tf.finetuning.trials.trial_runs import FinishedTrial

_ABSENT = "–"
# Choices that a runner made on dev, listed among the scores.
_CHOICES = ("l2", "null_threshold")


@dataclasses.dataclass(frozen=True)
class SettingResult:
    """Scores of a setting over its seeds.

    Attributes:
        setting: the setting.
        trials: its finished trials, at least one.
        main_metric: the score that chooses.
        probe: as for `describe_setting`.
    """

    setting: Setting
    trials: Sequence[FinishedTrial]
    main_metric: str
    probe: str | None = None

    @property
    def described(self) -> str:
        """The setting in few words."""
        return describe_setting(self.setting, self.probe)

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

    def mean_of(self, name: str) -> float | None:
        """Mean of another score; None if a trial does not have it."""
        if any(name not in one.scores for one in self.trials):
            return None
        return statistics.fmean(one.scores[name] for one in self.trials)


def by_setting(
    trials: Sequence[FinishedTrial], main_metric: str, probe: str | None = None
) -> list[SettingResult]:
    """Results of every setting, in the order in which the trials have them.

    Args:
        trials: those of one task.
        main_metric: the score that chooses.
        probe: as for `describe_setting`.
    """
    settings = dict.fromkeys(one.trial.setting for one in trials)
    return [
        SettingResult(
            setting,
            [one for one in trials if one.trial.setting == setting],
            main_metric,
            probe,
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
    in_percent: bool = False,
) -> str:
    """A table for people: a line a setting, the best marked, and what to hold beside.

    Args:
        results: at least one.
        baseline: scores of what needs no model.
        baseline_name: what that is.
        compared: results of the same task from elsewhere, such as those of a randomly
            initialised encoder.
        compared_name: what to call them.
        in_percent: as for `format_score`.
    """
    shown = functools.partial(format_score, in_percent=in_percent)
    best = best_setting(results)
    main_metric = best.main_metric
    names = [
        name
        for name in best.trials[0].scores
        if name != main_metric and name not in _CHOICES
    ]
    others = {one.setting: one for one in compared}
    header = ["", "setting", "seeds", f"{main_metric} mean", "std", "min", "max"]
    header += [f"{name} mean" for name in names]
    header += [compared_name, "difference"] if compared else []
    lines = [header]
    for one in results:
        line = ["*" if one is best else "", one.described]
        line += _cells(one, names, shown)
        if compared:
            other = others.get(one.setting)
            line += [
                shown(other.mean if other else None),
                shown(one.mean - other.mean if other else None, sign="+"),
            ]
        lines.append(line)
    if baseline:
        cells = [shown(baseline.get(name)) for name in (main_metric, *names)]
        lines.append(["", baseline_name, "", cells[0], "", "", "", *cells[1:]])
    if compared:
        other = best_setting(compared)
        described = f"{compared_name}, its best: {other.described}"
        difference = shown(best.mean - other.mean, sign="+")
        cells = _cells(other, names, shown)
        lines.append(["", described, *cells, shown(other.mean), difference])
    return aligned_table([[*line, *[""] * (len(header) - len(line))] for line in lines])


def format_score(
    value: float | None, *, in_percent: bool = False, sign: str = ""
) -> str:
    """A score for people.

    Args:
        value: the score; None if there is none.
        in_percent: whether it is a percentage, which gets two decimals, or a share,
            which gets four.
        sign: "+" shows that of positive ones too.
    """
    if value is None:
        return _ABSENT
    return f"{value:{sign}.{2 if in_percent else 4}f}"


def _cells(
    result: SettingResult, names: Sequence[str], shown: Callable[..., str]
) -> list[str]:
    scores = result.main_scores
    values = [result.mean, result.deviation, min(scores), max(scores)]
    values += [result.mean_of(name) for name in names]
    return [str(len(scores)), *map(shown, values)]
