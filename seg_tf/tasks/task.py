"""Tasks: examples, splits, tab-separated files, predictions and metrics."""

import dataclasses
import functools
import hashlib
import json
import pathlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import scipy.stats
import sklearn.metrics

from seg_tf import files
from seg_tf.config.base import check_choice


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """One row of a task.

    Attributes:
        texts: one or more texts, as in the file; of a multiple choice the shared text
            and one for each answer.
        label: number of the label in `Task.labels`; for regression the score; None
            in test sets without labels.
        identifier: the index of the row in the file, or its number, from 0.
    """

    texts: tuple[str, ...]
    label: int | float | None
    identifier: str


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """Part of a task's data.

    Attributes:
        name: "train", "dev" or "test", perhaps with a suffix, as in "dev_matched".
        num_examples: its published size.
        has_labels: whether every row must have a label.
    """

    name: str
    num_examples: int
    has_labels: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task: what a model predicts and how it is scored.

    Attributes:
        name: benchmark and task, as in "glue/mrpc".
        labels: names of the labels, as in the files; none for regression.
        num_texts: texts of an example.
        metrics: names of its metrics in `seg_tf.tasks.task`. The first is the main
            metric, which ranks models.
        splits: its splits, in the order train, dev, test.
        score_range: lowest and highest score of a regression task.
        num_choices: rows of an example of a multiple choice, each with a score; 1 for
            other tasks.
    """

    name: str
    labels: tuple[str, ...]
    num_texts: int
    metrics: tuple[str, ...] = ("accuracy",)
    splits: tuple[Split, ...]
    score_range: tuple[float, float] | None = None
    num_choices: int = 1

    @property
    def main_metric(self) -> str:
        return self.metrics[0]

    @property
    def is_regression(self) -> bool:
        return not self.labels

    @property
    def num_outputs(self) -> int:
        """Outputs of a model for an example: one for each label, or the score."""
        return len(self.labels) or 1

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(split.name for split in self.splits)

    def split(self, name: str) -> Split:
        """The split of that name. Raises a ValueError if there is none."""
        check_choice("split", name, self.split_names)
        return self.splits[self.split_names.index(name)]


def checksum(examples: Sequence[Example]) -> str:
    """SHA-256 of texts and labels of examples."""
    content = json.dumps([(example.texts, example.label) for example in examples])
    return hashlib.sha256(content.encode()).hexdigest()


def write_predictions(
    path: pathlib.Path,
    task: Task,
    examples: Sequence[Example],
    predictions: Sequence[int | float],
) -> None:
    """Writes index, label and prediction of each example, separated by tabs.

    Predictions are numbers of labels, or scores. Test sets have no column of labels,
    like files for GLUE's leaderboard.
    """

    def word(value: int | float) -> str:
        return f"{value:g}" if task.is_regression else task.labels[int(value)]

    has_labels = any(example.label is not None for example in examples)
    rows = [("index", *["label"] * has_labels, "prediction")]
    for example, prediction in zip(examples, predictions, strict=True):
        labels = [word(example.label)] if has_labels else []
        rows.append((example.identifier, *labels, word(prediction)))
    files.write_text(path, "".join("\t".join(row) + "\n" for row in rows))


# === Tab-separated files ===
#
# No field is quoted: a quotation mark is a character of the text, balanced or not
# (those of QNLI are not). A row ends only at a line feed.


@dataclasses.dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a file; `line` counts from 1."""

    path: pathlib.Path
    line: int
    columns: tuple[str, ...]
    fields: tuple[str, ...]

    def field(self, column: str) -> str:
        return self.fields[self.columns.index(column)]

    def error(self, column: str, rule: str) -> ValueError:
        """An error about the content of a column, which violates `rule`."""
        number = self.columns.index(column)
        return ValueError(
            f"{self.path}:{self.line}: column {number + 1} ({column}) must be {rule}. "
            f"Received: {self.fields[number]!r}"
        )

    def number(self, column: str, lowest: float, highest: float) -> float:
        """The number in a column. It must be in a range."""
        try:
            number = float(self.field(column))
        except ValueError:
            number = float("nan")
        if not lowest <= number <= highest:  # NaN is in no range
            raise self.error(column, f"a number from {lowest:g} to {highest:g}")
        return number

    def label(self, column: str, names: Sequence[str]) -> int:
        """The index in `names` of the name in a column."""
        if self.field(column) not in names:
            raise self.error(column, f"one of {', '.join(names)}")
        return names.index(self.field(column))


