"""DiscoEval (Chen et al., 2019): tasks, their files, and settings of probes.

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
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seg_tf.tasks.task import Example, Split, Task, find_file, read_rows

_FILES = {"train": "train.txt", "dev": "valid.txt", "test": "test.txt"}
_LABEL_NAMES = "labelset.txt"
_LABEL = "label"
_BOTH_KINDS = (
    "Expansion.Alternative",
    "Expansion.Conjunction",
    "Expansion.Instantiation",
    "Expansion.List",
    "Expansion.Restatement",
    "Temporal.Asynchronous",
    "Temporal.Synchrony",
)
_EXPLICIT = (
    "Comparison.Concession",
    "Comparison.Contrast",
    "Contingency.Cause",
    "Contingency.Condition",
    "Contingency.Pragmatic condition",
    *_BOTH_KINDS,
)
_IMPLICIT = (
    "Comparison.Concession",
    "Comparison.Contrast",
    "Contingency.Cause",
    "Contingency.Pragmatic cause",
    *_BOTH_KINDS,
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


def _task(
    name: str,
    folder: str,
    num_texts: int,
    labels: tuple[str, ...] = ("0", "1"),
    sizes: tuple[int, ...] = _USUAL_SIZES,
    texts_have_units: bool = False,
) -> tuple[Task, str]:
    task = Task(
        name=f"discoeval/{name}",
        labels=labels,
        num_texts=num_texts,
        metrics=("accuracy",),
        splits=tuple(map(Split, _FILES, sizes)),
        texts_have_units=texts_have_units,
    )
    return task, folder


_BSO_SIZES = tuple(2 * size for size in _USUAL_SIZES)
_EXPLICIT_SIZES, _IMPLICIT_SIZES = (9_383, 3_613, 3_758), (8_693, 2_972, 3_024)
_RST_SIZES = (17_051, 2_045, 2_308)
_FOLDERS = dict(
    (
        *(
            _task(f"sp/{domain}", f"SP/{domain}", 5, tuple("01234"))
            for domain in _DOMAINS
        ),
        *(
            _task(f"bso/{domain}", f"BSO/{domain}", 2, sizes=_BSO_SIZES)
            for domain in _DOMAINS
        ),
        _task("dc/chat", "DC/chat", 6, sizes=(5_816, 1_834, 2_418)),
        _task("dc/wiki", "DC/wiki", 6),
        _task("ssp", "SSP/abs", 1),
        _task("pdtb/explicit", "PDTB/Explicit", 2, _EXPLICIT, _EXPLICIT_SIZES),
        _task("pdtb/implicit", "PDTB/Implicit", 2, _IMPLICIT, _IMPLICIT_SIZES),
        _task("rst", "RST", 2, _RST_LABELS, _RST_SIZES, texts_have_units=True),
    )
)
TASKS = tuple(_FOLDERS)


def read(task: Task, data_dir: pathlib.Path, split_name: str) -> list[Example]:
    """The examples of a split of a task in `TASKS`: see `seg_tf.tasks.read`."""
    folder, split = _FOLDERS[task], task.split(split_name)
    kind = task.name.split("/")[1]
    if kind == "rst":
        path = find_file(data_dir, folder, [_RST_FILES[split.name]])
        return _read_rst(path, task.labels)
    texts = tuple(f"text {number + 1}" for number in range(task.num_texts))
    columns = texts if kind == "bso" else (_LABEL, *texts)
    path = find_file(data_dir, folder, [_FILES[split.name]])
    labels = task.labels
    if kind == "pdtb":
        _check_labels(path.with_name(_LABEL_NAMES), task)
        labels = tuple(map(str, range(len(task.labels))))
    examples = []
    rows = read_rows(path, required=columns, columns=columns)
    for number, row in enumerate(rows):
        if kind == "bso":
            examples.append(Example(row.fields, 1, f"{number} in order"))
            examples.append(Example(row.fields[::-1], 0, f"{number} swapped"))
        else:
            label = row.label(_LABEL, labels)
            examples.append(Example(row.fields[1:], label, str(number)))
    return examples


def _check_labels(path: pathlib.Path, task: Task) -> None:
    """Makes sure that the labels of files have our numbers."""
    rows = list(read_rows(path, required=["name"], columns=["name"]))
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


class _DataOnly(pickle.Unpickler):
    """Pickles can run code when they are read; these need only plain data."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it holds a {module}.{name}")


