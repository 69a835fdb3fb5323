"""Learning curves of trials: losses and the main metric of every epoch."""

import pathlib
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from seg_tf import files
from seg_tf.finetuning.classification.dev_scores import PREFIX
from seg_tf.finetuning.trials.results import SettingResult
from seg_tf.finetuning.trials.trial_runs import FinishedTrial

# More colours could not be told apart.
MOST_SETTINGS = 8
_SEED = {"linewidth": 0.8, "alpha": 0.45}
_MEAN = {"marker": "o", "markersize": 3}
_BASELINE = {"color": "gray", "linestyle": "--", "linewidth": 1}


def learning_curves(
    results: Sequence[SettingResult],
    *,
    title: str,
    baseline: float | None = None,
    baseline_name: str = "most frequent label",
) -> Figure:
    """Draws what the logs of epochs have of training loss, dev loss and main metric.

    Every seed is a thin line, the colour is that of its setting; the mean over seeds is
    a thick one, as far as all seeds got. Of a probe, which is trained with several
    strengths of its penalty, the training with the chosen one is drawn. Of many
    settings the best `MOST_SETTINGS` are drawn, by their mean.

    Args:
        results: those of one task.
        title: of the figure.
        baseline: main metric of what needs no model, drawn dashed.
        baseline_name: what that is.
    """
    main_metric = results[0].main_metric
    # Of MNLI, the loss of the dev split whose score chooses.
    dev_loss = PREFIX + "_".join([*main_metric.split("_")[:-1], "loss"])
    wanted = {
        "loss": "training loss",
        dev_loss: "dev loss",
        PREFIX + main_metric: f"dev {main_metric}",
    }
    drawn = sorted(results, key=lambda one: -one.mean)[:MOST_SETTINGS]
    rows = [row for one in drawn for trial in one.trials for row in _epochs(trial)]
    panels = [name for name in wanted if any(name in row for row in rows)]
    figure = Figure(figsize=(6 * max(1, len(panels)), 6), layout="constrained")
    FigureCanvasAgg(figure)
    some = f" (best {len(drawn)} of {len(results)} settings)"
    figure.suptitle(title + (some if len(results) > len(drawn) else ""))
    for number, name in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), number)
        for color, result in enumerate(drawn):
            _draw_setting(axes, result, name, f"C{color}")
        if name == PREFIX + main_metric and baseline is not None:
            axes.axhline(baseline, label=baseline_name, **_BASELINE)
        axes.set_xlabel("epoch")
        axes.set_ylabel(wanted[name])
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(visible=True, alpha=0.3)
    if panels:
        # The last panel has all there is to explain.
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def save(figure: Figure, output: pathlib.Path) -> None:
    """Writes a figure as a PNG."""
    with files.written_aside(output) as unfinished:
        figure.savefig(unfinished, format="png", dpi=120)


def _draw_setting(axes: Axes, result: SettingResult, name: str, color: str) -> None:
    curves = [
        [row[name] for row in _epochs(trial) if name in row] for trial in result.trials
    ]
    for curve in curves:
        axes.plot(range(1, 1 + len(curve)), curve, color=color, **_SEED)
    means = [sum(values) / len(values) for values in zip(*curves, strict=False)]
    seeds = "1 seed" if len(curves) == 1 else f"{len(curves)} seeds"
    label = f"{result.described} ({seeds})"
    axes.plot(range(1, 1 + len(means)), means, color=color, label=label, **_MEAN)


def _epochs(trial: FinishedTrial) -> list[Mapping[str, float]]:
    chosen = trial.scores.get("l2")
    return [row for row in trial.epochs if row.get("l2", chosen) == chosen]
