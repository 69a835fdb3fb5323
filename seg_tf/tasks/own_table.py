"""Reads a user's task from tables with texts and labels in named columns.

Files are CSV, TSV (.tsv) or JSON Lines (.jsonl, .json, .ndjson), possibly compressed.
"""

import csv
import difflib
import hashlib
import json
import math
import pathlib
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import fsspec

from seg_tf.file_listing import COMPRESSION_SUFFIXES
from seg_tf.tasks.task import Example, Split, Task

# Whole numbers with more distinct values than this are scores.
_MAX_NUMBERED_CLASSES = 20

csv.field_size_limit(sys.maxsize)


def read(
    train_file: str,
    texts: Sequence[str],
    label: str,
    dev_file: str | None = None,
    regression: bool | None = None,
) -> tuple[Task, dict[str, list[Example]]]:
    """Reads a table as a classification or regression task.

    Args:
        train_file: str. File of the training examples.
        texts: sequence of str. Names of the text columns.
        label: str. Name of the label column.
        dev_file: str. File of the dev examples. By default, a tenth of the different
            texts of `train_file`, chosen by their checksums, is held out.
        regression: bool. Whether labels are scores. Defaults to True if all labels are
            numbers, and some are not whole or more than 20 are distinct.

    Returns:
        The task and a dict of its examples by split. The metrics are accuracy and
        Matthews correlation or, for regression, Spearman and Pearson correlation.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if a column is missing, or if a file or its labels are invalid.
    """
    columns = (*texts, label)
    rows = {"train": [], "dev": []}
    for place, *fields in _rows(pathlib.Path(train_file), columns):
        is_held_out = dev_file is None and _is_held_out(fields[:-1])
        rows["dev" if is_held_out else "train"].append((place, *fields))
    if dev_file is not None:
        rows["dev"] = list(_rows(pathlib.Path(dev_file), columns))
    if not all(rows.values()):
        raise ValueError(
            "`train_file` must have examples to train on and to hold out. Received: "
            f"{train_file}, with {len(rows['train'])} and {len(rows['dev'])}"
        )
    labels = [fields[-1] for fields in rows["train"]]
    numbers = [_number(value) for value in labels]
    distinct, are_numbers = set(labels), not any(map(math.isnan, numbers))
    if regression is None:
        is_large = len(distinct) > _MAX_NUMBERED_CLASSES
        regression = are_numbers and (is_large or any(value % 1 for value in numbers))
    if regression and not are_numbers:
        rule = "numbers, for regression"
    elif not regression and not 1 < len(distinct) <= len(labels) / 2:
        rule = "at least 2 classes that repeat"
    else:
        rule = ""
    if rule:
        raise ValueError(
            f"`label` must be a column of {rule}. Received: {label!r} of {train_file}, "
            f"with {len(distinct):,} different values in {len(labels):,} rows, such as "
            f"{min(distinct)!r}"
        )
    names = sorted(distinct, key=lambda name: _number(name) if are_numbers else name)
    task = Task(
        name=f"table/{pathlib.Path(train_file).stem}",
        labels=() if regression else tuple(names),
        num_texts=len(texts),
        metrics=("spearman", "pearson") if regression else ("accuracy", "matthews"),
        splits=tuple(Split(name, len(some)) for name, some in rows.items()),
        score_range=(min(numbers), max(numbers)) if regression else None,
        score_scale=_scale(numbers) if regression else (0.0, 1.0),
    )
    return task, {
        split: [_example(task, label, *fields) for fields in some]
        for split, some in rows.items()
    }


def _scale(numbers: Sequence[float]) -> tuple[float, float]:
    return statistics.fmean(numbers), statistics.pstdev(numbers) or 1.0


def _rows(path: pathlib.Path, columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields `file:line` and the fields of complete rows. Reports incomplete rows."""
    num_left_out = 0
    for line, row in records(path):
        for name in columns:
            if name not in row:
                known = list(filter(None, row))
                close = difflib.get_close_matches(name, known, n=1)
                hint = f". Did you mean {close[0]!r}?" if close else ""
                raise ValueError(
                    f"{path}:{line}: there must be a column {name!r}. Found: "
                    f"{', '.join(known)}{hint}"
                )
        fields = ["" if row[name] is None else str(row[name]) for name in columns]
        if None not in row and all(field.strip() for field in fields):
            yield f"{path}:{line}", *map(str.strip, fields)
        else:
            num_left_out += 1
    if num_left_out:
        print(
            f"{path}: {num_left_out:,} rows without all of {', '.join(columns)} are "
            "left out",
            file=sys.stderr,
        )


def records(path: pathlib.Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields the last line number of each row, and its fields by column.

    The format is chosen by the file name. Raises a ValueError if the file is invalid.
    """
    name = path.name.lower()
    for suffix in COMPRESSION_SUFFIXES:
        name = name.removesuffix(suffix)
    with fsspec.open(
        str(path), "rt", compression="infer", encoding="utf-8-sig", newline=""
    ) as file:
        try:
            if name.endswith((".jsonl", ".json", ".ndjson")):
                for line, text in enumerate(file, start=1):
                    if text.strip():
                        yield line, dict(json.loads(text))
                return
            delimiter = "\t" if name.endswith(".tsv") else ","
            reader = csv.DictReader(file, delimiter=delimiter, strict=True)
            for row in reader:
                if delimiter == "\t" and any("\t" in str(f) for f in row.values()):
                    raise ValueError(
                        f"line {reader.line_num}: a tab between quotation marks. "
                        'Inside quotation marks, write "" for each mark of the text'
                    )
                yield reader.line_num, row
        except (ValueError, TypeError, csv.Error) as error:
            raise ValueError(
                f"{path}: must be CSV, TSV (.tsv) or JSON lines (.jsonl) in UTF-8. "
                f"Found: {error}"
            ) from error


def _is_held_out(texts: Sequence[str]) -> bool:
    """Returns whether an example belongs to dev, which depends only on its texts."""
    digest = hashlib.sha256("\n".join(texts).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:4], "little") % 10 == 0


def _number(label: str) -> float:
    """Converts a label to a float. Returns NaN unless it is a finite number."""
    try:
        number = float(label)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def _example(task: Task, column: str, place: str, *fields: str) -> Example:
    *texts, label = fields
    value, rule = _number(label), "a number"
    if not task.is_regression:
        rule = f"one of {', '.join(task.labels)}"
        value = task.labels.index(label) if label in task.labels else math.nan
    if math.isnan(value):
        raise ValueError(f"{place}: `{column}` must be {rule}. Received: {label!r}")
    return Example(tuple(texts), value, place)
