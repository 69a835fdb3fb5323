"""Charts as SVG, drawn by hand: a few kilobytes that need nothing else."""

import html
import math
from collections.abc import Sequence

_WIDTH, _HEIGHT = 440, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 14, 34


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _axis_top(highest: float) -> tuple[float, float]:
    """A round end of an axis at or above a value, and the step of its ticks."""
    if highest <= 0:
        return 1.0, 0.5
    power = 10 ** math.floor(math.log10(highest))
    step = next(s * power for s in (0.2, 0.5, 1, 2, 5) if highest <= 5 * s * power)
    return math.ceil(highest / step - 1e-9) * step, step


def percent(share: float) -> str:
    """A share for people, with two digits that say something."""
    value = 100 * share
    if value == 0 or value >= 10:
        return f"{value:.0f} %" if value in (0, 100) else f"{value:.1f} %"
    return f"{value:.1f} %" if value >= 1 else f"{value:.2g} %"


def _tick_name(share: float) -> str:
    return f"{100 * share:.4g} %"


def histogram(
    bins: Sequence[tuple[int, int, int]], marks: Sequence[tuple[str, float]]
) -> str:
    """A histogram of lengths over a logarithmic axis; areas are shares.

    Args:
        bins: first length, last length and count of each bin, rising.
        marks: name and length of vertical lines.
    """
    total = sum(count for _, _, count in bins)
    lowest, highest = math.log2(bins[0][0]), math.log2(bins[-1][1] + 1)
    densities = [
        count / total / math.log2((last + 1) / first) for first, last, count in bins
    ]
    top, step = _axis_top(max(densities))
    plot_width, plot_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(length: float) -> float:
        return _LEFT + plot_width * (math.log2(length) - lowest) / (highest - lowest)

    def y(density: float) -> float:
        return _TOP + plot_height * (1 - density / top)

    parts = []
    for tick in range(round(top / step) + 1):
        height = y(tick * step)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" '
            f'y1="{height:.1f}" y2="{height:.1f}"/>'
        )
        parts.append(_text(_LEFT - 6, height + 4, _tick_name(tick * step), "end"))
    for (first, last, count), density in zip(bins, densities, strict=True):
        name = f"{first:,}" if first == last else f"{first:,} to {last:,}"
        left, width = x(first), max(x(last + 1) - x(first) - 1, 0.8)
        parts.append(
            f'<rect class="bar" x="{left:.1f}" y="{y(density):.1f}" '
            f'width="{width:.1f}" height="{y(0) - y(density):.1f}">'
            f"<title>{name}: {count:,} ({percent(count / total)})</title></rect>"
        )
    every = max(1, math.ceil((highest - lowest) / 9))
    for power in range(math.ceil(lowest), math.floor(highest) + 1, every):
        parts.append(_text(x(2**power), _HEIGHT - _BOTTOM + 17, f"{2**power:,}"))
    for name, place in marks:
        # Integers fill their bar: a mark stands in the middle of it.
        at = (x(place) + x(place + 1)) / 2
        parts.append(
            f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" '
            f'y2="{y(0):.1f}"><title>{html.escape(name)}: {place:,.6g}</title></line>'
        )
        parts.append(_text(at, _TOP - 4, html.escape(name)))
    return _svg(_WIDTH, _HEIGHT, parts)


def paired_bars(rows: Sequence[tuple[str, float, float]]) -> str:
    """Two horizontal bars a row, of shares.

    Args:
        rows: a name and two shares.
    """
    height, left, width = 46, 64, 840
    top, step = _axis_top(max(max(first, second) for _, first, second in rows))
    top = min(top, 1.0)
    scale = (width - left - 60) / top
    bottom = len(rows) * height
    parts = []
    for tick in range(round(top / step) + 1):
        at = left + tick * step * scale
        parts.append(
            f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{bottom}"/>'
        )
        parts.append(_text(at, bottom + 16, _tick_name(tick * step)))
    for number, (name, first, second) in enumerate(rows):
        y = number * height + 5
        parts.append(_text(left - 10, y + 22, html.escape(name), "end"))
        for offset, kind, share in ((0, "bar", first), (18, "bar second", second)):
            length = share * scale
            parts.append(
                f'<rect class="{kind}" x="{left}" y="{y + offset}" '
                f'width="{max(length, 0.8):.1f}" height="16"/>'
            )
            label = percent(share)
            parts.append(_text(left + length + 6, y + offset + 12.5, label, "start"))
    return _svg(width, bottom + 24, parts)


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" '
        f'style="max-width:{width}px">{"".join(parts)}</svg>'
    )
