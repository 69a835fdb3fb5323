"""Predictions for GLUE's test sets, in the form that its leaderboard takes.

A submission is a zip of eleven files, `CoLA.tsv` to `AX.tsv`, of two columns: `index`,
which is that of the test set, and `prediction`, which is a label's word or, for STS-B,
a score from 0 to 5. The leaderboard refuses what lacks a file or a row.
"""

import pathlib
from collections.abc import Sequence

import numpy as np

from seg_tf import files
from seg_tf.tasks import metrics
from seg_tf.tasks.example import Example, Task
from seg_tf.tasks.glue.averages import COLUMNS

_HEADER = "index\tprediction"


def write(
    column: str,
    examples: Sequence[Example],
    predictions: Sequence[int | float],
    output_dir: pathlib.Path,
) -> pathlib.Path:
    """Writes the file of a column; it appears whole under its name or not at all.

    Args:
        column: one of `glue_averages.COLUMNS`, as in "MNLI-m".
        examples: the column's test set.
        predictions: number of a label, or score, of every example, in order. Scores
            are cut to 0 and 5 and have three decimals.
        output_dir: an existing folder.

    Returns:
        The file.

    Raises:
        ValueError: if there is no such column, there are not as many predictions as
            examples, or one that the task does not have.
        OSError: if the file cannot be written.
    """
    if column not in COLUMNS:
        raise ValueError(
            f"`column` must be one of {', '.join(COLUMNS)}. Received: {column!r}"
        )
    task = COLUMNS[column].task
    values = np.asarray(predictions)
    if values.shape != (len(examples),):
        raise ValueError(
            f"`predictions` must have one for each of the {len(examples):,} examples. "
            f"Received: shape {values.shape} ({column})"
        )
    metrics.check_values(task, "predictions", values)
    lines = [
        f"{example.identifier}\t{_word(task, value)}"
        for example, value in zip(examples, values, strict=True)
    ]
    path = output_dir / f"{column}.tsv"
    files.write_text(path, "".join(f"{line}\n" for line in (_HEADER, *lines)))
    return path


def problems(output_dir: pathlib.Path) -> list[str]:
    """Reasons why the files of a folder are no submission; empty if they are one.

    Args:
        output_dir: folder with what `write` wrote.
    """
    found = []
    for column in COLUMNS.values():
        name = f"{column.name}.tsv"
        try:
            lines = (output_dir / name).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            found.append(f"{name} is missing")
            continue
        expected = column.task.split(column.test_split).num_examples
        if len(lines) - 1 != expected:
            found.append(
                f"{name} has {len(lines) - 1:,} predictions instead of {expected:,}"
            )
    return found


def _word(task: Task, value: int | float) -> str:
    if not task.is_regression:
        return task.labels[int(value)]
    lowest, highest = task.score_range
    return f"{np.clip(float(value), lowest, highest):.3f}"
