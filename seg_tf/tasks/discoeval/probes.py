"""DiscoEval's probes: what is trained on the vectors of a frozen encoder, and how.

Settings are those of the benchmark's code (Chen et al., 2019), each task's its own. In
that code DC changes a settings object that all tasks share, so whatever is run after it
gets its hidden layer; here nothing can.

A probe is trained with Adam. After every `passes_per_evaluation` passes over the
training data its accuracy on dev is taken. Training ends with the evaluation at which
more than `max_passes` have been made, or at which accuracy has failed to rise
`tenacity` + 1 times in all, be it not in a row. The weights that were best on dev are
kept. Of several `l2` the one best on dev is taken; as in PyTorch's Adam, its gradient
is part of what Adam scales.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from seg_tf.tasks.discoeval import discoeval_tasks
from seg_tf.tasks.example import Task


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """Settings of a task's probe and its training.

    Attributes:
        features: name of what it reads: see `combine_vectors`.
        hidden_size: width of its hidden layer with a sigmoid; 0 for none, which makes
            it logistic regression.
        batch_size: examples of an update.
        max_passes: passes over the training data after which no more are begun.
        passes_per_evaluation: passes between two evaluations on dev.
        tenacity: evaluations without a rise that are put up with.
        l2: strengths of the L2 penalty to choose from.
    """

    features: str
    hidden_size: int = 0
    batch_size: int = 64
    max_passes: int = 200
    passes_per_evaluation: int = 4
    tenacity: int = 5
    l2: tuple[float, ...] = (1e-9,)

    def __post_init__(self):
        if self.features not in _COMBINATIONS:
            raise ValueError(
                f"`features` must be one of {', '.join(_COMBINATIONS)}. Received: "
                f"{self.features!r}"
            )


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
        ValueError: if there is no such combination, or not for so many texts.
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
    """The settings of a task of DiscoEval.

    Raises:
        ValueError: if the task is another benchmark's.
    """
    if task not in discoeval_tasks.TASKS:
        raise ValueError(
            "`task` must be one of DiscoEval, whose protocol has probes. Received: "
            f"{task.name!r}"
        )
    return _SETTINGS[task.name.split("/")[1]]
