r"""Prints the tables of a paper: its figures, and beside them those of your runs.

  python -m seg_tf.commands.paper_tables --paper=segatron --runs=runs,finetuning

--paper is segatron, segabert (its first version), slm or reat. Below --runs, files and
folders are found by what they hold:

  an --output_dir of run_pretraining.py     settings, validation results
  an --output_dir of run_finetuning.py      scores, by the name of the checkpoint's run
  perplexity.json                           --output of evaluate_perplexity
  leaderboard.json                          test scores of GLUE, written by hand:
                              {"segabert_base": {"CoLA": {"matthews": 50.7}}}

A figure of several settings is that of the best on dev; of its seeds it is what the
paper reports, the mean or the best. Below each table is how ours were made otherwise.
What was not run is said to be so. --size=tiny fills the rows of base models with runs
of size tiny:

  python -m seg_tf.commands.paper_tables --paper=slm --runs=runs --size=tiny \
    --format=markdown --output=tables.md
"""

import dataclasses
import pathlib
from collections.abc import Sequence

from absl import flags

from seg_tf import command_line, files
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.paper_tables import reat, rendering, segatron, slm
from seg_tf.paper_tables.results import Results
from seg_tf.paper_tables.table import Row, Table

_PAPERS = {
    "segatron": ("Segatron", segatron.SEGATRON),
    "segabert": ("SegaBERT", segatron.SEGABERT),
    "slm": ("SLM", slm.TABLES),
    "reat": ("ReAT", reat.TABLES),
}
_SIZE = "base"


def define_flags() -> None:
    flags.DEFINE_enum(
        "paper", None, list(_PAPERS), "Whose tables to print.", required=True
    )
    flags.DEFINE_list(
        "runs", None, "Folders of runs and trials, comma-separated.", required=True
    )
    flags.DEFINE_string(
        "size", _SIZE, "Size of the runs that fill rows of base models."
    )
    flags.DEFINE_enum("format", "text", rendering.FORMATS, "Form of the tables.")
    flags.DEFINE_string("output", None, "File to write; without it they are printed.")


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    results = Results([pathlib.Path(path) for path in values.runs])
    title, tables = _PAPERS[values.paper]
    tables = [_of_size(table, values.size) for table in tables]
    wanted = {row.run for table in tables for row in table.rows}
    text = rendering.render(tables, results, title, values.format).rstrip("\n")
    found = sorted(wanted.intersection(results.runs))
    others = sorted(set(results.runs).difference(wanted))
    if values.output:
        files.write_text(pathlib.Path(values.output), f"{text}\n")
        print(f"The tables are in {values.output}")
    else:
        print(text)
    if values.format != "csv" or values.output:
        print(f"\nFilled by: {', '.join(found) or 'no run'}")
        if others:
            print(f"In none of these tables: {', '.join(others)}")


def _of_size(table: Table, size: str) -> Table:
    if size == _SIZE:
        return table
    rows = tuple(_row_of_size(row, size) for row in table.rows)
    notes = table.notes
    if rows != tuple(table.rows):
        notes += (f"rows of base models are filled by runs of size {size}",)
    return dataclasses.replace(table, rows=rows, notes=notes)


def _row_of_size(row: Row, size: str) -> Row:
    parts = [size if part == _SIZE else part for part in row.run.split("_")]
    return dataclasses.replace(row, run="_".join(parts))


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
