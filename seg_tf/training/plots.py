"""Curves of one run or several: losses and any other metric of the log."""

import itertools
import pathlib
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from seg_tf import files
from seg_tf.training.run_folder import TRAIN, VALIDATION, RunFolder, read_log

LOSS = "loss"
_NAMES = {TRAIN: "training", VALIDATION: "validation"}
_STYLES: dict[str, dict[str, Any]] = {
    TRAIN: {"linewidth": 1, "alpha": 0.4},
    VALIDATION: {"marker": "o", "markersize": 3},
}
# What guessing scores whatever the data.
_CHANCE_OF = {
    "kendall_tau": 0.0,
    "kendall_tau_in_paragraphs": 0.0,
    "mcc": 0.0,
    "balanced_accuracy": 0.5,
    "balanced_accuracy_at_rate": 0.5,
    "pair_accuracy": 0.5,
}
_CHANCE: dict[str, Any] = {"linestyle": "--", "linewidth": 1, "alpha": 0.7}
# Scores that need no model, by the ending of their names in a log.
_BASELINES: dict[str, dict[str, Any]] = {
    "chance": _CHANCE,
    "without_context": _CHANCE,
    "longest_first": {"linestyle": ":", "linewidth": 1, "alpha": 0.7},
}


def curves(
    runs: Mapping[str, list[dict[str, Any]]],
    *,
    metrics: Sequence[str] = (LOSS,),
    show_training: bool,
    labels: Mapping[str, str] = types.MappingProxyType({}),
) -> Figure:
    """Draws metrics against updates.

    The score of a guess is a dashed line where the log has it: `…_accuracy` has a
    `…_chance`, `…perfect_match` has a `…perfect_match_chance`. It is 0 for Kendall's
    tau and Matthews' correlation, 0.5 for balanced accuracy and that of pairs. The
    score of sorting sentences by length, `…_longest_first`, is a dotted line. The loss
    of a model that ignores the context, `…_without_context`, is dashed.

    Args:
        runs: rows of the log of each run, by its name.
        metrics: what to draw, a panel each. A panel leaves out runs that lack it.
        show_training: whether to draw the values of training beside those of
            validation.
        labels: what to write at the axis of a metric in place of its name.

    Returns:
        A figure with one axes per metric. A run's curves have one colour in all.

    Raises:
        ValueError: if no run has one of the metrics.
    """
    columns = min(len(metrics), 2)
    lines = -(-len(metrics) // columns)
    figure = Figure(figsize=(8 * columns, 5 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    kinds = [TRAIN] * show_training + [VALIDATION]
    for number, metric in enumerate(metrics, start=1):
        _check_metric(metric, runs, kinds)
        axes = figure.add_subplot(lines, columns, number)
        for run_number, (name, rows) in enumerate(runs.items()):
            _draw_run(axes, name, rows, metric, kinds, color=f"C{run_number % 10}")
        for ending, chance in _CHANCE_OF.items():
            if metric.endswith(ending):
                axes.axhline(chance, color="gray", label="chance", **_CHANCE)
        axes.set_xlabel("updates")
        axes.set_ylabel(labels.get(metric, metric))
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    return figure


def save_curves(
    run_folders: Mapping[str, pathlib.Path],
    output: pathlib.Path,
    *,
    metrics: Sequence[str] = (LOSS,),
    show_training: bool = True,
    report: Callable[[str], None] = print,
) -> None:
    """Writes a PNG of the logs of runs, by name of run.

    Total losses of runs with different objectives, or with different weights of them,
    are not comparable. The losses of the objectives that all runs share are drawn
    instead, if there are any.

    Args:
        run_folders: output folder of each run, by its name.
        output: the PNG.
        metrics: as in `curves`.
        show_training: as in `curves`.
        report: called with a line if total losses are not comparable.

    Raises:
        ValueError: if a folder has no log, or no log has one of the metrics.
    """
    runs = {}
    for name, folder in run_folders.items():
        rows = read_log(RunFolder(folder).log_file)
        if not rows:
            raise ValueError(
                f"`{folder}` must be the output folder of a run. Found no rows in "
                f"{RunFolder(folder).log_file}"
            )
        runs[name] = rows
    labels: Mapping[str, str] = {}
    if LOSS in metrics:
        objectives = {name: _objectives(folder) for name, folder in run_folders.items()}
        metrics, labels = _comparable(metrics, objectives, report)
    figure = curves(runs, metrics=metrics, show_training=show_training, labels=labels)
    output.parent.mkdir(parents=True, exist_ok=True)
    with files.written_aside(output) as unfinished:
        figure.savefig(unfinished, format="png", dpi=120)


def _objectives(folder: pathlib.Path) -> dict[str, float]:
    """Weight of each objective in the total loss of a run, read from its `run.json`."""
    run_file = RunFolder(folder).run_file
    if not run_file.exists():
        return {}
    objectives = files.read_json(run_file)["config"]["objectives"]
    return {name: value.get("loss_weight", 1.0) for name, value in objectives.items()}


def _comparable(
    metrics: Sequence[str],
    objectives: Mapping[str, Mapping[str, float]],
    report: Callable[[str], None],
) -> tuple[list[str], dict[str, str]]:
    """Metrics in which the runs can be compared, and the label of the total loss."""
    first, *others = objectives.values()
    if all(weights == first for weights in others):
        return list(metrics), {LOSS: f"{LOSS} ({' + '.join(first)})"} if first else {}
    totals = "; ".join(
        f"{name}: "
        + " + ".join(f"{weight:g} {part}" for part, weight in weights.items())
        for name, weights in objectives.items()
    )
    shared = [f"{name}_{LOSS}" for name in first if all(name in one for one in others)]
    advice = f"Drawn instead: {', '.join(shared)}" if shared else "Do not compare them"
    report(f"The runs have different total losses ({totals}). {advice}")
    if not shared:
        return list(metrics), {LOSS: f"{LOSS} (different objectives: not comparable)"}
    # In place of the total, and once.
    parts = (shared if metric == LOSS else [metric] for metric in metrics)
    return list(dict.fromkeys(itertools.chain.from_iterable(parts))), {}


def _draw_run(
    axes: Axes,
    name: str,
    rows: list[dict[str, Any]],
    metric: str,
    kinds: Sequence[str],
    *,
    color: str,
) -> None:
    for kind in kinds:
        points = _points(rows, kind, metric)
        if points:
            label = f"{name}, {_NAMES[kind]}"
            axes.plot(
                *zip(*points, strict=True), color=color, label=label, **_STYLES[kind]
            )
    # `x_accuracy` has `x_chance`, `x_perfect_match` has `x_perfect_match_chance`,
    # `x_loss` has `x_loss_without_context`.
    for baseline, style in _BASELINES.items():
        name_in_log = f"{metric.removesuffix('_accuracy')}_{baseline}"
        points = _points(rows, VALIDATION, name_in_log)
        if points:
            label = f"{name}, {baseline.replace('_', ' ')}"
            axes.plot(*zip(*points, strict=True), color=color, label=label, **style)


def _check_metric(
    metric: str, runs: Mapping[str, list[dict[str, Any]]], kinds: Sequence[str]
) -> None:
    rows = [row for rows in runs.values() for row in rows if row["kind"] in kinds]
    if not any(metric in row for row in rows):
        found = sorted({name for row in rows for name in row} - {"kind", "updates"})
        raise ValueError(
            f"`metrics` must be in the log of a run; {' and '.join(kinds)} rows have "
            f"{', '.join(found) or 'none'}. Received: {metric!r}"
        )


def _points(
    rows: list[dict[str, Any]], kind: str, metric: str
) -> list[tuple[int, float]]:
    return [
        (row["updates"], row[metric])
        for row in rows
        if row["kind"] == kind and metric in row
    ]
