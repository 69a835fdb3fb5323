"""The tasks of DiscoEval (Chen et al., 2019), read from the benchmark's own files.

| task | a row of the files | labels |
|---|---|---|
| SP, sentence position | label, 5 sentences | place of the first among the rest |
| BSO, binary sentence ordering | 2 sentences in order | 1 in order, 0 swapped |
| DC, discourse coherence | label, 6 sentences | 1 coherent, 0 one sentence is foreign |
| SSP, sentence section prediction | label, 1 sentence | 1 from an abstract |
| PDTB, explicit and implicit relations | label, 2 texts | senses of the second level |
| RST, relations of a discourse tree | label, 2 lists of texts | relations, with order |

Rows of BSO have no label: each gives both orders, one after the other. Labels of PDTB
are numbers of the lines of `labelset.txt`. The treebank of RST needs a licence.
"""

import dataclasses
import pathlib

from seg_tf.tasks import task_files
from seg_tf.tasks.discoeval import rst_files
from seg_tf.tasks.example import Example, Split, Task
from seg_tf.tasks.task_files import TableRow

_FILES = {"train": "train.txt", "dev": "valid.txt", "test": "test.txt"}
_LABEL_NAMES = "labelset.txt"
_LABEL = "label"
_EXPLICIT = (
    "Comparison.Concession",
    "Comparison.Contrast",
    "Contingency.Cause",
    "Contingency.Condition",
    "Contingency.Pragmatic condition",
    "Expansion.Alternative",
    "Expansion.Conjunction",
    "Expansion.Instantiation",
    "Expansion.List",
    "Expansion.Restatement",
    "Temporal.Asynchronous",
    "Temporal.Synchrony",
)
_IMPLICIT = (
    "Comparison.Concession",
    "Comparison.Contrast",
    "Contingency.Cause",
    "Contingency.Pragmatic cause",
    "Expansion.Alternative",
    "Expansion.Conjunction",
    "Expansion.Instantiation",
    "Expansion.List",
    "Expansion.Restatement",
    "Temporal.Asynchronous",
    "Temporal.Synchrony",
)
# Nucleus and satellite, or two nuclei, in the order of the text; and the relation.
_RELATIONS = {
    "NN": "Cause Comparison Condition Contrast Evaluation Explanation Joint Same-unit "
    "Temporal Textual-organization Topic-Change Topic-Comment",
    "NS": "Attribution Background Cause Comparison Condition Contrast Elaboration "
    "Enablement Evaluation Explanation Manner-Means Summary Temporal Topic-Change "
    "Topic-Comment",
    "SN": "Attribution Background Cause Comparison Condition Contrast Elaboration "
    "Enablement Evaluation Explanation Manner-Means Summary Temporal Topic-Comment",
}
_RST_LABELS = tuple(
    f"{order}-{relation}"
    for order, relations in _RELATIONS.items()
    for relation in relations.split()
)
_RST_FILES = {"train": "RST_TRAIN.pkl", "dev": "RST_DEV.pkl", "test": "RST_TEST.pkl"}
_DOMAINS = ("arxiv", "rocstory", "wiki")
_USUAL_SIZES = (10_000, 4_000, 4_000)


@dataclasses.dataclass(frozen=True, slots=True)
class _Layout:
    """Place of a task's files and columns of a row.

    Attributes:
        folder: its folder in the benchmark's.
        has_labels: whether rows begin with a label; without, each gives both orders.
        labels_are_named: whether labels number the lines of `labelset.txt`.
    """

    folder: str
    has_labels: bool = True
    labels_are_named: bool = False


def _task(
    name: str,
    layout: _Layout,
    num_texts: int,
    labels: tuple[str, ...] = ("0", "1"),
    sizes: tuple[int, ...] = _USUAL_SIZES,
    texts_have_units: bool = False,
) -> tuple[Task, _Layout]:
    task = Task(
        name=f"discoeval/{name}",
        labels=labels,
        num_texts=num_texts,
        metrics=("accuracy",),
        main_metric="accuracy",
        splits=tuple(map(Split, _FILES, sizes)),
        texts_have_units=texts_have_units,
    )
    return task, layout


_RST = _Layout("RST")
_LAYOUTS = dict(
    (
        *(
            _task(f"sp/{domain}", _Layout(f"SP/{domain}"), 5, ("0", "1", "2", "3", "4"))
            for domain in _DOMAINS
        ),
        *(
            _task(
                f"bso/{domain}",
                _Layout(f"BSO/{domain}", has_labels=False),
                2,
                sizes=tuple(2 * size for size in _USUAL_SIZES),
            )
            for domain in _DOMAINS
        ),
        _task("dc/chat", _Layout("DC/chat"), 6, sizes=(5_816, 1_834, 2_418)),
        _task("dc/wiki", _Layout("DC/wiki"), 6),
        _task("ssp", _Layout("SSP/abs"), 1),
        _task(
            "pdtb/explicit",
            _Layout("PDTB/Explicit", labels_are_named=True),
            2,
            _EXPLICIT,
            (9_383, 3_613, 3_758),
        ),
        _task(
            "pdtb/implicit",
            _Layout("PDTB/Implicit", labels_are_named=True),
            2,
            _IMPLICIT,
            (8_693, 2_972, 3_024),
        ),
        _task(
            "rst", _RST, 2, _RST_LABELS, (17_051, 2_045, 2_308), texts_have_units=True
        ),
    )
)
TASKS = tuple(_LAYOUTS)


def read(task: Task, data_dir: pathlib.Path, split_name: str) -> list[Example]:
    """The examples of a split of a task in `TASKS`: see `registry.read`."""
    layout, split = _LAYOUTS[task], task.split(split_name)
    if layout is _RST:
        names = [_RST_FILES[split.name]]
        path = task_files.find_file(data_dir, layout.folder, names)
        return rst_files.read(path, task.labels)
    texts = tuple(f"text {number + 1}" for number in range(task.num_texts))
    columns = (_LABEL, *texts) if layout.has_labels else texts
    path = task_files.find_file(data_dir, layout.folder, [_FILES[split.name]])
    words = task.labels
    if layout.labels_are_named:
        _check_labels(path.with_name(_LABEL_NAMES), task)
        words = tuple(map(str, range(len(task.labels))))
    examples = []
    rows = task_files.read_rows(path, required=columns, columns=columns)
    for number, row in enumerate(rows):
        if layout.has_labels:
            label = task_files.word_number(row, _LABEL, words)
            examples.append(Example(row.fields[1:], label, str(number)))
        else:
            examples.extend(_both_orders(row, number))
    return examples


def _both_orders(row: TableRow, number: int) -> tuple[Example, Example]:
    return (
        Example(row.fields, 1, f"{number} in order"),
        Example(row.fields[::-1], 0, f"{number} swapped"),
    )


def _check_labels(path: pathlib.Path, task: Task) -> None:
    """Makes sure that the labels of files number what we take them to number."""
    rows = list(task_files.read_rows(path, required=["name"], columns=["name"]))
    for number, row in enumerate(rows):
        if number >= len(task.labels):
            raise row.error("name", f"absent: {task.name} has {number} labels")
        if row.fields[0].strip() != task.labels[number]:
            raise row.error("name", f"{task.labels[number]!r} ({task.name})")
    if len(rows) < len(task.labels):
        raise ValueError(
            f"{path} must have {len(task.labels)} lines, the labels of {task.name}. "
            f"Received: {len(rows)}"
        )