def find_file(
    data_dir: pathlib.Path, folder: str, names: Sequence[str]
) -> pathlib.Path:
    """The first of several files in `folder` of `data_dir`, or in `data_dir` itself.

    Raises:
        FileNotFoundError: if none exists, naming all candidates.
    """
    candidates = [
        place / name for place in (data_dir / folder, data_dir) for name in names
    ]
    for path in candidates:
        if path.is_file():
            return path
    raise FileNotFoundError(
        "`data_dir` must be the folder of a benchmark, or of the task, and hold the "
        f"file of the split. Received: {data_dir}; there is none of "
        + ", ".join(map(str, candidates))
    )


def read_rows(
    path: pathlib.Path,
    *,
    required: Sequence[str],
    columns: Sequence[str] = (),
    on_short_row: Callable[[TableRow], None] | None = None,
    more_columns: bool = False,
) -> Iterator[TableRow]:
    """Yields the rows of a UTF-8 file; a ValueError names file and line.

    A file without a header has `columns`, perhaps followed by `more_columns`; in others
    the first line must name the `required` ones. `on_short_row` is called with rows
    that have too few fields, and are skipped.
    """
    names = tuple(columns)
    is_empty = True
    with open(path, "rb") as file:
        for line, content in enumerate(file, start=1):
            content = content.removesuffix(b"\n").removesuffix(b"\r")
            try:
                text = content.decode("utf-8-sig" if line == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}:{line}: must be UTF-8: {error}") from None
            fields = tuple(text.split("\t"))
            if not names:
                names = fields
                if not {*required} <= {*names}:
                    raise ValueError(
                        f"{path}:1: the header must name the columns "
                        f"{', '.join(required)}. Received: {', '.join(names)}"
                    )
                continue
            is_empty = False
            if more_columns:
                fields = fields[: len(names)]
            row = TableRow(path, line, names, fields)
            if len(fields) == len(names):
                yield row
            elif on_short_row and len(fields) < len(names):
                on_short_row(row)
            else:
                raise ValueError(
                    f"{path}:{line}: a row must have {len(names)} columns "
                    f"({', '.join(names)}). Received: {len(fields)}, {text[:60]!r}"
                )
    if is_empty:
        raise ValueError(f"{path} must hold rows. Received: a file without any")


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of label 1, which means a paraphrase in MRPC and QQP."""
    return sklearn.metrics.f1_score(labels, predictions, pos_label=1, zero_division=0.0)


def _correlation(
    function: Callable, labels: np.ndarray, predictions: np.ndarray
) -> float:
    with warnings.catch_warnings():
        # Of constant values, and of those that differ only in their last digits.
        warnings.simplefilter("ignore")
        result = function(labels.astype(float), predictions.astype(float))
    return float(np.nan_to_num(getattr(result, "statistic", result)))


pearson = functools.partial(_correlation, scipy.stats.pearsonr)
spearman = functools.partial(_correlation, scipy.stats.spearmanr)
METRICS: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": sklearn.metrics.accuracy_score,
    "f1": f1,
    # With more than two labels its generalisation, R_K.
    "matthews": functools.partial(_correlation, sklearn.metrics.matthews_corrcoef),
    "pearson": pearson,
    "spearman": spearman,
}


def compute(
    task: Task, labels: Sequence[int | float], predictions: Sequence[int | float]
) -> dict[str, float]:
    """All metrics of a task by name, the main one first.

    Raises a ValueError if a label is unknown, or the numbers of labels and predictions
    differ.
    """
    if not len(labels) or None in labels or len(labels) != len(predictions):
        raise ValueError(
            f"`labels` of {task.name} must all be known, and `predictions` must have "
            f"one for each. Received: {len(labels)} labels, "
            f"{list(labels).count(None)} of them None, {len(predictions)} predictions"
        )
    known, predicted = np.asarray(labels), np.asarray(predictions)
    return {name: float(METRICS[name](known, predicted)) for name in task.metrics}
