"""GLUE (Wang et al., 2019): its tasks, read from the benchmark's own files.

The files have the names of its download: `CoLA/train.tsv` and so on. Peculiarities:

* Train and dev of CoLA have no header.
* The labels of MRPC's test set are only in Microsoft's `msr_paraphrase_test.txt`, which
  is read if `test.tsv` is missing.
* QQP as it was first released has rows that a line feed inside a question broke in two;
  today's form ("QQP-clean") has none. Both halves are left out, and a warning counts
  them and says where they are.
"""

import dataclasses
import logging
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from seg_tf import files
from seg_tf.tasks import metrics
from seg_tf.tasks.task import Example, Split, TableRow, Task, find_file, read_rows

_LOGGER = logging.getLogger(__name__)
_ENTAILMENT = ("entailment", "not_entailment")
_NLI_LABELS = ("entailment", "neutral", "contradiction")
_PAIR = ("sentence1", "sentence2")


@dataclasses.dataclass(frozen=True, slots=True)
class _GlueFiles:
    """Place of a task's files and the columns that are read.

    Attributes:
        folder: its folder in the benchmark's.
        texts: columns of the texts.
        label: column of the label.
        file_names: names that a file may have.
        headerless: the columns, where labelled splits have no header.
        may_be_broken: whether rows of labelled splits may be broken in two.
    """

    folder: str
    texts: tuple[str, ...]
    label: str = "label"
    file_names: tuple[str, ...] = ("{split}.tsv",)
    headerless: tuple[str, ...] = ()
    may_be_broken: bool = False


def _task(
    name: str,
    layout: _GlueFiles,
    sizes: tuple[int, ...],
    labels: tuple[str, ...] = ("0", "1"),
    metrics: tuple[str, ...] = ("accuracy",),
    split_names: tuple[str, ...] = ("train", "dev", "test"),
    score_range: tuple[float, float] | None = None,
) -> tuple[Task, _GlueFiles]:
    """A task whose main metric is that of Segatron's and BERT's tables."""
    splits = tuple(
        Split(split, size, has_labels=not split.startswith("test"))
        for split, size in zip(split_names, sizes, strict=True)
    )
    task = Task(
        name=f"glue/{name}",
        labels=labels,
        num_texts=len(layout.texts),
        metrics=metrics,
        splits=splits,
        score_range=score_range,
    )
    return task, layout


_MNLI_SPLITS = (
    "train",
    "dev_matched",
    "dev_mismatched",
    "test_matched",
    "test_mismatched",
)
_COLA = _GlueFiles(
    "CoLA",
    ("sentence",),
    headerless=("source", "label", "original_label", "sentence"),
)
_MRPC = _GlueFiles("MRPC", ("#1 String", "#2 String"), "Quality")
_QQP = _GlueFiles("QQP", ("question1", "question2"), "is_duplicate", may_be_broken=True)
# A submission must have it too: predicted by a model of MNLI, and scored only by the
# leaderboard.
_DIAGNOSTIC = _GlueFiles("diagnostic", _PAIR, file_names=("diagnostic.tsv", "AX.tsv"))

_LAYOUTS = dict(
    (
        _task("cola", _COLA, (8_551, 1_043, 1_063), metrics=("matthews",)),
        _task("sst-2", _GlueFiles("SST-2", ("sentence",)), (67_349, 872, 1_821)),
        _task("mrpc", _MRPC, (3_668, 408, 1_725), metrics=("f1", "accuracy")),
        _task(
            "sts-b",
            _GlueFiles("STS-B", _PAIR, "score"),
            (5_749, 1_500, 1_379),
            labels=(),
            metrics=("spearman", "pearson"),
            score_range=(0.0, 5.0),
        ),
        _task("qqp", _QQP, (363_846, 40_430, 390_965), metrics=("f1", "accuracy")),
        _task(
            "mnli",
            _GlueFiles("MNLI", _PAIR, "gold_label"),
            (392_702, 9_815, 9_832, 9_796, 9_847),
            labels=_NLI_LABELS,
            split_names=_MNLI_SPLITS,
        ),
        _task(
            "qnli",
            _GlueFiles("QNLI", ("question", "sentence")),
            (104_743, 5_463, 5_463),
            labels=_ENTAILMENT,
        ),
        _task("rte", _GlueFiles("RTE", _PAIR), (2_490, 277, 3_000), labels=_ENTAILMENT),
        _task("wnli", _GlueFiles("WNLI", _PAIR), (635, 71, 146)),
        _task(
            "ax",
            _DIAGNOSTIC,
            (1_104,),
            labels=_NLI_LABELS,
            metrics=("matthews",),
            split_names=("test",),
        ),
    )
)
TASKS = tuple(_LAYOUTS)


