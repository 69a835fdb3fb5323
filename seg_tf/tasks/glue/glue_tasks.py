"""The tasks of GLUE (Wang et al., 2019), read from the benchmark's own files.

The files are those of its download: `CoLA/train.tsv` and so on. What is peculiar:

* Train and dev of CoLA have no header.
* MRPC has several forms: see `seg_tf.tasks.glue.mrpc_files`.
* QQP as it was first given out has rows that a line feed inside a question broke in
  two; the form of today ("QQP-clean") has no such rows. Both halves are left out, and
  a warning counts them and says where they are.
"""

import dataclasses
import logging
import pathlib
from collections.abc import Iterator

from seg_tf.tasks import task_files
from seg_tf.tasks.example import Example, Split, Task
from seg_tf.tasks.glue import mrpc_files
from seg_tf.tasks.task_files import TableRow

_LOGGER = logging.getLogger(__name__)
_ENTAILMENT = ("entailment", "not_entailment")
_NLI_LABELS = ("entailment", "neutral", "contradiction")
_PAIR = ("sentence1", "sentence2")
# Columns that number the rows of a file.
_IDENTIFIERS = ("index", "id")


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
    """A task whose main metric is the first: that of Segatron's and BERT's tables."""
    splits = tuple(
        Split(split, size, has_labels=not split.startswith("test"))
        for split, size in zip(split_names, sizes, strict=True)
    )
    task = Task(
        name=f"glue/{name}",
        labels=labels,
        num_texts=len(layout.texts),
        metrics=metrics,
        main_metric=metrics[0],
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
_MRPC = _GlueFiles("MRPC", mrpc_files.TEXTS, mrpc_files.LABEL)
_QQP = _GlueFiles("QQP", ("question1", "question2"), "is_duplicate", may_be_broken=True)
# A submission must have it too: predicted by a model of MNLI, and scored by the
# leaderboard alone.
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
    """The examples of a split of a task in `TASKS`: see `registry.read`."""
    layout, split = _LAYOUTS[task], task.split(split_name)
    broken: list[TableRow] = []
    examples = [
        _example(task, layout, number, row)
        for number, row in enumerate(_rows(data_dir, layout, split, broken))
    ]
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


def _rows(
    data_dir: pathlib.Path, layout: _GlueFiles, split: Split, broken: list[TableRow]
) -> Iterator[TableRow]:
    required = layout.texts
    if split.has_labels:
        required = (*required, layout.label)
    if layout is _MRPC:
        return mrpc_files.read_rows(data_dir, layout.folder, split.name, required)
    names = [name.format(split=split.name) for name in layout.file_names]
    # Of a test set every row counts: without one, predictions would be of other rows.
    may_be_broken = layout.may_be_broken and split.has_labels
    return task_files.read_rows(
        task_files.find_file(data_dir, layout.folder, names),
        required=required,
        columns=layout.headerless if split.has_labels else (),
        on_short_row=broken.append if may_be_broken else None,
    )


def _example(task: Task, layout: _GlueFiles, number: int, row: TableRow) -> Example:
    label = None
    if layout.label in row.columns:
        if task.is_regression:
            label = task_files.number_of(row, layout.label, *task.score_range)
        else:
            label = task_files.word_number(row, layout.label, task.labels)
    identifiers = [row.field(name) for name in _IDENTIFIERS if name in row.columns]
    return Example(
        texts=tuple(map(row.field, layout.texts)),
        label=label,
        identifier=identifiers[0] if identifiers else str(number),
    )
