"""The contract of a training step, and the parts that the steps of both engines share.

The optimizer descends the weighted sum over objectives o of

    S_o / G_o = (sum of losses of the global batch) / (sum of their weights)

which is neither a mean of means over micro-batches nor over processes: k micro-batches
of b rows, on any processes, give the gradient of one batch of k·b. A micro-batch m
differentiates its share of that, F times enlarged:

    loss_scale * sum over o of loss_weight_o * S_om / (G_o / F)

F is the power of two next to the number of micro-batches of the global batch, so that
G_o / F is about the weight of one micro-batch, and the loss has the size of the
micro-batch's own mean. Divided by G_o, the gradients of a batch of millions of targets
would underflow in float16. The update divides the sum by F again, in float32; a power
of two changes no bit of a float32 or bfloat16 gradient. Gradients that are sent as
float16 are first divided by the power of two next to the micro-batches of a process, so
that they have the size of one micro-batch there too.

Dropout of a micro-batch is a function of the seed and of the number of its first
sample, so it is the same on every process and after every restart.
"""

# Shape key: B rows of a micro-batch, O objectives, N sums.

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from seg_tf.config import LossScaleConfig, configured_by
from seg_tf.objectives.base import Objective, ObjectiveOutput
from seg_tf.training.distribution import Distribution

Features = Mapping[str, Any]
Results = Mapping[str, ObjectiveOutput]
Memory = Mapping[str, Any]


class NoLossScale:
    """The scale of precisions that need none."""

    variables: tuple[()] = ()

    @property
    def value(self) -> Any:
        return ops.convert_to_tensor(1.0, "float32")

    def update(self, finite: Any) -> None:
        """Does nothing."""


@configured_by(LossScaleConfig)
class DynamicLossScale:
    """Keeps float16 gradients from vanishing, as in the NVIDIA BERT recipe.

    Halves when a gradient overflows, doubles after a number of good steps. Keras's
    `LossScaleOptimizer` has no floor and unscales after gradients were checked and
    clipped; here the training step does these in order.

    Args:
        initial: the first scale.
        growth_interval: consecutive good steps after which it doubles.
        floor: lower bound.
    """

    def __init__(self, initial: float, growth_interval: int, floor: float):
        self._growth_interval = growth_interval
        self._floor = floor
        self._value = keras.Variable(
            initial, dtype="float32", trainable=False, name="loss_scale"
        )
        self._good_steps = keras.Variable(
            0, dtype="int64", trainable=False, name="good_steps"
        )

    @property
    def value(self) -> Any:
        """The factor, a float32 scalar."""
        return ops.convert_to_tensor(self._value)

    @property
    def variables(self) -> tuple[Any, ...]:
        """State to save in checkpoints."""
        return (self._value, self._good_steps)

    def update(self, finite: Any) -> None:
        """Adjusts the scale after a step with finite or non-finite gradients."""
        good_steps = self._good_steps.value + 1
        grows = good_steps >= self._growth_interval
        value = self.value
        # Doubling the largest power of two in float32 would overflow.
        doubled = ops.where(ops.isinf(value * 2.0), value, value * 2.0)
        halved = ops.maximum(value / 2.0, self._floor)
        zero = ops.zeros_like(good_steps)
        self._value.assign(ops.where(finite, ops.where(grows, doubled, value), halved))
        self._good_steps.assign(
            ops.where(ops.logical_and(finite, ops.logical_not(grows)), good_steps, zero)
        )


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """Options of a training step.

    Attributes:
        micro_batch_size: B; None computes all rows of a process at once.
        clip_norm: bound on the global gradient norm; None does not clip.
        loss_scale: keeps float16 gradients from vanishing.
        compress_gradients: whether gradients are sent as float16.
        gradient_groups: number of groups in which gradients are summed over the
            processes, in the order of the backward pass.
        jit_compile: whether XLA compiles gradients and update. The all-reduce is
            between the two, outside of both.
        seed: seed of dropout.
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

    Subclasses keep a model's memory of each lane's text between steps: a batch has a
    row for every lane of a stream, and continues where the batch before it stopped.
    """

    @property
    def variables(self) -> tuple[Any, ...]:
        """The whole memory, for a checkpoint."""
        return ()

    def read(self, features: Features) -> dict[str, Any]:
        """The memory of the rows of a batch."""
        return {}

    def write(self, features: Features, memory: Memory) -> None:
        """Stores the memory that a model returned for these rows, if it is finite."""

    def collect(self, distribution: Distribution) -> None:
        """Gives every process the lanes of all processes; each has to call it."""

    def share(self) -> None:
        """Must be called after `variables` were set to the same on every process."""


