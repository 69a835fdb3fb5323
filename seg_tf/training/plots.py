"""Loss curves of one run or several."""

import pathlib
from collections.abc import Mapping

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from seg_tf import files
from seg_tf.training import run_log
from seg_tf.training.run_folder import RunFolder


def loss_curve(
    runs: Mapping[str, list[dict]], *, show_training: bool, title: str = ""
) -> Figure:
    """Draws loss against updates.

    Args:
        runs: rows of the log of each run, by its name.
        show_training: whether to draw the training loss beside that of validation.
        title: title of the plot.

    Returns:
        A figure with one axes. A run's curves have one colour.
    """
    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for number, (name, rows) in enumerate(runs.items()):
        color = f"C{number % 10}"
        if show_training:
            axes.plot(
                *_points(rows, run_log.TRAIN),
                color=color,
                alpha=0.4,
                linewidth=1,
                label=f"{name}, training",
            )
        axes.plot(
            *_points(rows, run_log.VALIDATION),
            color=color,
            marker="o",
            markersize=3,
            label=f"{name}, validation",
        )
    axes.set_xlabel("updates")
    axes.set_ylabel("loss")
    axes.set_title(title)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    return figure


def save_loss_curve(
    run_folders: Mapping[str, pathlib.Path],
    output: pathlib.Path,
    *,
    show_training: bool = True,
) -> None:
    """Writes a PNG of the logs of runs, by name of run.

    Raises:
        ValueError: if a folder has no log.
    """
    runs = {}
    for name, folder in run_folders.items():
        rows = run_log.read(RunFolder(folder).log_file)
        if not rows:
            raise ValueError(
                f"`{folder}` must be the output folder of a run. Found no rows in "
                f"{RunFolder(folder).log_file}"
            )
        runs[name] = rows
    figure = loss_curve(runs, show_training=show_training)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(files.aside(output), format="png", dpi=120)
    files.publish(output)


def _points(rows: list[dict], kind: str) -> tuple[list[int], list[float]]:
    points = [(row["updates"], row["loss"]) for row in rows if row["kind"] == kind]
    return [updates for updates, _ in points], [loss for _, loss in points]
