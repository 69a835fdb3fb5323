"""Defines the training step's interface, and the parts that both engines share.

The optimizer minimizes the weighted sum over objectives o of

    S_o / G_o = (sum of losses of the global batch) / (sum of their weights)

so k micro-batches of b rows, on any number of processes, give the gradient of one batch
of k * b rows. If S_om is the part of S_o from micro-batch m, the loss of m is

    loss_scale * sum over o of loss_weight_o * S_om / (G_o / F)

F is the power of two nearest to the number of micro-batches in the global batch. It
gives the loss the scale of the micro-batch's own mean, so that gradients do not
underflow in float16. The update divides the summed gradient by loss_scale * F in
float32. Gradients that are sent as float16 are first divided by the power of two
nearest to the number of micro-batches per process.

A micro-batch's dropout depends only on the seed and the number of its first sample. It
does not depend on the process, and is the same after a restart.
"""

# Shape key: B rows per micro-batch, O objectives, N sums.

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
    """Loss scale of 1, for precisions that need no loss scaling."""

    variables: tuple[()] = ()

    @property
    def value(self) -> Any:
        """Factor by which the loss is multiplied, a float32 scalar."""
        return ops.convert_to_tensor(1.0, "float32")

    def update(self, finite: Any) -> None:
        """Does nothing, because the scale is constant."""


@configured_by(LossScaleConfig)
class DynamicLossScale:
    """Dynamic loss scale against underflow in float16, as in NVIDIA's BERT recipe.

    The scale starts at `initial`. A step with a non-finite loss or gradient halves it,
    down to `floor`. After `growth_interval` consecutive finite steps, it is doubled.
    Keras's `LossScaleOptimizer` has no floor.
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

    micro_batch_size: int | None = None  # None processes all rows at once
    clip_norm: float | None = None  # maximum global gradient norm
    loss_scale: NoLossScale | DynamicLossScale = dataclasses.field(
        default_factory=NoLossScale
    )
    compress_gradients: bool = False  # whether gradients are sent as float16
    gradient_groups: int = 4  # number of all-reduces for the gradients
    jit_compile: bool = False  # compiles gradients and update, but no all-reduce
    seed: int = 0  # seed of dropout
    distribution: Distribution = dataclasses.field(default_factory=Distribution)


class LaneMemory:
    """Stores a recurrent model's memory for each lane between steps.

    A lane is a stream of text. Each row of a batch continues one lane where the
    previous batch stopped. Each process stores the memory of all lanes. Lanes that
    other processes train are outdated until `collect` is called.

    Args:
        initial: dict. Initial memory by name, tensors `(number of lanes, …)`. Empty for
            a model without memory.
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
        """Keras variables that contain the memory of all lanes, for checkpoints."""
        return tuple(self._lanes.values())

    def read(self, features: Features) -> dict[str, Any]:
        """Returns the memory of the rows' lanes by name, tensors `(rows, …)`."""
        return {
            name: ops.cast(
                ops.take(variable.value, features["lane"], axis=0), self._dtypes[name]
            )
            for name, variable in self._lanes.items()
        }

    def write(self, features: Features, memory: Memory) -> None:
        """Stores the memory after a batch, except for rows with non-finite values."""
        if not self._lanes or features["lane"].shape[0] == 0:  # a rank without lanes
            return
        is_row = features["lane"][:, None] == ops.arange(self._num_lanes)[None, :]
        # NaNs in the memory would persist forever. Models detect that the old memory
        # does not directly precede the next words.
        finite = [
            ops.all(ops.isfinite(value), axis=tuple(range(1, len(value.shape))))
            for value in memory.values()
            if "float" in keras.backend.standardize_dtype(value.dtype)
        ]
        is_row = ops.logical_and(is_row, ops.all(ops.stack(finite), axis=0)[:, None])
        written, rows = ops.any(is_row, axis=0), ops.argmax(is_row, axis=0)
        # `where`, because deterministic kernels would copy a scatter through the host.
        for name, variable in self._lanes.items():
            mask = ops.reshape(written, (-1,) + (1,) * (len(variable.shape) - 1))
            new = ops.cast(ops.take(memory[name], rows, axis=0), variable.dtype)
            variable.assign(ops.where(mask, new, variable.value))

    def own(self, features: Features) -> None:
        """Records this process's lanes. Must be called with each training batch."""
        self._own = features.get("lane")

    def collect(self, distribution: Distribution) -> None:
        """Copies each process's lanes to all processes, which must all call this."""
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
        """Marks all lanes as current. `variables` must be equal on all processes."""
        self._own = None


class StepResult(NamedTuple):
    """Outcome of a step on the global batch."""

    finite: Any  # bool; no weight has changed if false
    sums: Any  # float64 `(N,)`, from `pack_sums`
    gradient_norm: Any  # before clipping
    learning_rate: Any
    rows: Any
    tokens: Any  # without padding
    stop_requests: Any  # float64 `(1,)`: processes that request a stop
    memory: Memory  # of this process's rows


class GlobalBatch(NamedTuple):
    """Counts of the global batch, identical on all processes."""

    loss_weights: Any  # float32 `(O,)`: denominator of each objective's loss
    rows: Any
    tokens: Any  # without padding
    micro_batches: Any  # total over all processes
    processes: Any
    stop_requests: Any  # float64 `(1,)`: processes that request a stop


@dataclasses.dataclass(eq=False, repr=False)
class StepParts:
    """Base class of both engines' training steps.

    `forward` maps the features of rows to the results of all objectives and the memory
    after the rows. `num_sums` is N, the number of values that `pack_sums` returns.
    """

    forward: Callable[[Features], tuple[Results, Memory]]
    objectives: Mapping[str, Objective]
    variables: Sequence[keras.Variable]
    random_states: Sequence[keras.Variable]
    optimizer: keras.optimizers.Optimizer
    num_sums: int
    options: StepOptions


def named_pairs(results: Results) -> list[tuple[str, tuple[Any, Any]]]:
    """Returns (name, (sum, weight)) for each loss and metric of each objective."""
    return [
        (f"{objective}_{name}", pair)
        for objective, result in results.items()
        for name, pair in (("loss", result.loss), *result.metrics.items())
    ]


def pack_sums(results: Results) -> Any:
    """Stacks all sums and weights in a tensor `(N,)`, float64 for exact counts."""
    numbers = [number for _, pair in named_pairs(results) for number in pair]
    return ops.stack([ops.cast(number, "float64") for number in numbers])


def nearest_power_of_two(number: Any) -> Any:
    """Returns the float32 power of two nearest to a positive float64 in log scale."""
    exponent = ops.round(ops.log(number) / math.log(2.0))
    return ops.cast(2.0**exponent, "float32")