class LaneMemory(NoMemory):
    """The memory of every lane; a process reads and writes the lanes of its rows.

    Args:
        initial: memory of the lanes before any text, by name: tensors
            `(number of lanes, …)`.
    """

    def __init__(self, initial: Mapping[str, Any]):
        self._lanes = {
            name: keras.Variable(value, trainable=False, dtype=value.dtype, name=name)
            for name, value in initial.items()
        }

    @property
    def variables(self) -> tuple[Any, ...]:
        return tuple(self._lanes.values())

    def read(self, features: Features) -> dict[str, Any]:
        return {
            name: ops.take(variable, features["lane"], axis=0)
            for name, variable in self._lanes.items()
        }

    def write(self, features: Features, memory: Memory) -> None:
        # NaNs in the memory would persist forever. The old memory does not precede the
        # next words, which models notice.
        masks = [
            ops.all(ops.isfinite(value), axis=tuple(range(1, len(value.shape))))
            for value in memory.values()
        ]
        is_in_row = self._is_in_row(features)
        rows = ops.argmax(ops.cast(is_in_row, "int32"), axis=1)
        finite = ops.take(ops.all(ops.stack(masks), axis=0), rows, axis=0)
        is_new = ops.logical_and(ops.any(is_in_row, axis=1), finite)
        for name, variable in self._lanes.items():
            # A choice, since deterministic kernels copy scatters through the host.
            mask = ops.reshape(is_new, (-1,) + (1,) * (len(variable.shape) - 1))
            value = ops.take(memory[name], rows, axis=0)
            variable.assign(ops.where(mask, value, variable.value))

    def _is_in_row(self, features: Features) -> Any:
        """Whether a lane is in a row of the batch: bool `(lanes, rows)`."""
        lanes = ops.convert_to_tensor(features["lane"])
        numbers = ops.arange(self.variables[0].shape[0], dtype=lanes.dtype)
        return ops.equal(numbers[:, None], lanes[None, :])


class StepResult(NamedTuple):
    """Outcome of a step. All numbers belong to the global batch.

    Attributes:
        finite: bool. Whether loss and gradient are; if not, no weight has changed.
        sums: float64 `(N,)`. The numbers of `pack_sums`.
        gradient_norm: before clipping.
        learning_rate: of this update.
        rows: number of rows.
        tokens: number of tokens, without padding.
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
        loss_weights: float32 `(O,)`. Denominator of each objective's loss.
        rows: number of rows.
        tokens: number of tokens, without padding.
        micro_batches: on all processes together.
        processes: number of processes.
        stop_requests: float64 `(1,)`. Number of processes that ask to stop.
    """

    loss_weights: Any
    rows: Any
    tokens: Any
    micro_batches: Any
    processes: Any
    stop_requests: Any


class StepParts:
    """Base class of the steps of both engines.

    Args:
        forward: maps features of some rows to the result of each objective and the
            model's memory of the rows, `{}` for a model without memory.
        objectives: objectives by the names of these results.
        variables: trainable variables.
        random_states: states of the generators of dropout.
        optimizer: built, without clipping.
        num_sums: N, the length of `pack_sums` for the results.
        options: options of the step.
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
    return [
        (f"{objective}_{name}", pair)
        for objective, result in results.items()
        for name, pair in (("loss", result.loss), *result.metrics.items())
    ]


def pack_sums(results: Results) -> Any:
    """All sums and weights, as float64 `(N,)`: float32 cannot count to 2**24 + 1."""
    numbers = [number for _, pair in named_pairs(results) for number in pair]
    return ops.stack([ops.cast(number, "float64") for number in numbers])


def nearest_power_of_two(number: Any) -> Any:
    """The power of two next to a positive float64, as an exact float32."""
    exponent = ops.round(ops.log(number) / math.log(2.0))
    return ops.cast(2.0**exponent, "float32")
