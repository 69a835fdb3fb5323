"""Tasks of GLUE (Wang et al., 2019), read from the benchmark's original files.

Files are named as in the download, such as `CoLA/train.tsv`. Peculiarities:

* The train and dev sets of CoLA have no header.
* The labels of MRPC's test set are only in Microsoft's `msr_paraphrase_test.txt`, which
  is read if `test.tsv` is missing.
* QQP must be the current release, "QQP-clean". In the first one, line feeds inside
  questions split some rows in two.
"""

import pathlib
from collections.abc import Mapping

from seg_tf.tasks.task import Example, Split, Task, find_file, read_rows

_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_NLI_LABELS = ("entailment", "neutral", "contradiction")
_PAIR = ("sentence1", "sentence2")
_COLA_COLUMNS = ("source", "label", "original_label", "sentence")
_SPLITS = ("train", "dev", "test")
_MNLI_SPLITS = (
    *("train", "dev_matched", "dev_mismatched"),
    *("test_matched", "test_mismatched"),
)
# Folder, text columns and label column of each task.
_FILES: dict[Task, tuple[str, tuple[str, ...], str]] = {}


def _add(
    folder: str,
    texts: tuple[str, ...],
    sizes: tuple[int, ...],
    labels: tuple[str, ...] = _BINARY,
    metrics: tuple[str, ...] = ("accuracy",),
    label: str = "label",
    split_names: tuple[str, ...] = _SPLITS,
    name: str = "",
) -> None:
    """Registers a task. The main metric is as in Segatron's and BERT's tables."""
    task = Task(
        name=f"glue/{name or folder.lower()}",
        labels=labels,
        num_texts=len(texts),
        metrics=metrics,
        splits=tuple(
            Split(split, size, has_labels=not split.startswith("test"))
            for split, size in zip(split_names, sizes, strict=True)
        ),
        score_range=None if labels else (0.0, 5.0),
    )
    _FILES[task] = (folder, texts, label)


_F1 = ("f1", "accuracy")
_add("CoLA", ("sentence",), (8_551, 1_043, 1_063), metrics=("matthews",))
_add("SST-2", ("sentence",), (67_349, 872, 1_821))
_add("MRPC", ("#1 String", "#2 String"), (3_668, 408, 1_725), _BINARY, _F1, "Quality")
_CORRELATIONS = ("spearman", "pearson")
_add("STS-B", _PAIR, (5_749, 1_500, 1_379), (), _CORRELATIONS, "score")
_QUESTIONS, _QQP_SIZES = ("question1", "question2"), (363_846, 40_430, 390_965)
_add("QQP", _QUESTIONS, _QQP_SIZES, metrics=_F1, label="is_duplicate")
_MNLI_SIZES = (392_702, 9_815, 9_832, 9_796, 9_847)
_add(
    "MNLI",
    _PAIR,
    _MNLI_SIZES,
    _NLI_LABELS,
    label="gold_label",
    split_names=_MNLI_SPLITS,
)
_add("QNLI", ("question", "sentence"), (104_743, 5_463, 5_463), _ENTAILMENT)
_add("RTE", _PAIR, (2_490, 277, 3_000), _ENTAILMENT)
_add("WNLI", _PAIR, (635, 71, 146))
# Required in a submission: predicted by an MNLI model, scored only by the leaderboard.
_add(
    "diagnostic",
    _PAIR,
    (1_104,),
    _NLI_LABELS,
    ("matthews",),
    split_names=("test",),
    name="ax",
)
TASKS = tuple(_FILES)


def read(task: Task, data_dir: pathlib.Path, split_name: str) -> list[Example]:
    """Reads the examples of a split of a task in `TASKS`. See `seg_tf.tasks.read`."""
    (folder, texts, label_column), split = _FILES[task], task.split(split_name)
    required, columns = texts, ()
    if split.has_labels:
        required = (*texts, label_column)
        columns = _COLA_COLUMNS if folder == "CoLA" else ()
    names = [f"{split.name}.tsv"]
    if folder == "MRPC" and split.name == "test":
        names.append("msr_paraphrase_test.txt")
    if folder == "diagnostic":
        names = ["diagnostic.tsv", "AX.tsv"]
    path = find_file(data_dir, folder, names)
    examples = []
    for number, row in enumerate(read_rows(path, required=required, columns=columns)):
        label = None
        if label_column in row.columns:
            if task.score_range:
                label = row.number(label_column, *task.score_range)
            else:
                label = row.label(label_column, task.labels)
        numbered = [row.field(name) for name in ("index", "id") if name in row.columns]
        identifier = (*numbered, str(number))[0]
        examples.append(Example(tuple(map(row.field, texts)), label, identifier))
    return examples


_SUFFIXES = {"test_matched": "-m", "test_mismatched": "-mm"}
# Column of GLUE's result tables -> task and test split. MNLI has two columns.
COLUMNS: Mapping[str, tuple[Task, str]] = {
    "AX" if folder == "diagnostic" else folder + _SUFFIXES.get(split, ""): (task, split)
    for task, (folder, _, _) in _FILES.items()
    for split in task.split_names
    if split.startswith("test")
}
# Columns that papers average. WNLI, where guessing the more frequent label wins, has
# been left out since BERT.
PAPER_COLUMNS = (
    *("CoLA", "SST-2", "MRPC", "STS-B", "QQP"),
    *("MNLI-m", "MNLI-mm", "QNLI", "RTE"),
)
