"""Tasks and probe settings of DiscoEval (Chen et al., 2019).

| task | row of a file | labels |
|---|---|---|
| SP, sentence position | label, 5 sentences | original position of the first sentence |
| BSO, binary sentence ordering | 2 sentences in order | 1 in order, 0 swapped |
| DC, discourse coherence | label, 6 sentences | 1 coherent, 0 with a foreign sentence |
| SSP, sentence section prediction | label, 1 sentence | 1 from an abstract |
| PDTB, explicit and implicit relations | label, 2 texts | second-level senses |

BSO rows have no label. Each row yields two examples, in order and swapped. PDTB labels
are line numbers of `labelset.txt`, from 0.
"""

import dataclasses
import pathlib
from collections.abc import Mapping

import numpy as np

from seg_tf.tasks.task import Example, Split, Task, find_file, read_rows

_FILES = {"train": "train.txt", "dev": "valid.txt", "test": "test.txt"}
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
_DOMAINS = ("arxiv", "rocstory", "wiki")
_USUAL_SIZES = (10_000, 4_000, 4_000)


def _task(
    name: str,
    num_texts: int,
    labels: tuple[str, ...] = ("0", "1"),
    sizes: tuple[int, ...] = _USUAL_SIZES,
) -> Task:
    return Task(
        name=f"discoeval/{name}",
        labels=labels,
        num_texts=num_texts,
        splits=tuple(map(Split, _FILES, sizes)),
    )


# Folder of each task.
_FOLDERS = {
    **{_task(f"sp/{domain}", 5, tuple("01234")): f"SP/{domain}" for domain in _DOMAINS},
    **{
        _task(f"bso/{domain}", 2, sizes=(20_000, 8_000, 8_000)): f"BSO/{domain}"
        for domain in _DOMAINS
    },
    _task("dc/chat", 6, sizes=(5_816, 1_834, 2_418)): "DC/chat",
    _task("dc/wiki", 6): "DC/wiki",
    _task("ssp", 1): "SSP/abs",
    _task("pdtb/explicit", 2, _EXPLICIT, (9_383, 3_613, 3_758)): "PDTB/Explicit",
    _task("pdtb/implicit", 2, _IMPLICIT, (8_693, 2_972, 3_024)): "PDTB/Implicit",
}
TASKS = tuple(_FOLDERS)


def read(task: Task, data_dir: pathlib.Path, split_name: str) -> list[Example]:
    """Reads the examples of a split of a task in `TASKS`. See `seg_tf.tasks.read`."""
    kind, file = task.name.split("/")[1], _FILES[task.split(split_name).name]
    columns = tuple(f"text {number + 1}" for number in range(task.num_texts))
    if kind != "bso":
        columns = ("label", *columns)
    path = find_file(data_dir, _FOLDERS[task], [file])
    labels = task.labels
    if kind == "pdtb":
        names = path.with_name("labelset.txt").read_text(encoding="utf-8").splitlines()
        if tuple(names) != labels:
            raise ValueError(
                f"{path.with_name('labelset.txt')} must have the lines "
                f"{', '.join(labels)}. Received: {', '.join(names)}"
            )
        labels = tuple(map(str, range(len(labels))))
    examples = []
    for number, row in enumerate(read_rows(path, required=columns, columns=columns)):
        if kind == "bso":
            examples.append(Example(row.fields, 1, f"{number} in order"))
            examples.append(Example(row.fields[::-1], 0, f"{number} swapped"))
        else:
            label = row.label("label", labels)
            examples.append(Example(row.fields[1:], label, str(number)))
    return examples


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """Settings of a task's probe, as in the benchmark's code.

    A probe is trained with Adam and evaluated on the dev set after every
    `passes_per_evaluation` passes over the training data. Training ends with the first
    evaluation after more than `max_passes` passes, or once accuracy has failed to
    improve `tenacity` + 1 times in total. One probe is trained for each value of `l2`,
    and the weights with the best dev accuracy are used. As in PyTorch's Adam, the
    gradient of the penalty is part of the gradient that Adam scales. Unlike in the
    benchmark's code, the hidden layer of DC is not added to the probes of later tasks.

    Attributes:
        features: str. Input of the probe. See `combine_vectors`.
        hidden_size: int. Width of the hidden layer with a sigmoid. 0 omits the layer,
            which makes the probe logistic regression.
        l2: tuple of float. Strengths of the L2 penalty to choose from.
    """

    features: str
    hidden_size: int = 0
    batch_size: int = 64
    max_passes: int = 200
    passes_per_evaluation: int = 4
    tenacity: int = 5
    l2: tuple[float, ...] = (1e-9,)

    @property
    def max_evaluations(self) -> int:
        """Maximum number of evaluations on the dev set for one value of `l2`."""
        # The last one follows passes that start after `max_passes` have been made.
        return self.max_passes // self.passes_per_evaluation + 1


def combine_vectors(features: str, vectors: np.ndarray) -> np.ndarray:
    """Combines text vectors into probe inputs, float `(num_examples, num_features)`.

    Args:
        features: str. With vectors a, b, c, …, one of:
            "concatenated": a, b, c, …
            "first_and_differences": a, a - b, a - c, …
            "pair_and_difference": a, b, a - b
            "pair_product_and_distance": a, b, a * b, |a - b|
        vectors: float array `(num_examples, num_texts, size)`.
    """
    return np.concatenate(_COMBINATIONS[features](*np.moveaxis(vectors, 1, 0)), axis=-1)


_COMBINATIONS = {
    "concatenated": lambda *all_vectors: all_vectors,
    "first_and_differences": lambda a, *others: (a, *(a - b for b in others)),
    "pair_and_difference": lambda a, b: (a, b, a - b),
    "pair_product_and_distance": lambda a, b: (a, b, a * b, np.abs(a - b)),
}
_L2_OF_SENTENCE_TASKS = (1e-5, 1e-4, 1e-3, 1e-2)
_SETTINGS: Mapping[str, ProbeSettings] = {
    "sp": ProbeSettings(features="first_and_differences", l2=_L2_OF_SENTENCE_TASKS),
    "bso": ProbeSettings(features="pair_and_difference", l2=_L2_OF_SENTENCE_TASKS),
    "dc": ProbeSettings(
        features="concatenated", hidden_size=2_000, passes_per_evaluation=15, tenacity=8
    ),
    "ssp": ProbeSettings(features="concatenated"),
    "pdtb": ProbeSettings(
        features="pair_product_and_distance", max_passes=15, passes_per_evaluation=1
    ),
}


def settings_of(task: Task) -> ProbeSettings:
    """Returns a task's probe settings. Raises ValueError if it is not in DiscoEval."""
    if task not in TASKS:
        raise ValueError(f"`task` must be a task of DiscoEval. Received: {task.name!r}")
    return _SETTINGS[task.name.split("/")[1]]
