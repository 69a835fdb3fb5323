"""Contract of a training step, and the parts of the steps of all engines."""

# Shape key: B rows of a micro-batch, O objectives, N sums.

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from seg_tf.objectives.base import Objective, ObjectiveOutput
from seg_tf.training.distribution import Distribution
from seg_tf.training.optimizers.loss_scale import DynamicLossScale, NoLossScale

Features = Mapping[str, Any]
Results = Mapping[str, ObjectiveOutput]
Memory = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """Options of a training step.

    Attributes:
        micro_batch_size: B; None takes all rows of this process at once.
        clip_norm: bound on the global gradient norm; None does not clip.
        loss_scale: keeps float16 gradients from vanishing.
        compress_gradients: whether gradients travel as float16.
        gradient_groups: groups in which they are summed over the processes, those
            that the backward pass has first, first. The sums are the same.
        jit_compile: whether XLA compiles the gradients and the update. The
            all-reduce is between the two, outside of both.
        seed: of dropout.
        distribution: the processes that train together.
    """

    micro_batch_size: int | None = None
    clip_norm: float | None = None
    loss_scale: NoLossScale | DynamicLossScale = dataclasses.field(
        default_factory=NoLossScale
    )
    compress_gradients: bool = False
    gradient_groups: int = 4
    jit_compile: bool = False
    seed: int = 0
    distribution: Distribution = dataclasses.field(default_factory=Distribution)


class NoMemory:
    """The memory of a model without memory.

    Subclasses keep the memory of a model for the text of each lane, from step to step:
    a batch has a row for every lane of a stream and continues where the one before it
    stopped.
    """

    @property
    def variables(self) -> tuple[Any, ...]:
        """The whole memory, for a checkpoint."""
        return ()

    def read(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """The memory of the rows of a batch."""
        return {}

    def write(self, features: Mapping[str, Any], memory: Mapping[str, Any]) -> None:
        """Stores what a model returned for these rows, if it is finite."""

    def collect(self, distribution: Distribution) -> None:
        """Gives every process the lanes of all processes; each has to call it."""

    def share(self) -> None:
        """Must be called after `variables` were set alike on every process."""


class StepResult(NamedTuple):
    """Outcome of a step. All numbers are those of the global batch.

    Attributes:
        finite: bool. Whether loss and gradient were; if not, no weight has changed.
        sums: float64 `(N,)`. The numbers of `pack_sums`.
        gradient_norm: before clipping.
        learning_rate: of this update.
        rows: rows of the batch.
        tokens: of these rows, padding left out.
        stop_requests: float64 `(1,)`. Number of processes that ask to stop.
        memory: the model's memory of this process's rows, by name.
    """

    finite: Any
    sums: Any
    gradient_norm: Any
    learning_rate: Any
    rows: Any
    tokens: Any
    stop_requests: Any
    memory: Memory


class GlobalBatch(NamedTuple):
    """Counts of the global batch, the same numbers on every process.

    Attributes:
        loss_weights: float32 `(O,)`. The weight that each objective's loss is over.
        rows: rows of the batch.
        tokens: of these rows, padding left out.
        micro_batches: on all processes together.
        processes: those that share the batch.
        stop_requests: float64 `(1,)`. Number of processes that ask to stop.
    """

    loss_weights: Any
    rows: Any
    tokens: Any
    micro_batches: Any
    processes: Any
    stop_requests: Any


class StepParts:
    """The parts that a step of each engine is made of.

    Args:
        forward: from features of some rows to the result of each objective and to
            the model's memory of them, `{}` for a model without memory.
        objectives: by the names of these results.
        variables: what is trained.
        random_states: states of the generators of dropout.
        optimizer: built, without clipping.
        num_sums: N, how many numbers `pack_sums` gives for the results.
        options: those of the step.
    """

    def __init__(
        self,
        forward: Callable[[Features], tuple[Results, Memory]],
        objectives: Mapping[str, Objective],
        variables: Sequence[keras.Variable],
        random_states: Sequence[keras.Variable],
        optimizer: keras.optimizers.Optimizer,
        num_sums: int,
        options: StepOptions,
    ):
        self._forward = forward
        self._objectives = objectives
        self._variables = list(variables)
        self._random_states = list(random_states)
        self._optimizer = optimizer
        self._num_sums = num_sums
        self._options = options


def named_pairs(results: Results) -> list[tuple[str, tuple[Any, Any]]]:
    """(name, (sum, weight)) of every loss and metric of every objective."""
    pairs = []
    for objective, result in results.items():
        pairs.append((f"{objective}_loss", result.loss))
        for metric, pair in result.metrics.items():
            pairs.append((f"{objective}_{metric}", pair))
    return pairs


def pack_sums(results: Results) -> Any:
    """All sums and weights, as float64 `(N,)`: float32 cannot count to 2**24 + 1."""
    numbers = [number for _, pair in named_pairs(results) for number in pair]
    return ops.stack([ops.cast(number, "float64") for number in numbers])


def nearest_power_of_two(number: Any) -> Any:
    """The power of two next to a positive float64, as float32, and exact in it."""
    exponent = ops.round(ops.log(number) / math.log(2.0))
    return ops.cast(2.0**exponent, "float32")