def _read_rst(path: pathlib.Path, labels: Sequence[str]) -> list[Example]:
    """Reads a pickled list of `(relation, units of child 1, units of child 2)`."""

    def are_units(value: Any) -> bool:
        return (
            isinstance(value, list)
            and bool(value)
            and all(isinstance(unit, str) and unit.strip() for unit in value)
        )

    with open(path, "rb") as file:
        try:
            nodes = _DataOnly(file).load()
        # Arbitrary bytes can raise anything.
        except Exception as error:
            raise ValueError(
                f"{path} must be a pickled list of texts. Received: "
                f"{type(error).__name__}: {error}"
            ) from error
    examples = []
    for number, node in enumerate(nodes if isinstance(nodes, list) else [nodes]):
        if not (
            isinstance(node, tuple | list)
            and len(node) == 3
            and node[0] in labels
            and all(map(are_units, node[1:]))
        ):
            raise ValueError(
                f"{path}: node {number} must be a relation ({labels[0]}, …) and two "
                f"lists of texts. Received: {str(node)[:60]!r}"
            )
        texts = tuple(
            "\n".join(" ".join(unit.split()) for unit in units) for units in node[1:]
        )
        examples.append(Example(texts, labels.index(node[0]), str(number)))
    return examples


# === Probes ===


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """Settings of a task's probe, as in the benchmark's code.

    A probe is trained with Adam and evaluated on dev after every
    `passes_per_evaluation` passes over the training data. Training ends after
    `max_passes`, or once accuracy has failed to rise `tenacity` + 1 times in total. The
    weights that were best on dev are used, of the best of several `l2`. As in PyTorch's
    Adam, the gradient of the penalty is part of what Adam scales.

    In the benchmark's code DC changes a settings object that all tasks share, so tasks
    that run after it get its hidden layer; here they do not.

    Attributes:
        features: what the probe reads: see `combine_vectors`.
        hidden_size: width of its hidden layer with a sigmoid; 0 for none, which makes
            it logistic regression.
        batch_size: examples of an update.
        max_passes: passes over the training data after which no more are begun.
        passes_per_evaluation: passes between two evaluations on dev.
        tenacity: evaluations without a rise that do not end the training.
        l2: strengths of the L2 penalty to choose from.
    """

    features: str
    hidden_size: int = 0
    batch_size: int = 64
    max_passes: int = 200
    passes_per_evaluation: int = 4
    tenacity: int = 5
    l2: tuple[float, ...] = (1e-9,)


def combine_vectors(features: str, vectors: np.ndarray) -> np.ndarray:
    """Combines the vectors of an example's texts to the input of a probe.

    Args:
        features: with vectors a, b, c, …:
            "only": a
            "concatenated": a, b, c, …
            "first_and_differences": a, a - b, a - c, …
            "pair_and_difference": a, b, a - b
            "pair_product_and_distance": a, b, a * b, |a - b|
        vectors: of shape `(num_examples, num_texts, size)`.

    Returns:
        Features of shape `(num_examples, num_features)`.

    Raises:
        ValueError: if there is no such combination, or not for this number of texts.
    """
    if features not in _COMBINATIONS:
        raise ValueError(
            f"`features` must be one of {', '.join(_COMBINATIONS)}. Received: "
            f"{features!r}"
        )
    num_texts, combine = _COMBINATIONS[features]
    if vectors.ndim != 3 or (num_texts and vectors.shape[1] != num_texts):
        raise ValueError(
            "`vectors` must have the shape (num_examples, "
            f"{num_texts or 'num_texts'}, size) for {features!r}. Received: shape "
            f"{vectors.shape}"
        )
    return np.concatenate(combine(*np.moveaxis(vectors, 1, 0)), axis=-1)


# Name -> number of texts (0 for any) and what is concatenated.
_COMBINATIONS = {
    "only": (1, lambda a: (a,)),
    "concatenated": (0, lambda *all_vectors: all_vectors),
    "first_and_differences": (0, lambda a, *others: (a, *(a - b for b in others))),
    "pair_and_difference": (2, lambda a, b: (a, b, a - b)),
    "pair_product_and_distance": (2, lambda a, b: (a, b, a * b, np.abs(a - b))),
}
_L2_OF_SENTENCE_TASKS = (1e-5, 1e-4, 1e-3, 1e-2)
_RELATION_TASKS = ProbeSettings(
    features="pair_product_and_distance", max_passes=15, passes_per_evaluation=1
)
_SETTINGS: Mapping[str, ProbeSettings] = {
    "sp": ProbeSettings(features="first_and_differences", l2=_L2_OF_SENTENCE_TASKS),
    "bso": ProbeSettings(features="pair_and_difference", l2=_L2_OF_SENTENCE_TASKS),
    "dc": ProbeSettings(
        features="concatenated",
        hidden_size=2_000,
        passes_per_evaluation=15,
        tenacity=8,
    ),
    "ssp": ProbeSettings(features="only"),
    "pdtb": _RELATION_TASKS,
    "rst": _RELATION_TASKS,
}


def settings_of(task: Task) -> ProbeSettings:
    """The settings of a task's probe.

    Raises:
        ValueError: if the task is another benchmark's.
    """
    if task not in TASKS:
        raise ValueError(
            "`task` must be one of DiscoEval, whose protocol has probes. Received: "
            f"{task.name!r}"
        )
    return _SETTINGS[task.name.split("/")[1]]
