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
# Scores of guessing that do not depend on the data, by the ending of the metric.
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
    "longest_first": {**_CHANCE, "linestyle": ":"},
}


def curves(
    runs: Mapping[str, list[dict[str, Any]]],
    *,
    metrics: Sequence[str] = (LOSS,),
    show_training: bool,
    labels: Mapping[str, str] = types.MappingProxyType({}),
) -> Figure:
    """Draws metrics against updates.

    The score of guessing is a dashed line, if it is known: from the log
    (`…_accuracy` has a `…_chance`, `…perfect_match` has a `…perfect_match_chance`), or
    0 for Kendall's tau and Matthews' correlation, and 0.5 for balanced accuracy and the
    accuracy of pairs. The score of sorting sentences by length, `…_longest_first`, is a
    dotted line. The loss of a model that ignores the context, `…_without_context`, is
    dashed.

    Args:
        runs: rows of the log of each run, by its name.
        metrics: metrics to draw, a panel each. A panel leaves out runs that lack it.
        show_training: whether to draw training as well as validation.
        labels: label of the axis of a metric; its name by default.

    Returns:
        A figure with one axes per metric. A run has the same colour in all.

    Raises:
        ValueError: if no run has one of the metrics.
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
                label = f"{name}, {_NAMES[kind]}"
                _draw(axes, run, kind, metric, color, label, _STYLES[kind])
            # `x_accuracy` has `x_chance`, `x_perfect_match` has
            # `x_perfect_match_chance`, `x_loss` has `x_loss_without_context`.
            for baseline, style in _BASELINES.items():
                logged = f"{metric.removesuffix('_accuracy')}_{baseline}"
                label = f"{name}, {baseline.replace('_', ' ')}"
                _draw(axes, run, VALIDATION, logged, color, label, style)
        for ending, chance in _CHANCE_OF.items():
            if metric.endswith(ending):
                axes.axhline(chance, color="gray", label="chance", **_CHANCE)
        axes.set_xlabel("updates")
        axes.set_ylabel(labels.get(metric, metric))
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    return figure


def _draw(
    axes: Axes,
    run: list[dict[str, Any]],
    kind: str,
    metric: str,
    color: str,
    label: str,
    style: Mapping[str, Any],
) -> None:
    points = [
        (row["updates"], row[metric])
        for row in run
        if row["kind"] == kind and metric in row
    ]
    if points:
        axes.plot(*zip(*points, strict=True), color=color, label=label, **style)


def save_curves(
    run_folders: Mapping[str, pathlib.Path],
    output: pathlib.Path,
    *,
    metrics: Sequence[str] = (LOSS,),
    show_training: bool = True,
    report: Callable[[str], None] = print,
) -> None:
    """Writes a PNG of the logs of runs, by name of run.

    Total losses of runs with different objectives, or with different weights, are not
    comparable. The losses of the objectives that all runs share are drawn instead, if
    there are any.

    Raises:
        ValueError: if a folder has no log, or no log has one of the metrics.
    """
    runs = {}
    for name, folder in run_folders.items():
        runs[name] = read_log(RunFolder(folder).log_file)
        if not runs[name]:
            raise ValueError(
                f"`{folder}` must be the output folder of a run. Found no rows in "
                f"{RunFolder(folder).log_file}"
            )
    labels: Mapping[str, str] = {}
    if LOSS in metrics:
        weights = {name: _loss_weights(path) for name, path in run_folders.items()}
        metrics, labels = _comparable(metrics, weights, report)
    figure = curves(runs, metrics=metrics, show_training=show_training, labels=labels)
    output.parent.mkdir(parents=True, exist_ok=True)
    with files.written_aside(output) as unfinished:
        figure.savefig(unfinished, format="png", dpi=120)


def _loss_weights(folder: pathlib.Path) -> dict[str, float]:
    """Weight of each objective in the total loss of a run, read from its `run.json`."""
    run_file = RunFolder(folder).run_file
    if not run_file.exists():
        return {}
    objectives = files.read_json(run_file)["config"]["objectives"]
    return {name: value.get("loss_weight", 1.0) for name, value in objectives.items()}


def _comparable(
    metrics: Sequence[str],
    weights: Mapping[str, Mapping[str, float]],
    report: Callable[[str], None],
) -> tuple[list[str], dict[str, str]]:
    """Metrics in which the runs can be compared, and the label of the total loss."""
    runs = list(weights.values())
    if all(run == runs[0] for run in runs):
        label = {LOSS: f"{LOSS} ({' + '.join(runs[0])})"} if runs[0] else {}
        return list(metrics), label
    totals = "; ".join(
        f"{name}: " + " + ".join(f"{weight:g} {part}" for part, weight in run.items())
        for name, run in weights.items()
    )
    shared = [f"{name}_{LOSS}" for name in runs[0] if all(name in run for run in runs)]
    advice = f"Drawn instead: {', '.join(shared)}" if shared else "Do not compare them"
    report(f"The runs have different total losses ({totals}). {advice}")
    if not shared:
        return list(metrics), {LOSS: f"{LOSS} (different objectives: not comparable)"}
    parts = (shared if metric == LOSS else [metric] for metric in metrics)
    return list(dict.fromkeys(itertools.chain.from_iterable(parts))), {}
