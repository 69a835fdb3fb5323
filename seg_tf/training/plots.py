"""Plots the losses and other logged metrics of one or more runs."""

import pathlib
from collections.abc import Mapping, Sequence
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
_CHANCE: dict[str, Any] = {"linestyle": "--", "linewidth": 1, "alpha": 0.7}
# Baselines by the ending of their names in a log.
_BASELINES: dict[str, dict[str, Any]] = {
    "chance": _CHANCE,
    "without_context": _CHANCE,
    "longest_first": {**_CHANCE, "linestyle": ":"},
}


def curves(
    runs: Mapping[str, list[dict[str, Any]]],
    *,
    metrics: Sequence[str] = (LOSS,),
    show_training: bool,
) -> Figure:
    """Returns a figure of metrics against updates, with the baselines in the log.

    `runs` maps run names to log rows. Training rows are shown if `show_training` is
    true. Each metric has a panel. A run has the same color in all panels. Raises a
    `ValueError` for a metric that no shown row contains.
    """
    columns = min(len(metrics), 2)
    lines = -(-len(metrics) // columns)
    figure = Figure(figsize=(8 * columns, 5 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    kinds = [TRAIN] * show_training + [VALIDATION]
    rows = [row for run in runs.values() for row in run if row["kind"] in kinds]
    for number, metric in enumerate(metrics, start=1):
        if not any(metric in row for row in rows):
            known = sorted({name for row in rows for name in row} - {"kind", "updates"})
            raise ValueError(
                f"`metrics` must be in the log of a run; {' and '.join(kinds)} rows "
                f"have {', '.join(known) or 'none'}. Received: {metric!r}"
            )
        axes = figure.add_subplot(lines, columns, number)
        for run_number, (name, run) in enumerate(runs.items()):
            color = f"C{run_number % 10}"
            for kind in kinds:
                style = {"label": f"{name}, {_NAMES[kind]}", **_STYLES[kind]}
                _draw(axes, run, kind, metric, color=color, **style)
            # `x_accuracy` has `x_chance`, `x_perfect_match` has
            # `x_perfect_match_chance`, `x_loss` has `x_loss_without_context`.
            for baseline, style in _BASELINES.items():
                logged = f"{metric.removesuffix('_accuracy')}_{baseline}"
                label = f"{name}, {baseline.replace('_', ' ')}"
                _draw(axes, run, VALIDATION, logged, color=color, label=label, **style)
        axes.set_xlabel("updates")
        axes.set_ylabel(metric)
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    return figure


def _draw(
    axes: Axes, run: list[dict[str, Any]], kind: str, metric: str, **style: Any
) -> None:
    points = [
        (row["updates"], row[metric])
        for row in run
        if row["kind"] == kind and metric in row
    ]
    if points:
        axes.plot(*zip(*points, strict=True), **style)


def save_curves(
    run_folders: Mapping[str, pathlib.Path],
    output: pathlib.Path,
    *,
    metrics: Sequence[str] = (LOSS,),
    show_training: bool = True,
) -> None:
    """Saves a plot of runs' logs as a PNG file. `run_folders` maps names to folders.

    Raises a `ValueError` like `curves`, and if a log is missing, empty or invalid.
    """
    runs = {}
    for name, folder in run_folders.items():
        runs[name] = read_log(RunFolder(folder).log_file)
        if not runs[name]:
            raise ValueError(
                f"`{folder}` must be the output folder of a run. Found no rows in "
                f"{RunFolder(folder).log_file}"
            )
    figure = curves(runs, metrics=metrics, show_training=show_training)
    output.parent.mkdir(parents=True, exist_ok=True)
    with files.written_aside(output) as unfinished:
        figure.savefig(unfinished, format="png", dpi=120)
