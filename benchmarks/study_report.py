"""Prints the tables of docs/study.md in Markdown and draws its curves.

  python -m benchmarks.study_report --plot=docs/images/study.png

reads `study_runs.jsonl`, which `benchmarks.study` writes.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import matplotlib.figure
import numpy as np
from absl import flags
from scipy import stats

from benchmarks import study
from benchmarks.study import Known, Run
from seg_tf import command_line
from seg_tf.config.base import flat

# The results of a run by dotted name.
Numbers = Mapping[str, float]

_LOSS, _PERCENT = (1.0, 3), (100.0, 1)
# Title, prefix of the names of the results, factor and digits.
_TABLES = {
    "Loss by length of the windows": ("loss_at.", *_LOSS),
    "Loss by distance to the end of the sentence": (
        "loss_before_end.sentence.",
        *_LOSS,
    ),
    "Loss by distance to the end of the paragraph": (
        *("loss_before_end.paragraph.", *_LOSS),
    ),
    "BLiMP": ("blimp.", *_PERCENT),
    "Similarity": ("similarity.", *_PERCENT),
    "Probes": ("probes.", *_PERCENT),
    "Order": ("last_validation.sentence_unshuffling_", *_LOSS),
}


def probe_mean(numbers: Numbers) -> float:
    """Returns the mean accuracy, in percent, of the probes SP and BSO."""
    probes = [value for name, value in numbers.items() if name.startswith("probes.")]
    return 100 * float(np.mean(probes))


# First arm, second arm and the measure of the primary comparisons.
_PRIMARY: tuple[tuple[str, str, Callable[[Numbers], float]], ...] = (
    ("segabert", "bert", lambda numbers: numbers["loss_at.128"]),
    ("tables", "rotary", lambda numbers: numbers["loss_at.128"]),
    ("slm", "levels", probe_mean),
)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusts p values for several tests (Holm, 1979)."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, number in enumerate(np.argsort(p_values)):
        largest = max(largest, (len(p_values) - rank) * p_values[number])
        adjusted[number] = min(1.0, largest)
    return adjusted


def measured(arm: str, known: Known) -> dict[int, Numbers]:
    """Returns the measured runs of an arm at its best rate, by seed."""
    return {
        run.seed: flat(values)
        for run, values in sorted(known.items())
        if run.arm == arm
        and "loss_at" in values
        and run.learning_rate == study.best_rate(arm, known)
    }


def _mean(values: Sequence[float] | np.ndarray, digits: int) -> str:
    """Formats the mean and, of several values, its standard error."""
    mean = f"{np.mean(values):.{digits}f}"
    if len(values) < 2:
        return mean
    return f"{mean} ± {np.std(values, ddof=1) / math.sqrt(len(values)):.{digits}f}"


def primary(known: Known, num_seeds: int = 5) -> list[list[str]]:
    """Returns the table of the primary comparisons, paired by seed.

    They are tested together, once all of them have `num_seeds` seeds.
    """
    header = ["comparison", "seeds", "first", "second", "difference", "p", "Holm's p"]
    rows, pairs = [], []
    for *arms, measure in _PRIMARY:
        sides = [measured(arm, known) for arm in arms]
        seeds = sorted(sides[0].keys() & sides[1].keys())
        if not seeds:
            continue
        first, second = ([measure(side[seed]) for seed in seeds] for side in sides)
        pairs.append((first, second))
        cells = [_mean(side, 3) for side in (first, second, np.subtract(first, second))]
        rows.append([" − ".join(arms), str(len(seeds)), *cells, "–", "–"])
    if [len(first) for first, _ in pairs] == [num_seeds] * len(_PRIMARY):
        p_values = [float(stats.ttest_rel(*pair).pvalue) for pair in pairs]
        for row, p_value, adjusted in zip(rows, p_values, holm(p_values), strict=True):
            row[-2:] = [f"{p_value:.4f}", f"{adjusted:.4f}"]
    return [header, *rows]


def _rates(known: Known) -> list[list[str]]:
    rows = [["arm", "low", "middle", "high"]]
    for arm in study.RUNS:
        row = [arm]
        for rate in sorted(study.rates(arm)):
            run = Run(arm, rate, 0)
            loss = f"{study.last_loss(known[run]):.3f}" if run in known else "–"
            row.append(f"{loss} ({rate:g})")
        rows.append(row)
    return rows


def _table(known: Known, prefix: str, factor: float, digits: int) -> list[list[str]]:
    """Returns a row per arm, with means over the seeds and their standard errors."""
    arms = {arm: list(measured(arm, known).values()) for arm in study.RUNS}
    columns = {
        name: None
        for seeds in arms.values()
        for name in (seeds[0] if seeds else ())
        if name.startswith(prefix)
    }
    rows = [["arm", "seeds", *(name.removeprefix(prefix) for name in columns)]]
    for arm, seeds in arms.items():
        cells = [
            _mean([factor * numbers[name] for numbers in seeds], digits)
            if seeds and name in seeds[0]
            else "–"
            for name in columns
        ]
        if set(cells) - {"–"}:
            rows.append([arm, str(len(seeds)), *cells])
    return rows


def _markdown(rows: Iterable[Sequence[str]]) -> str:
    header, *body = rows
    lines = [header, ["---"] * len(header), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _plot(known: Known) -> matplotlib.figure.Figure:
    """Draws the mean validation loss of each arm at its best rate over the updates."""
    figure = matplotlib.figure.Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot(
        xlabel="updates", ylabel="masked-LM loss, held-out windows"
    )
    for arm in study.RUNS:
        curves = [
            dict(values["validation_losses"])
            for run, values in known.items()
            if run.arm == arm and run.learning_rate == study.best_rate(arm, known)
        ]
        if curves:
            # A run that was made longer has validations at other updates too.
            updates = sorted(set.intersection(*map(set, curves)))
            losses = [np.mean([curve[at] for curve in curves]) for at in updates]
            axes.plot(updates, losses, label=f"{arm} ({len(curves)})")
    axes.legend(title="arm (seeds)")
    axes.grid(alpha=0.3)
    return figure


def main(_: Sequence[str]) -> None:
    known = study.results()
    tables = {
        "Learning rates": _rates(known),
        "Primary comparisons": primary(known),
        **{title: _table(known, *columns) for title, columns in _TABLES.items()},
    }
    for title, rows in tables.items():
        print(f"\n{title}\n\n{_markdown(rows)}")
    if _PLOT.value:
        _plot(known).savefig(_PLOT.value, dpi=120)


if __name__ == "__main__":
    _PLOT = flags.DEFINE_string("plot", None, "Draw the curves into this file.")
    command_line.run(main)