def read(task: Task, data_dir: pathlib.Path, split_name: str) -> list[Example]:
    """The examples of a split of a task in `TASKS`: see `seg_tf.tasks.read`."""
    layout, split = _LAYOUTS[task], task.split(split_name)
    required, columns = layout.texts, ()
    broken: list[TableRow] = []
    on_short_row = None
    if split.has_labels:
        required, columns = (*required, layout.label), layout.headerless
        # Every row of a test set counts, or predictions would belong to other rows.
        on_short_row = broken.append if layout.may_be_broken else None
    names = [name.format(split=split.name) for name in layout.file_names]
    if layout is _MRPC and split.name == "test":
        names.append("msr_paraphrase_test.txt")
    rows = read_rows(
        find_file(data_dir, layout.folder, names),
        required=required,
        columns=columns,
        on_short_row=on_short_row,
    )
    examples = []
    for number, row in enumerate(rows):
        label = None
        if layout.label in row.columns:
            if task.is_regression:
                label = row.number(layout.label, *task.score_range)
            else:
                label = row.label(layout.label, task.labels)
        numbered = [row.field(name) for name in ("index", "id") if name in row.columns]
        texts = tuple(map(row.field, layout.texts))
        examples.append(Example(texts, label, (*numbered, str(number))[0]))
    if broken:
        _LOGGER.warning(
            "%s: %d rows with too few columns are left out, as is usual: line feeds "
            "inside questions broke them in two (lines %s%s)",
            broken[0].path,
            len(broken),
            ", ".join(str(row.line) for row in broken[:5]),
            ", …" if len(broken) > 5 else "",
        )
    return examples


# === Leaderboard ===
#
# A submission is a zip of eleven files, `CoLA.tsv` to `AX.tsv`, with the columns
# `index` and `prediction`, a label's name or, for STS-B, a score. The leaderboard
# refuses what lacks a file or a row.


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of GLUE's tables: a task, or one of MNLI's two halves.

    Attributes:
        name: its name, as in "MNLI-m"; `<name>.tsv` holds the predictions of its test
            set.
        task: the task.
        dev_split: what papers report before they submit; "" if there is none.
        test_split: what the leaderboard scores.
    """

    name: str
    task: Task
    dev_split: str
    test_split: str


_BY_NAME = {task.name: task for task in TASKS}
COLUMNS: Mapping[str, Column] = {
    name: Column(name, _BY_NAME[f"glue/{task}"], dev, test)
    for name, task, dev, test in (
        ("CoLA", "cola", "dev", "test"),
        ("SST-2", "sst-2", "dev", "test"),
        ("MRPC", "mrpc", "dev", "test"),
        ("STS-B", "sts-b", "dev", "test"),
        ("QQP", "qqp", "dev", "test"),
        ("MNLI-m", "mnli", "dev_matched", "test_matched"),
        ("MNLI-mm", "mnli", "dev_mismatched", "test_mismatched"),
        ("QNLI", "qnli", "dev", "test"),
        ("RTE", "rte", "dev", "test"),
        ("WNLI", "wnli", "dev", "test"),
        ("AX", "ax", "", "test"),
    )
}
# The columns of the papers' averages. WNLI, in which guessing the more frequent label
# wins, is left out since BERT.
PAPER_COLUMNS = tuple(name for name in COLUMNS if name not in ("WNLI", "AX"))


def write_submission_file(
    column: str,
    examples: Sequence[Example],
    predictions: Sequence[int | float],
    output_dir: pathlib.Path,
) -> None:
    """Writes the file of a column of the leaderboard atomically.

    Args:
        column: one of `COLUMNS`, as in "MNLI-m".
        examples: the column's test set.
        predictions: number of a label, or score, of every example, in order. Scores
            are clipped to 0 and 5 and have three decimals.
        output_dir: an existing folder.

    Raises:
        ValueError: if there is no such column, or predictions are invalid.
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
    lines = ["index\tprediction"]
    for example, value in zip(examples, values.tolist(), strict=True):
        if task.is_regression:
            word = f"{np.clip(value, *task.score_range):.3f}"
        else:
            word = task.labels[int(value)]
        lines.append(f"{example.identifier}\t{word}")
    text = "".join(f"{line}\n" for line in lines)
    files.write_text(output_dir / f"{column}.tsv", text)


def submission_problems(output_dir: pathlib.Path) -> list[str]:
    """Reasons why the files of a folder are no submission; empty if they are one."""
    problems = []
    for column in COLUMNS.values():
        name = f"{column.name}.tsv"
        try:
            lines = (output_dir / name).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            problems.append(f"{name} is missing")
            continue
        expected = column.task.split(column.test_split).num_examples
        if len(lines) - 1 != expected:
            problems.append(
                f"{name} has {len(lines) - 1:,} predictions instead of {expected:,}"
            )
    return problems
