"""Heat maps of attention, with the paragraphs and sentences of the text."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from seg_tf.inference.attention import AttentionMaps, TextWindow

# Weights above this quantile have one colour: a few tokens draw nearly all attention.
_BRIGHTEST_QUANTILE = 0.99
_MAX_COLUMNS = 4
_PANEL_INCHES = (4.2, 4.5)
# Of titles, colour bars and the legend.
_OTHER_INCHES = 0.8
# The longest text whose tokens can be read at the axes.
_MAX_TOKENS_SHOWN = 48
_BOUNDARIES = {
    "paragraph": {"color": "tab:red", "linestyle": "-", "linewidth": 0.9},
    "sentence": {"color": "tab:blue", "linestyle": "--", "linewidth": 0.6},
}


def heat_maps(
    models: Mapping[str, AttentionMaps],
    panels: Sequence[tuple[int, int | None]],
    title: str,
) -> Figure:
    """Draws the attention of models on one text (Segatron, figure 3).

    Models, by name, are above each other. Their panels of one layer and head share a
    colour scale, from 0 to the 99 % quantile of all weights of these panels. A head of
    None is the mean of the heads. All models have all panels.
    """
    num_columns = min(len(panels), _MAX_COLUMNS)
    num_lines = -(-len(panels) // num_columns)
    height = num_lines * (len(models) * _PANEL_INCHES[1] + _OTHER_INCHES)
    figure = Figure(
        figsize=(num_columns * _PANEL_INCHES[0], height + _OTHER_INCHES),
        layout="compressed",
    )
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    grid = figure.subplots(num_lines * len(models), num_columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    # Every panel has a column of axes, one for each model.
    columns = grid.reshape(num_lines, len(models), num_columns).swapaxes(1, 2)
    columns = columns.reshape(-1, len(models))
    for (layer, head), column in zip(panels, columns, strict=False):
        weights = [maps.map(layer, head) for maps in models.values()]
        brightest = np.quantile(
            np.concatenate(list(map(np.ravel, weights))), _BRIGHTEST_QUANTILE
        )
        shown = "mean of heads" if head is None else f"head {head}"
        for axes, name, matrix in zip(column, models, weights, strict=True):
            axes.set_axis_on()
            image = axes.imshow(matrix, cmap="Greys", vmin=0, vmax=brightest)
            axes.set_title(f"{name}, layer {layer}, {shown}", fontsize="medium")
            _mark_structure(axes, models[name].window)
        bar = figure.colorbar(
            image, ax=column, location="bottom", extend="max", shrink=0.8, aspect=30
        )
        bar.set_label("attention weight (black: the largest 1 %)", fontsize="small")
        bar.ax.tick_params(labelsize="small")
    figure.legend(
        handles=[
            Line2D([], [], **style, label=f"a {name} begins")
            for name, style in _BOUNDARIES.items()
        ],
        loc="outside lower center",
        ncols=len(_BOUNDARIES),
    )
    return figure


def _mark_structure(axes: Axes, window: TextWindow) -> None:
    """Draws the boundaries of sentences and paragraphs, and labels the axes."""
    is_paragraph = np.diff(window.paragraphs) > 0
    is_sentence = (np.diff(window.sentences) > 0) & ~is_paragraph
    for name, starts in (("sentence", is_sentence), ("paragraph", is_paragraph)):
        for start in np.flatnonzero(starts) + 0.5:
            axes.axhline(start, **_BOUNDARIES[name])
            axes.axvline(start, **_BOUNDARIES[name])
    if len(window.tokens) <= _MAX_TOKENS_SHOWN:
        ticks, labels, what = range(len(window.tokens)), window.tokens, "tokens"
    else:
        labels, what = range(window.num_paragraphs), "paragraphs"
        ticks = [np.flatnonzero(window.paragraphs == n).mean() for n in labels]
    axes.set_xticks(ticks, labels, rotation=90, fontsize="x-small")
    axes.set_yticks(ticks, labels, fontsize="x-small")
    axes.set_xlabel(f"attended to ({what})")
    axes.set_ylabel("attending")
