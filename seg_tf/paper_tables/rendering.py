"""Tables as text, Markdown or CSV: the paper's figures and ours."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from seg_tf.finetuning.trials.results import aligned_table
from seg_tf.paper_tables.results import Found, Results
from seg_tf.paper_tables.table import BestSetting, ConfigValue, Figure, Row, Table

NOT_RUN = "not run"
FORMATS = ("text", "markdown", "csv")
_UNSAID = "–"

_Figures = Sequence[tuple[Row, Mapping[str, Found]]]


def render(
    tables: Sequence[Table], results: Results, paper: str, output_format: str
) -> str:
    """All tables of a paper; in Markdown a page, with a heading for each.

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
    markdown = output_format == "markdown"
    heading = [f"# Tables of {paper}: the paper's figures and ours"] if markdown else []
    return "\n\n".join(
        heading + [_block(table, figures, paper, markdown) for table, figures in filled]
    )


def _block(table: Table, figures: _Figures, paper: str, markdown: bool) -> str:
    title = f"{paper}, table {table.number}: {table.title}"
    parts = [f"## {title}" if markdown else title]
    if table.rows:
        lines = [["model", "", *table.columns]]
        for row, found in figures:
            lines.append([row.name, "paper", *_paper_cells(table, row)])
            lines.append(["", "ours", *_our_cells(table, found)])
        parts.append(_markdown(lines) if markdown else aligned_table(lines))
    notes = [*table.notes, *_deviations(figures)]
    if notes:
        parts.append(
            "\n".join(f"* {line}" if markdown else f"  {line}" for line in notes)
        )
    return "\n\n".join(parts) if markdown else "\n".join(parts)


def _deviations(figures: _Figures) -> list[str]:
    """A line for each difference: the rows that have it, and in which tasks."""
    places: dict[str, dict[str, list[str]]] = {}
    for row, found in figures:
        for one in dict.fromkeys(d for cell in found.values() for d in cell.deviations):
            places.setdefault(one.text, {}).setdefault(row.name, []).append(one.of)
    lines = []
    for text, of_rows in places.items():
        rows_of: dict[str, list[str]] = {}
        for row_name, given in of_rows.items():
            rows_of.setdefault(", ".join(filter(None, given)), []).append(row_name)
        for given, row_names in rows_of.items():
            where = f" ({given})" if given else ""
            lines.append(f"{', '.join(row_names)}: {text}{where}")
    return lines


def _paper_cells(table: Table, row: Row) -> list[str]:
    return [
        _shown(row.paper[name], figure, table.decimals)
        if name in row.paper
        else _UNSAID
        for name, figure in table.columns.items()
    ]


def _our_cells(table: Table, found: Mapping[str, Found]) -> list[str]:
    return [
        NOT_RUN
        if one.value is None
        else _shown(one.value, table.columns[name], table.decimals)
        for name, one in found.items()
    ]


def _shown(value: Any, figure: Figure, decimals: int) -> str:
    if isinstance(value, float):
        # A setting is no score: a beta_2 of 0.999 is not rounded.
        is_setting = isinstance(figure, ConfigValue | BestSetting)
        return f"{value:g}" if is_setting else f"{value:.{decimals}f}"
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
                cells += [
                    row.paper.get(name, ""),
                    ours,
                    "; ".join(map(str, one.deviations)),
                ]
                writer.writerow(cells)
    return output.getvalue()
