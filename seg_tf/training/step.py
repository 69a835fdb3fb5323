"""The contract of a training step, and the parts that the steps of both engines share.

The optimizer descends the weighted sum over objectives o of

    S_o / G_o = (sum of losses of the global batch) / (sum of their weights)

so k micro-batches of b rows, on any processes, give the gradient of one batch of k·b. A
micro-batch m differentiates its share of that, F times enlarged:

    loss_scale * sum over o of loss_weight_o * S_om / (G_o / F)

F is the power of two next to the number of micro-batches of the global batch, so that
the loss has the size of the micro-batch's own mean; divided by G_o, gradients would
underflow in float16. The update divides the sum by F again, in float32. Gradients that
are sent as float16 are divided by the power of two next to the micro-batches of a
process, so that they have the size of one micro-batch there too.

Dropout of a micro-batch is a function of the seed and of the number of its first
sample, so it is the same on every process and after every restart.
"""

# Shape key: B rows of a micro-batch, O objectives, N sums.

import dataclasses
import math
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
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
        """The factor of the loss, a float32 scalar."""
        return ops.convert_to_tensor(1.0, "float32")

    def update(self, finite: Any) -> None:
        """Adjusts the scale after a step with finite or non-finite gradients."""


@configured_by(LossScaleConfig)
class DynamicLossScale:
    """Keeps float16 gradients from vanishing, as in the NVIDIA BERT recipe.

    Halves down to `floor` when a gradient overflows, doubles after `growth_interval`
    good steps in a row. Keras's `LossScaleOptimizer` has no floor and unscales after
    gradients were checked and clipped; here the training step does these in order.
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
        return ops.convert_to_tensor(self._value)

    @property
    def variables(self) -> tuple[Any, ...]:
        return (self._value, self._good_steps)

    def update(self, finite: Any) -> None:
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
    """Options of a training step."""

    micro_batch_size: int | None = None  # None computes all rows at once
    clip_norm: float | None = None  # bound on the global gradient norm
    loss_scale: NoLossScale | DynamicLossScale = dataclasses.field(
        default_factory=NoLossScale
    )
    compress_gradients: bool = False  # whether they are sent as float16
    gradient_groups: int = 4  # in which they are summed over the processes
    jit_compile: bool = False  # gradients and update, not the sum between them
    seed: int = 0  # of dropout
    distribution: Distribution = dataclasses.field(default_factory=Distribution)


class LaneMemory:
    """A model's memory of the text of each lane, between steps.

    A batch has a row for every lane of a stream, and continues where the batch before
    it stopped. Each process has the memory of all lanes. That of other processes' rows
    is old until `collect`.

    Args:
        initial: memory of the lanes before any text, by name: tensors
            `(number of lanes, …)`; none for a model without memory.
    """

    def __init__(self, initial: Mapping[str, Any] = types.MappingProxyType({})):
        # TensorFlow has no int32 variables on GPUs.
        self._lanes = {
            name: keras.Variable(
                value,
                dtype="int64" if "int" in str(value.dtype) else value.dtype,
                trainable=False,
                name=name,
            )
            for name, value in initial.items()
        }
        self._dtypes = {name: value.dtype for name, value in initial.items()}
        self._num_lanes = max((value.shape[0] for value in initial.values()), default=0)
        self._own: Any = None

    @property
    def variables(self) -> tuple[Any, ...]:
        """The memory of all lanes, for a checkpoint."""
        return tuple(self._lanes.values())

    def read(self, features: Features) -> dict[str, Any]:
        """The memory of the rows of a batch."""
        return {
            name: ops.cast(
                ops.take(variable.value, features["lane"], axis=0), self._dtypes[name]
            )
            for name, variable in self._lanes.items()
        }

    def write(self, features: Features, memory: Memory) -> None:
        """Stores the memory that a model returned for these rows, if it is finite."""
        if not self._lanes:
            return
        is_row = features["lane"][:, None] == ops.arange(self._num_lanes)[None, :]
        # NaNs in the memory would persist forever. The old memory does not precede the
        # next words, which models notice.
        finite = [
            ops.all(ops.isfinite(value), axis=tuple(range(1, len(value.shape))))
            for value in memory.values()
            if "float" in keras.backend.standardize_dtype(value.dtype)
        ]
        is_row = ops.logical_and(is_row, ops.all(ops.stack(finite), axis=0)[:, None])
        written, rows = ops.any(is_row, axis=0), ops.argmax(is_row, axis=0)
        # A choice, as deterministic kernels would copy a scatter through the host.
        for name, variable in self._lanes.items():
            mask = ops.reshape(written, (-1,) + (1,) * (len(variable.shape) - 1))
            new = ops.cast(ops.take(memory[name], rows, axis=0), variable.dtype)
            variable.assign(ops.where(mask, new, variable.value))

    def own(self, features: Features) -> None:
        """Must be called with each batch that this process trains on."""
        self._own = features.get("lane")

    def collect(self, distribution: Distribution) -> None:
        """Gives every process the lanes of all processes; each has to call it."""
        alone = distribution.size == 1 or distribution.computes_together
        if self._own is None or alone:
            return
        # Every lane is a row of exactly one process.
        mask = np.isin(np.arange(self._num_lanes), np.asarray(self._own))
        for name, variable in self._lanes.items():
            shape = (-1,) + (1,) * (len(variable.shape) - 1)
            value = ops.where(mask.reshape(shape), variable.value, 0)
            # Gloo cannot add bfloat16.
            dtype = "int64" if variable.dtype == "int64" else "float32"
            (total,) = distribution.sum([ops.cast(value, dtype)], f"lanes_{name}")
            variable.assign(ops.cast(total, variable.dtype))

    def share(self) -> None:
        """Must be called after `variables` were set to the same on every process."""
        self._own = None


class StepResult(NamedTuple):
    """Outcome of a step. All numbers belong to the global batch."""

    finite: Any  # bool; if it is false, no weight has changed
    sums: Any  # float64 `(N,)`, by `pack_sums`
    gradient_norm: Any  # before clipping
    learning_rate: Any
    rows: Any
    tokens: Any  # without padding
    stop_requests: Any  # float64 `(1,)`: processes that ask to stop
    memory: Memory  # of this process's rows


class GlobalBatch(NamedTuple):
    """Counts of the global batch, the same numbers on every process."""

    loss_weights: Any  # float32 `(O,)`: denominator of each objective's loss
    rows: Any
    tokens: Any  # without padding
    micro_batches: Any  # on all processes together
    processes: Any
    stop_requests: Any  # float64 `(1,)`: processes that ask to stop


@dataclasses.dataclass(eq=False, repr=False)
class StepParts:
    """Base class of the steps of both engines.

    `forward` maps features of some rows to the result of each objective and the model's
    memory of the rows. `num_sums` is N, the length of `pack_sums` for the results.
    """

    forward: Callable[[Features], tuple[Results, Memory]]
    objectives: Mapping[str, Objective]
    variables: Sequence[keras.Variable]
    random_states: Sequence[keras.Variable]
    optimizer: keras.optimizers.Optimizer
    num_sums: int
    options: StepOptions


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
