"""Tables as text, Markdown or CSV: the paper's figures, and below them ours."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from seg_tf.command_line import aligned_table
from seg_tf.papers.tables import BestSetting, ConfigValue, Figure, Row, Table

NOT_RUN = "not run"
FORMATS = ("text", "markdown", "csv")
_ABSENT = "–"


class Caveat(NamedTuple):
    """A difference from the paper, and the task or file that has it, if one does."""

    text: str
    origin: str = ""

    def __str__(self) -> str:
        return f"{self.origin}: {self.text}" if self.origin else self.text


class RunFigure(NamedTuple):
    """A figure of a run, None if it was not run, and its differences from the paper."""

    value: Any = None
    caveats: tuple[Caveat, ...] = ()


_Rows = Sequence[tuple[Row, Mapping[str, RunFigure]]]


def render(
    tables: Sequence[Table],
    measure: Callable[[Row, Table], Mapping[str, RunFigure]],
    paper: str,
    output_format: str,
) -> str:
    """All tables of a paper; in Markdown a page, with a heading for each.

    Args:
        tables: the tables.
        measure: our figures of a table's row, by the names of the columns.
        paper: name of the paper.
        output_format: one of `FORMATS`.
    """
    filled = [
        (table, [(row, measure(row, table)) for row in table.rows]) for table in tables
    ]
    if output_format == "csv":
        return _csv(filled, paper)
    markdown = output_format == "markdown"
    heading = [f"# Tables of {paper}: the paper's figures and ours"] if markdown else []
    blocks = [_block(table, rows, paper, markdown) for table, rows in filled]
    return "\n\n".join(heading + blocks)


def _block(table: Table, rows: _Rows, paper: str, markdown: bool) -> str:
    title = f"{paper}, table {table.number}: {table.title}"
    parts = [f"## {title}" if markdown else title]
    if rows:
        lines = [["model", "", *table.columns]]
        for row, measured in rows:
            cells = [
                (
                    _shown(row.paper.get(name), figure, table.decimals, _ABSENT),
                    _shown(measured[name].value, figure, table.decimals, NOT_RUN),
                )
                for name, figure in table.columns.items()
            ]
            lines.append([row.name, "paper", *(theirs for theirs, _ in cells)])
            lines.append(["", "ours", *(ours for _, ours in cells)])
        parts.append(_markdown(lines) if markdown else aligned_table(lines))
    notes = [*table.notes, *_caveats(rows)]
    if notes:
        bullet = "* " if markdown else "  "
        parts.append("\n".join(f"{bullet}{line}" for line in notes))
    return ("\n\n" if markdown else "\n").join(parts)


def _caveats(rows: _Rows) -> list[str]:
    """A line for each difference: the rows that have it, and in which tasks."""
    origins: dict[str, dict[str, list[str]]] = {}
    for row, measured in rows:
        for one in dict.fromkeys(c for cell in measured.values() for c in cell.caveats):
            origins.setdefault(one.text, {}).setdefault(row.name, []).append(one.origin)
    lines = []
    for text, by_row in origins.items():
        names: dict[str, list[str]] = {}
        for name, tasks in by_row.items():
            names.setdefault(", ".join(filter(None, tasks)), []).append(name)
        for tasks, of_rows in names.items():
            lines.append(
                f"{', '.join(of_rows)}: {text}{f' ({tasks})' if tasks else ''}"
            )
    return lines


def _shown(value: Any, figure: Figure, decimals: int, absent: str) -> str:
    if value is None:
        return absent
    if isinstance(value, float):
        # Settings are not rounded: a beta_2 of 0.999 is no 1.0.
        is_setting = isinstance(figure, ConfigValue | BestSetting)
        return f"{value:g}" if is_setting else f"{value:.{decimals}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    header, *others = lines
    rule = ["---", "---", *["--:"] * (len(header) - 2)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *others))


def _csv(filled: Sequence[tuple[Table, _Rows]], paper: str) -> str:
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    header = ["paper", "table", "model", "run", "column", "of_paper", "ours"]
    writer.writerow([*header, "deviations"])
    for table, rows in filled:
        for row, measured in rows:
            for name, (value, caveats) in measured.items():
                cells = [paper, table.number, row.name, row.run, name]
                cells += [row.paper.get(name, ""), NOT_RUN if value is None else value]
                writer.writerow([*cells, "; ".join(map(str, caveats))])
    return output.getvalue()
