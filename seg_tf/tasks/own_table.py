"""A task of one's own: texts and labels in the columns of a table.

Files are CSV, TSV (.tsv) or JSON lines (.jsonl, .json), with named columns. Labels are
classes or, if they are numbers that do not look like classes, scores.
"""

import csv
import difflib
import hashlib
import json
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from seg_tf.tasks.task import Example, Split, Task

# Whole numbers with more distinct values than this are scores.
_MAX_NUMBERED_CLASSES = 20
# One text in `_DEV_SHARE` is held out if there is no file of the dev split.
_DEV_SHARE = 10
_MAX_BASELINE_EXAMPLES = 20_000
Splits = dict[str, list[Example]]

csv.field_size_limit(sys.maxsize)


def read(
    train_file: str,
    texts: Sequence[str],
    label: str,
    dev_file: str | None = None,
    regression: bool | None = None,
) -> tuple[Task, Splits]:
    """Reads a table and chooses the kind of its task.

    Args:
        train_file: str. File of the training examples.
        texts: sequence of str. Columns of the texts of an example.
        label: str. Column of the label.
        dev_file: str. File of the dev examples. By default, a tenth of the different
            texts of `train_file`, chosen by their checksums, is held out.
        regression: bool. Whether labels are scores. By default, they are scores if all
            of them are numbers, and some not whole or more than 20 distinct.

    Returns:
        The task, with the metrics accuracy and Matthews correlation or Spearman and
        Pearson correlation, and its examples by split.

    Raises:
        ValueError: if a file or a column is missing, or if the labels cannot be used.
            The message names the file, the line or column and what was found.
    """
    columns = (*texts, label)
    rows = {"train": list(_rows(pathlib.Path(train_file), columns))}
    if dev_file is not None:
        rows["dev"] = list(_rows(pathlib.Path(dev_file), columns))
    else:
        held_out = [_is_held_out(row[:-1]) for row, _ in rows["train"]]
        pairs = list(zip(rows["train"], held_out, strict=True))
        rows = {
            "train": [row for row, is_dev in pairs if not is_dev],
            "dev": [row for row, is_dev in pairs if is_dev],
        }
    if not all(rows.values()):
        raise ValueError(
            f"`train_file` must have examples to train on and to hold out. Received: "
            f"{train_file}, with {len(rows['train'])} and {len(rows['dev'])}"
        )
    labels = [row[-1] for row, _ in rows["train"]]
    numbers = _as_numbers(labels)
    if regression is None:
        regression = numbers is not None and (
            len(set(labels)) > _MAX_NUMBERED_CLASSES or not _are_whole(numbers)
        )
    if regression and numbers is None:
        raise ValueError(
            f"`label` must be a column of numbers for regression. Received: {label!r} "
            f"of {train_file}, with {sorted(set(labels))[:5]}"
        )
    names = () if regression else tuple(sorted(set(labels), key=_by_number))
    if not regression and not 1 < len(names) <= len(labels) / 2:
        raise ValueError(
            "`label` must be a column of at least 2 classes that repeat. Received: "
            f"{label!r} of {train_file}, with {len(names):,} different values in "
            f"{len(labels):,} rows"
        )
    task = Task(
        name=f"table/{pathlib.Path(train_file).stem}",
        labels=names,
        num_texts=len(texts),
        metrics=("spearman", "pearson") if regression else ("accuracy", "matthews"),
        splits=tuple(Split(name, len(some)) for name, some in rows.items()),
        score_range=(min(numbers), max(numbers)) if regression and numbers else None,
    )
    return task, {
        split: [_example(task, row, where, label) for row, where in some]
        for split, some in rows.items()
    }


def _rows(
    path: pathlib.Path, columns: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields the fields of each complete row with its place. Reports other rows."""
    num_left_out = 0
    for line, row in _records(path):
        missing = [name for name in columns if name not in row]
        if missing:
            known = [name for name in row if name]
            close = difflib.get_close_matches(missing[0], known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"{path}:{line}: there must be a column {missing[0]!r}. Found: "
                f"{', '.join(known)}.{hint}"
            )
        fields = tuple("" if row[n] is None else str(row[n]).strip() for n in columns)
        if all(fields):
            yield fields, f"{path}:{line}"
        else:
            num_left_out += 1
    if num_left_out:
        names = ", ".join(columns)
        print(
            f"{path}: {num_left_out:,} rows without all of {names} are left out",
            file=sys.stderr,
        )


def _records(path: pathlib.Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yields the rows of a file by column, with the number of their last line."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        try:
            if path.suffix in (".jsonl", ".json"):
                for line, text in enumerate(file, start=1):
                    if text.strip():
                        yield line, dict(json.loads(text))
                return
            delimiter = "\t" if path.suffix == ".tsv" else ","
            reader = csv.DictReader(file, delimiter=delimiter, strict=True)
            for row in reader:
                yield reader.line_num, row
        except (ValueError, TypeError, csv.Error) as error:
            raise ValueError(
                f"{path}: must be CSV, TSV (.tsv) or JSON lines (.jsonl) in UTF-8. "
                f"Found: {error}"
            ) from error


def _is_held_out(texts: Sequence[str]) -> bool:
    """Returns whether an example belongs to dev. Copies of a text are not divided."""
    digest = hashlib.sha256("\n".join(texts).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:4], "little") % _DEV_SHARE == 0


def _as_numbers(labels: Sequence[str]) -> list[float] | None:
    try:
        numbers = [float(label) for label in labels]
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _are_whole(numbers: Sequence[float]) -> bool:
    return all(number == int(number) for number in numbers)


def _by_number(label: str) -> tuple[float, str]:
    number = _as_numbers([label])
    return (number[0] if number else np.inf, label)


def _example(task: Task, row: tuple[str, ...], where: str, column: str) -> Example:
    *texts, label = row
    if task.is_regression:
        numbers = _as_numbers([label])
        value = None if numbers is None else numbers[0]
    else:
        value = task.labels.index(label) if label in task.labels else None
    if value is None:
        rule = "a number" if task.is_regression else f"one of {', '.join(task.labels)}"
        raise ValueError(f"{where}: `{column}` must be {rule}. Received: {label!r}")
    return Example(tuple(texts), value, where)


def bag_of_words(
    task: Task, train: Sequence[Example], texts: Sequence[Sequence[str]]
) -> np.ndarray | None:
    """Predicts labels of `texts` with a linear model of words and pairs of words.

    The weights of the words are TF-IDF; the model is a logistic or ridge regression of
    at most 20,000 training examples. Returns None if only one label is known.
    """
    train = train[:_MAX_BASELINE_EXAMPLES]
    labels = [example.label for example in train]
    if len(set(labels)) < 2 or task.num_choices > 1:
        return None
    known, new = [], []
    for number in range(task.num_texts):
        vectorizer = TfidfVectorizer(
            token_pattern=r"\w+|[^\w\s]", ngram_range=(1, 2), sublinear_tf=True
        )
        known.append(vectorizer.fit_transform([one.texts[number] for one in train]))
        new.append(vectorizer.transform([text[number] for text in texts]))
    model = Ridge() if task.is_regression else LogisticRegression(max_iter=1_000)
    model.fit(scipy.sparse.hstack(known), labels)
    return model.predict(scipy.sparse.hstack(new))
