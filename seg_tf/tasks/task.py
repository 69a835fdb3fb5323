"""Defines tasks with their examples, splits, files, predictions and metrics."""

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
    """One example of a task.

    Attributes:
        texts: tuple of str. One or more texts, as in the file. A multiple-choice
            example has the shared text and one text per choice.
        label: int, float or None. Index in `Task.labels`, score for regression, or None
            in unlabeled test sets.
        identifier: str. Unique name of the example, such as its index in the file.
    """

    texts: tuple[str, ...]
    label: int | float | None
    identifier: str


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """A split of a task's data.

    Attributes:
        name: str. "train", "dev" or "test", possibly with a suffix ("dev_matched").
        num_examples: int. Published number of examples.
        has_labels: bool. Whether every row must have a label.
    """

    name: str
    num_examples: int
    has_labels: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A prediction task with its data splits and metrics.

    Attributes:
        name: str. Benchmark and task, such as "glue/mrpc".
        labels: tuple of str. Label names, as in the files. Empty for regression.
        num_texts: int. Number of texts per example.
        metrics: tuple of str. Names of metrics in `METRICS`. The first is the main
            metric, which ranks models.
        splits: tuple of `Split`. Data splits in the order train, dev, test.
        score_range: tuple of float. Lowest and highest score, for regression only.
        score_scale: tuple of float. Mean and deviation by which models are trained on
            standardized scores. (0, 1) keeps the scores, as published recipes do.
        num_choices: int. Number of choices of a multiple-choice task, each scored in a
            separate row. 1 for other tasks.
    """

    name: str
    labels: tuple[str, ...]
    num_texts: int
    metrics: tuple[str, ...] = ("accuracy",)
    splits: tuple[Split, ...]
    score_range: tuple[float, float] | None = None
    score_scale: tuple[float, float] = (0.0, 1.0)
    num_choices: int = 1

    @property
    def main_metric(self) -> str:
        return self.metrics[0]

    @property
    def is_regression(self) -> bool:
        return not self.labels

    @property
    def num_outputs(self) -> int:
        """Number of model outputs per example, one per label or one for the score."""
        return len(self.labels) or 1

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(split.name for split in self.splits)

    def split(self, name: str) -> Split:
        """Returns a split by name. Raises a ValueError if there is none."""
        check_choice("split", name, self.split_names)
        return self.splits[self.split_names.index(name)]


def checksum(examples: Sequence[Example]) -> str:
    """Returns the hexadecimal SHA-256 of the texts and labels of examples."""
    content = json.dumps([(example.texts, example.label) for example in examples])
    return hashlib.sha256(content.encode()).hexdigest()


def write_predictions(
    path: pathlib.Path,
    task: Task,
    examples: Sequence[Example],
    predictions: Sequence[int | float],
) -> None:
    """Writes the identifier, label and prediction of each example as a TSV file.

    `predictions` are label indices, which are written as label names, or scores. The
    file has no label column if no example has a label, as GLUE's leaderboard requires.
    """

    def word(value: int | float) -> str:
        return f"{value:g}" if task.is_regression else task.labels[int(value)]

    has_labels = any(example.label is not None for example in examples)
    rows = [("index", *["label"] * has_labels, "prediction")]
    for example, prediction in zip(examples, predictions, strict=True):
        labels = [word(example.label)] if has_labels else []
        rows.append((example.identifier, *labels, word(prediction)))
    files.write_text(path, "".join("\t".join(row) + "\n" for row in rows))


# Fields are not quoted. Quotation marks are part of the text and may be unbalanced, as
# in QNLI. Rows end only at line feeds.


@dataclasses.dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a file. `line` counts from 1."""

    path: pathlib.Path
    line: int
    columns: tuple[str, ...]
    fields: tuple[str, ...]

    def field(self, column: str) -> str:
        return self.fields[self.columns.index(column)]

    def error(self, column: str, rule: str) -> ValueError:
        """Returns an error that names the file, line and column, and states `rule`."""
        number = self.columns.index(column)
        return ValueError(
            f"{self.path}:{self.line}: column {number + 1} ({column}) must be {rule}. "
            f"Received: {self.fields[number]!r}"
        )

    def number(self, column: str, lowest: float, highest: float) -> float:
        """Returns a column as a float, or raises a ValueError if it is out of range."""
        try:
            number = float(self.field(column))
        except ValueError:
            number = float("nan")
        if not lowest <= number <= highest:  # NaN is in no range
            raise self.error(column, f"a number from {lowest:g} to {highest:g}")
        return number

    def label(self, column: str, names: Sequence[str]) -> int:
        """Returns the index of a column's value in `names`, or raises a ValueError."""
        if self.field(column) not in names:
            raise self.error(column, f"one of {', '.join(names)}")
        return names.index(self.field(column))


