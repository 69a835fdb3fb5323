"""Heat maps of attention, with the paragraphs and sentences of the text."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from seg_tf.inference.attention import AttentionMaps, HeadChoice, TextWindow

# Weights above this quantile have one colour: a few tokens draw nearly all attention.
_BRIGHTEST_QUANTILE = 0.99
_MAX_COLUMNS = 4
_PANEL_INCHES = (4.2, 4.5)
_COLOR_BAR_INCHES = 0.8
_TITLE_INCHES = 0.7
# The longest text whose tokens can be read at the axes.
_MAX_TOKENS_SHOWN = 48
# The smallest share of an axis between the numbers of sentences.
_LABEL_ROOM = 0.035
_BOUNDARIES = {
    "paragraph": {"color": "tab:red", "linestyle": "-", "linewidth": 0.9},
    "sentence": {"color": "tab:blue", "linestyle": "--", "linewidth": 0.6},
}


def heat_maps(
    models: Mapping[str, AttentionMaps], panels: Sequence[HeadChoice], title: str
) -> Figure:
    """Draws the attention of models on one text, side by side (Segatron, figure 3).

    Each model has a row of panels, and wide rows are broken. Panels of one layer (and
    head) share a column and a colour scale, from 0 to the 99 % quantile of all weights
    of these panels.

    Args:
        models: name -> maps.
        panels: what to draw. A model omits layers and heads that it does not have; at
            least one model has each.
        title: title of the figure.
    """
    lines: list[list[HeadChoice]] = []
    for panel in panels:
        # Heads of another layer start a new line.
        is_new = panel.head is not None and lines and lines[-1][0].layer != panel.layer
        if not lines or is_new or len(lines[-1]) == _MAX_COLUMNS:
            lines.append([])
        lines[-1].append(panel)
    columns = max(map(len, lines))
    line_inches = len(models) * _PANEL_INCHES[1] + _COLOR_BAR_INCHES
    figure = Figure(
        figsize=(columns * _PANEL_INCHES[0], len(lines) * line_inches + _TITLE_INCHES),
        layout="compressed",
    )
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    grid = figure.subplots(len(lines) * len(models), columns, squeeze=False)
    for number, line in enumerate(lines):
        block = grid[number * len(models) : (number + 1) * len(models)]
        for panel, column in zip(line, block.T, strict=False):
            _draw_column(models, panel, column)
        for axes in block[:, 0]:
            axes.set_ylabel("attending")
    for axes in grid.flat:
        if not axes.images:
            axes.set_axis_off()
    figure.legend(
        handles=[
            Line2D([], [], **style, label=f"a {name} begins")
            for name, style in _BOUNDARIES.items()
        ],
        loc="outside lower center",
        ncols=len(_BOUNDARIES),
    )
    return figure


def _draw_column(
    models: Mapping[str, AttentionMaps], panel: HeadChoice, column: Sequence[Axes]
) -> None:
    """Draws a panel of every model, with one colour bar."""
    head = "mean of heads" if panel.head is None else f"head {panel.head}"
    weights = {
        name: maps.map(panel) for name, maps in models.items() if maps.has(panel)
    }
    brightest = np.quantile(
        np.concatenate([array.ravel() for array in weights.values()]),
        _BRIGHTEST_QUANTILE,
    )
    drawn = []
    for axes, (name, maps) in zip(column, models.items(), strict=True):
        if name in weights:
            image = axes.imshow(weights[name], cmap="Greys", vmin=0, vmax=brightest)
            axes.set_title(f"{name}, layer {panel.layer}, {head}", fontsize="medium")
            _mark_structure(axes, maps.window)
            drawn.append(axes)
    bar = image.get_figure().colorbar(
        image, ax=drawn, location="bottom", extend="max", shrink=0.8, aspect=30
    )
    bar.set_label("attention weight (black: the largest 1 %)", fontsize="small")
    bar.ax.tick_params(labelsize="small")


def _mark_structure(axes: Axes, window: TextWindow) -> None:
    """Draws the boundaries of sentences and paragraphs, and labels the axes."""
    is_start = {
        "sentence": np.diff(window.sentences) > 0,
        "paragraph": np.diff(window.paragraphs) > 0,
    }
    is_start["sentence"] &= ~is_start["paragraph"]
    for name, starts in is_start.items():
        for start in np.flatnonzero(starts) + 0.5:
            axes.axhline(start, **_BOUNDARIES[name])
            axes.axvline(start, **_BOUNDARIES[name])
    if len(window.tokens) <= _MAX_TOKENS_SHOWN:
        positions, labels, what = range(len(window.tokens)), window.tokens, "tokens"
    else:
        positions, labels, what = _numbers(window)
    axes.set_xticks(positions, labels, rotation=90, fontsize="x-small")
    axes.set_yticks(positions, labels, fontsize="x-small")
    axes.set_xlabel(f"attended to ({what})")


def _numbers(window: TextWindow) -> tuple[list[float], list[str], str]:
    """Numbers of sentences, or of paragraphs, in the middle of each, if there is room.

    Returns:
        Positions, labels, and what these are.
    """
    if window.num_sentences * _LABEL_ROOM <= 1:
        spans, what = window.sentences, "paragraph.sentence"
        starts = np.flatnonzero(np.diff(spans, prepend=-1))
        paragraphs = window.paragraphs[starts]
        firsts = np.searchsorted(paragraphs, paragraphs)
        labels = [
            f"{paragraph}.{number - first}"
            for number, (paragraph, first) in enumerate(
                zip(paragraphs, firsts, strict=True)
            )
        ]
    else:
        spans, what = window.paragraphs, "paragraph"
        labels = [str(number) for number in range(window.num_paragraphs)]
    positions, shown, last = [], [], -np.inf
    for number, label in enumerate(labels):
        middle = float(np.flatnonzero(spans == number).mean())
        if middle - last >= _LABEL_ROOM * len(spans):
            positions.append(middle)
            shown.append(label)
            last = middle
    return positions, shown, what
