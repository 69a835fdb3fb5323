"""Tables as text, Markdown or CSV: the paper's figures and ours."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from seg_tf.finetuning.trials.results import aligned_table
from seg_tf.paper_tables.results import Found, Results
from seg_tf.paper_tables.table import Row, Table

NOT_RUN = "not run"
FORMATS = ("text", "markdown", "csv")
_UNSAID = "–"

_Figures = Sequence[tuple[Row, Mapping[str, Found]]]


def render(
    tables: Sequence[Table], results: Results, paper: str, output_format: str
) -> str:
    """All tables of a paper.

    Args:
        tables: the tables.
        results: what was run.
        paper: name of the paper.
        output_format: one of `FORMATS`.
    """
    filled = [
        (
            table,
            [
                (row, results.figures(row, table.columns, table.recipe))
                for row in table.rows
            ],
        )
        for table in tables
    ]
    if output_format == "csv":
        return _csv(filled, paper)
    return "\n\n".join(
        _block(table, figures, paper, output_format == "markdown")
        for table, figures in filled
    )


def _block(table: Table, figures: _Figures, paper: str, markdown: bool) -> str:
    title = f"{paper}, table {table.number}: {table.title}"
    parts = [f"### {title}" if markdown else title]
    if table.rows:
        lines = [["model", "", *table.columns]]
        for row, found in figures:
            lines.append([row.name, "paper", *_paper_cells(table, row)])
            lines.append(["", "ours", *_our_cells(table, found)])
        parts.append(_markdown(lines) if markdown else aligned_table(lines))
    notes = [*table.notes]
    for row, found in figures:
        said = dict.fromkeys(line for one in found.values() for line in one.deviations)
        notes += [f"{row.name}, {line}" for line in said]
    if notes:
        parts.append(
            "\n".join(f"* {line}" if markdown else f"  {line}" for line in notes)
        )
    return "\n\n".join(parts) if markdown else "\n".join(parts)


def _paper_cells(table: Table, row: Row) -> list[str]:
    return [
        _shown(row.paper[name], table.decimals) if name in row.paper else _UNSAID
        for name in table.columns
    ]


def _our_cells(table: Table, found: Mapping[str, Found]) -> list[str]:
    return [
        NOT_RUN if one.value is None else _shown(one.value, table.decimals)
        for one in found.values()
    ]


def _shown(value: Any, decimals: int) -> str:
    if isinstance(value, float):
        # A learning rate is no percentage.
        return f"{value:.{decimals}f}" if value >= 0.1 or not value else f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    header, *others = lines
    rule = ["---", "---", *["--:"] * (len(header) - 2)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *others))


def _csv(filled: Sequence[tuple[Table, _Figures]], paper: str) -> str:
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    header = ["paper", "table", "model", "run", "column", "of_paper", "ours"]
    writer.writerow([*header, "deviations"])
    for table, figures in filled:
        for row, found in figures:
            for name, one in found.items():
                ours = NOT_RUN if one.value is None else one.value
                cells = [paper, table.number, row.name, row.run, name]
                cells += [row.paper.get(name, ""), ours, "; ".join(one.deviations)]
                writer.writerow(cells)
    return output.getvalue()