def find_file(
    data_dir: pathlib.Path, folder: str, names: Sequence[str]
) -> pathlib.Path:
    """Returns the path of the first of `names` in `data_dir/folder`, or in `data_dir`.

    Raises a FileNotFoundError that lists the candidates if none of them exists.
    """
    candidates = [
        place / name for place in (data_dir / folder, data_dir) for name in names
    ]
    for path in candidates:
        if path.is_file():
            return path
    raise FileNotFoundError(
        "`data_dir` must be the folder of a benchmark, or of the task, and contain the "
        f"file of the split. Received: {data_dir}, which contains none of "
        + ", ".join(map(str, candidates))
    )


def read_rows(
    path: pathlib.Path,
    *,
    required: Sequence[str],
    columns: Sequence[str] = (),
    more_columns: bool = False,
) -> Iterator[TableRow]:
    """Yields the rows of a UTF-8 file of tab-separated values.

    `columns` names the columns of a file without a header. If it is empty, the first
    line is a header, which must contain the `required` columns. If `more_columns` is
    True, additional fields are ignored. Raises a ValueError that names the file and
    line if a row is invalid, or if there are no rows.
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
            if len(fields) != len(names):
                raise ValueError(
                    f"{path}:{line}: a row must have {len(names)} columns "
                    f"({', '.join(names)}). Received: {len(fields)}, {text[:60]!r}"
                )
            yield TableRow(path, line, names, fields)
    if is_empty:
        raise ValueError(f"{path} must hold rows. Received: a file without any")


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the F1 score of label 1, which means a paraphrase in MRPC and QQP."""
    return sklearn.metrics.f1_score(labels, predictions, pos_label=1, zero_division=0.0)


def _correlation(
    function: Callable, labels: np.ndarray, predictions: np.ndarray
) -> float:
    with warnings.catch_warnings():
        # Warnings about constant or nearly constant values.
        warnings.simplefilter("ignore")
        result = function(labels.astype(float), predictions.astype(float))
    return float(np.nan_to_num(getattr(result, "statistic", result)))


pearson = functools.partial(_correlation, scipy.stats.pearsonr)
spearman = functools.partial(_correlation, scipy.stats.spearmanr)
METRICS: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": sklearn.metrics.accuracy_score,
    "f1": f1,
    # With more than two labels, its generalization R_K.
    "matthews": functools.partial(_correlation, sklearn.metrics.matthews_corrcoef),
    "pearson": pearson,
    "spearman": spearman,
}


def compute(
    task: Task, labels: Sequence[int | float], predictions: Sequence[int | float]
) -> dict[str, float]:
    """Computes all metrics of a task by name, the main metric first.

    Raises a ValueError if there are no labels, if a label is None, or if the numbers of
    labels and predictions differ.
    """
    if not len(labels) or None in labels or len(labels) != len(predictions):
        raise ValueError(
            f"`labels` of {task.name} must all be known, and `predictions` must have "
            f"one for each. Received: {len(labels)} labels, "
            f"{list(labels).count(None)} of them None, {len(predictions)} predictions"
        )
    known, predicted = np.asarray(labels), np.asarray(predictions)
    return {name: float(METRICS[name](known, predicted)) for name in task.metrics}
