"""Charts of lengths and of shares, as SVG for an HTML page."""

import io
import math
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_BLUE, _AMBER = "#3b6fb6", "#e0a33c"
_PERCENT = ticker.FuncFormatter(lambda share, _: f"{100 * share:.4g} %")
# Ids of elements follow from the salt, and no date is written: equal bytes each time.
_REPEATABLE = {"svg.hashsalt": "report", "svg.fonttype": "none", "font.size": 9}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def percent(share: float) -> str:
    """A share for people, with two digits that say something."""
    value = 100 * share
    if value == 0 or value >= 10:
        return f"{value:.0f} %" if value in (0, 100) else f"{value:.1f} %"
    return f"{value:.1f} %" if value >= 1 else f"{value:.2g} %"


def histogram(
    bins: Sequence[tuple[int, int, int]], marks: Sequence[tuple[str, float]]
) -> str:
    """A histogram of lengths over a logarithmic axis; areas are shares.

    Args:
        bins: first length, last length and count of each bin, rising.
        marks: name and length of vertical lines.
    """
    with matplotlib.rc_context(_REPEATABLE):
        figure = Figure(figsize=(5, 2.4), layout="constrained")
        axes = figure.add_subplot()
        firsts, lasts, counts = zip(*bins, strict=True)
        edges = np.log2([*firsts, lasts[-1] + 1])
        widths = np.diff(edges)
        heights = counts / np.sum(counts) / widths
        style = {"color": _BLUE, "edgecolor": "white", "clip_on": False}
        axes.bar(edges[:-1], heights, widths, align="edge", **style)
        for name, length in marks:
            # Integers fill their bar: a mark is in the middle of it.
            at = math.log2(length * (length + 1)) / 2
            axes.axvline(at, color="black", linestyle=":", clip_on=False)
            axes.text(at, 1.02, name, ha="center", transform=axes.get_xaxis_transform())
        axes.set_xlim(edges[0], edges[-1])
        axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=1))
        axes.xaxis.set_major_formatter(lambda power, _: f"{2**power:,.0f}")
        axes.yaxis.set_major_formatter(_PERCENT)
        return _svg(axes, "y")


def paired_bars(
    rows: Sequence[tuple[str, float, float]], names: tuple[str, str]
) -> str:
    """Two horizontal bars a row, of shares.

    Args:
        rows: a name and two shares.
        names: those of the two kinds of bars.
    """
    with matplotlib.rc_context(_REPEATABLE):
        figure = Figure(figsize=(9, 0.6 * len(rows) + 0.8), layout="constrained")
        axes = figure.add_subplot()
        for number, (name, color) in enumerate(
            zip(names, (_BLUE, _AMBER), strict=True)
        ):
            places = [place + 0.4 * number for place in range(len(rows))]
            shares = [row[1 + number] for row in rows]
            bars = axes.barh(
                places, shares, 0.35, color=color, label=name, clip_on=False
            )
            axes.bar_label(bars, map(percent, shares), padding=4)
        axes.set_yticks(
            [place + 0.2 for place in range(len(rows))], [row[0] for row in rows]
        )
        axes.invert_yaxis()
        axes.xaxis.set_major_formatter(_PERCENT)
        figure.legend(loc="outside upper left", ncols=2, frameon=False)
        return _svg(axes, "x")


def _svg(axes: Axes, shares: str) -> str:
    """The figure of some axes as an element; a grid marks the axis of shares."""
    axes.grid(axis=shares, color="#e3e8ee", clip_on=False)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    output = io.StringIO()
    axes.figure.savefig(output, format="svg", metadata=_NO_METADATA, transparent=True)
    text = output.getvalue()
    # Without the XML declaration, which an element of a page must not have.
    return text[text.index("<svg") :]
