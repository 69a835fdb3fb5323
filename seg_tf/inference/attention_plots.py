"""Heat maps of attention, with the paragraphs and sentences of the text."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D

from seg_tf.inference.attention_maps import AttentionMaps, HeadChoice
from seg_tf.inference.text_windows import TextWindow

# Weights above this quantile have one colour: some tokens draw nearly all attention.
_BRIGHTEST_QUANTILE = 0.99
_MAX_COLUMNS = 4
# Width and height, with numbers at the axes.
_PANEL_INCHES = (4.2, 4.5)
_COLOR_BAR_INCHES = 0.8
_TITLE_INCHES = 0.7
_ATTENDED, _ATTENDING = "attended to", "attending"
# The longest text whose tokens can be read at the axes.
_MAX_TOKENS_SHOWN = 48
# The least share of an axis that the number of a sentence takes.
_LABEL_ROOM = 0.035
_BOUNDARIES = {
    "paragraph": {"color": "tab:red", "linestyle": "-", "linewidth": 0.9},
    "sentence": {"color": "tab:blue", "linestyle": "--", "linewidth": 0.6},
}


def heat_maps(
    models: Mapping[str, AttentionMaps], panels: Sequence[HeadChoice], title: str
) -> Figure:
    """Draws the attention of models on one text, side by side (Segatron, figure 3).

    A model has a row of panels. Panels of one layer (and head) stand below each other,
    and their colours mean the same: from 0 to the weight that 99 % of all weights of
    these panels do not exceed.

    Args:
        models: name -> maps.
        panels: what to draw. A model leaves out layers and heads that it has not; at
            least one model has each.
        title: of the figure.

    Returns:
        The figure, in which wide rows are broken.
    """
    lines = _lines(panels)
    columns = max(map(len, lines))
    line_inches = len(models) * _PANEL_INCHES[1] + _COLOR_BAR_INCHES
    figure = Figure(
        figsize=(
            columns * _PANEL_INCHES[0],
            len(lines) * line_inches + _TITLE_INCHES,
        ),
        layout="compressed",
    )
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    grid = figure.subplots(len(lines) * len(models), columns, squeeze=False)
    for number, of_line in enumerate(lines):
        begin = number * len(models)
        block = grid[begin : begin + len(models)]
        for panel, column in zip(of_line, block.T, strict=False):
            _draw_column(models, panel, column)
        for axes in block[:, 0]:
            axes.set_ylabel(_ATTENDING)
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


def _lines(panels: Sequence[HeadChoice]) -> list[list[HeadChoice]]:
    """Panels in lines that are not too wide; heads of another layer begin a new one."""
    lines = []
    for _, of_line in itertools.groupby(
        panels, lambda panel: None if panel.head is None else panel.layer
    ):
        of_line = list(of_line)
        lines += [
            of_line[begin : begin + _MAX_COLUMNS]
            for begin in range(0, len(of_line), _MAX_COLUMNS)
        ]
    return lines


def _name(panel: HeadChoice) -> str:
    head = "mean of heads" if panel.head is None else f"head {panel.head}"
    return f"layer {panel.layer}, {head}"


def _draw_column(
    models: Mapping[str, AttentionMaps], panel: HeadChoice, column: Sequence[Axes]
) -> None:
    """One panel of every model, in the same colours."""
    found = {name: maps.map(panel) for name, maps in models.items() if maps.has(panel)}
    brightest = np.quantile(
        np.concatenate([weights.ravel() for weights in found.values()]),
        _BRIGHTEST_QUANTILE,
    )
    drawn = []
    for axes, (name, maps) in zip(column, models.items(), strict=True):
        if name in found:
            image = axes.imshow(found[name], cmap="Greys", vmin=0, vmax=brightest)
            axes.set_title(f"{name}, {_name(panel)}", fontsize="medium")
            _mark_structure(axes, maps.window)
            drawn.append((axes, image))
    _, image = drawn[-1]
    _add_color_bar(image, [axes for axes, _ in drawn])


def _add_color_bar(image: AxesImage, column: Sequence[Axes]) -> None:
    bar = image.get_figure().colorbar(
        image, ax=column, location="bottom", extend="max", shrink=0.8, aspect=30
    )
    bar.set_label("attention weight (black: the largest 1 %)", fontsize="small")
    bar.ax.tick_params(labelsize="small")


def _mark_structure(axes: Axes, window: TextWindow) -> None:
    """Draws where sentences and paragraphs begin, and names them at the axes."""
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
    axes.set_xlabel(f"{_ATTENDED} ({what})")


def _numbers(window: TextWindow) -> tuple[list[float], list[str], str]:
    """Numbers of sentences, or of paragraphs, in the middle of each, if there is room.

    Returns:
        Positions, labels, and what these are.
    """
    sentence_in_paragraph = _sentences_in_paragraphs(window)
    if window.num_sentences * _LABEL_ROOM <= 1:
        spans = window.sentences
        labels = [
            f"{window.paragraphs[start]}.{sentence_in_paragraph[start]}"
            for start in np.flatnonzero(np.diff(spans, prepend=-1))
        ]
        what = "paragraph.sentence"
    else:
        spans = window.paragraphs
        labels = [str(number) for number in range(window.num_paragraphs)]
        what = "paragraph"
    middles = [
        float(np.flatnonzero(spans == number).mean()) for number in range(len(labels))
    ]
    kept, last = [], -np.inf
    for number, middle in enumerate(middles):
        if middle - last >= _LABEL_ROOM * len(spans):
            kept.append(number)
            last = middle
    return [middles[one] for one in kept], [labels[one] for one in kept], what


def _sentences_in_paragraphs(window: TextWindow) -> np.ndarray:
    """Sentence index in its paragraph of each position, from 0."""
    first = {}
    for paragraph, sentence in zip(window.paragraphs, window.sentences, strict=True):
        first.setdefault(paragraph, sentence)
    return window.sentences - np.array([first[one] for one in window.paragraphs])
