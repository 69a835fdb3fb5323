"""TensorFlow as the engine, with Horovod between processes."""

import contextlib
import os
import pathlib
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf

from seg_tf.config import TrainingConfig
from seg_tf.training import devices, distribution, horovod_distribution
from seg_tf.training.distribution import Distribution
from seg_tf.training.errors import TrainingStopped
from seg_tf.training.step import NoMemory
from seg_tf.training.step_tf import TrainingStep

_HOST = "CPU:0"
_NOT_HELD = -1
Batch = Mapping[str, Any]


class TensorFlowEngine:
    """Graphs of TensorFlow.

    Attributes:
        packages: packages whose versions results depend on.
        step_class: the training step.
        devices: functions of `seg_tf.training.devices` for the engine's GPUs.
    """

    packages: tuple[str, ...] = ("tensorflow",)
    step_class: Any = TrainingStep
    devices: Any = devices

    def join(self) -> Distribution:
        """The processes that this process was started to train with.

        Raises:
            TrainingStopped: if the engine cannot be one of them.
        """
        number = os.environ.get(distribution.JAX_PROCESSES, "several")
        rank = os.environ.get(distribution.JAX_PROCESS, "?")
        is_jax_process = distribution.JAX_ADDRESS in os.environ and number != "1"
        if is_jax_process and distribution.number_launched() <= 1:
            raise TrainingStopped(
                "`--engine` must be jax on every rank that the environment gives a "
                f"{distribution.JAX_ADDRESS}. Received: --engine=tensorflow on rank "
                f"{rank} of {number} ({socket.gethostname()})"
            )
        return horovod_distribution.join()

    def compiles(self, settings: TrainingConfig) -> bool:
        """True if XLA compiles the step of a run with these settings."""
        if settings.jit_compile is None:
            # Compiled code on a GPU has no deterministic kernels.
            return devices.has_gpu() and not settings.deterministic_ops
        return settings.jit_compile

    def lane_memory(self, initial: Mapping[str, Any]) -> NoMemory:
        """Memory of lanes that starts as `initial`: tensors `(number of lanes, …)`."""
        return LaneMemory(initial)

    def traced(self, function: Callable[[Batch], Any], features: Batch) -> Any:
        """Calls a function for the variables it creates.

        Its result must not depend on the values of the features.
        """
        return function(features)

    def compiled(
        self,
        function: Callable[[Batch], Any],
        variables: Callable[[], Iterable[Any]],
        rows_vary: bool = False,
    ) -> Callable[[Batch], Any]:
        """Compiles a function of a batch that reads and assigns Keras variables.

        Args:
            function: takes the features of a batch.
            variables: returns every variable that it reads or assigns.
            rows_vary: whether the number of rows may differ between processes.
        """
        # A graph for every shape: rows must be known, and change only when the
        # number of processes does.
        compiled: Callable[..., Any] = tf.function(function, autograph=False)
        return compiled

    def num_request_rows(self) -> int:
        """Number of rows in which a process's stop request enters a step."""
        return 1

    def rows_to_try(self, features: Batch) -> Batch:
        """Rows that a process tries separately when it searches for bad ones."""
        return features

    def start_profile(self, folder: pathlib.Path) -> None:
        """Starts a profile for TensorBoard in `folder`."""
        tf.profiler.experimental.start(str(folder))

    def stop_profile(self) -> None:
        """Writes the profile."""
        tf.profiler.experimental.stop()

    def profiled_step(self, number: int) -> contextlib.AbstractContextManager[Any]:
        """Context that marks a step in the profile."""
        step: contextlib.AbstractContextManager[Any]
        step = tf.profiler.experimental.Trace("train", step_num=number, _r=1)
        return step


class LaneMemory(NoMemory):
    """The memory of every lane; a process computes with the memory of its rows.

    The lanes of a batch are on the device that computes, and each step assigns them
    whole: deterministic kernels would copy a scatter into all lanes through the host.
    All lanes have storage on the host of each process, so that the chief's checkpoint
    is complete after `collect`, and any number of processes can continue from it. When
    a batch has other lanes, those on the device are stored there first.

    The lanes of a dead process are behind then. Their memory does not precede the
    next text, and models ignore it.

    Args:
        initial: memory of the lanes before any text, by name: tensors
            `(number of lanes, …)`.
    """

    def __init__(self, initial: Mapping[str, Any]):
        with tf.device(_HOST):
            self._all = {
                name: keras.Variable(
                    value, trainable=False, dtype=value.dtype, name=name
                )
                for name, value in initial.items()
            }
        # Any number of lanes on the device, and their rows.
        self._held = {
            name: tf.Variable(
                tf.zeros([0, *value.shape[1:]], value.dtype),
                shape=[None, *value.shape[1:]],
                trainable=False,
            )
            for name, value in initial.items()
        }
        num_lanes = next(iter(initial.values())).shape[0]
        self._rows = tf.Variable(
            tf.fill([num_lanes], _NOT_HELD), trainable=False, name="rows_of_lanes"
        )

    @property
    def variables(self) -> tuple[Any, ...]:
        """All lanes, for a checkpoint, after those on the device were stored."""
        self._store()
        return tuple(self._all.values())

    def read(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        lanes = features["lane"]
        self._hold(lanes)
        return {
            name: tf.ensure_shape(variable, [lanes.shape[0], *variable.shape[1:]])
            for name, variable in self._held.items()
        }

    def write(
        self, features: Mapping[str, tf.Tensor], memory: Mapping[str, tf.Tensor]
    ) -> None:
        before = self.read(features)
        # NaNs in the memory would persist forever. The old memory does not precede the
        # next words, which models notice.
        finite = tf.reduce_all([_finite_rows(part) for part in memory.values()], axis=0)
        for name, variable in self._held.items():
            mask = _broadcast_rows(finite, before[name])
            variable.assign(tf.where(mask, memory[name], before[name]))

    def collect(self, distribution: Distribution) -> None:
        self._store()
        if distribution.size == 1:
            return
        is_held = tf.not_equal(self._rows, _NOT_HELD)
        (owners,) = distribution.sum([tf.cast(is_held, tf.int32)], "owners_of_lanes")
        with tf.device(_HOST):
            for name, variable in self._all.items():
                value = tf.convert_to_tensor(variable.value)
                mask = _broadcast_rows(is_held, value)
                (total,) = distribution.sum(
                    [tf.where(mask, value, tf.zeros_like(value))], f"lanes_{name}"
                )
                has_owner = _broadcast_rows(owners > 0, value)
                variable.assign(tf.where(has_owner, total, value))

    def share(self) -> None:
        for variable in self._held.values():
            variable.assign(tf.zeros([0, *variable.shape[1:]], variable.dtype))
        self._rows.assign(tf.fill(self._rows.shape, _NOT_HELD))

    def _hold(self, lanes: tf.Tensor) -> None:
        """Makes `lanes`, in this order, the lanes on the device."""
        is_in_row = lanes == tf.range(self._rows.shape[0])[:, tf.newaxis]
        rows = tf.range(tf.size(lanes)) * tf.cast(is_in_row, tf.int32)
        rows = tf.where(
            tf.reduce_any(is_in_row, axis=1), tf.reduce_sum(rows, axis=1), _NOT_HELD
        )

        def switch() -> tf.Tensor:
            self._store()
            for name, variable in self._held.items():
                with tf.device(_HOST):
                    value = tf.gather(self._all[name].value, lanes)
                variable.assign(value)
            self._rows.assign(rows)
            return tf.constant(True)

        are_held = tf.reduce_all(tf.equal(self._rows, rows))
        tf.cond(are_held, lambda: tf.constant(True), switch)

    def _store(self) -> None:
        """Copies the lanes on the device to the host."""
        rows = tf.convert_to_tensor(self._rows)
        held = {name: tf.convert_to_tensor(part) for name, part in self._held.items()}
        with tf.device(_HOST):
            is_held = rows != _NOT_HELD
            num_held = tf.reduce_sum(tf.cast(is_held, tf.int32))
            rows = tf.where(is_held, rows, num_held + tf.range(rows.shape[0]))
            for name, variable in self._all.items():
                both = tf.concat([held[name], variable.value], axis=0)
                variable.assign(tf.gather(both, rows))


def _finite_rows(value: tf.Tensor) -> tf.Tensor:
    """Mask of the rows that are finite throughout: bool `(rows,)`."""
    if not value.dtype.is_floating:
        return tf.ones([tf.shape(value)[0]], tf.bool)
    axes = list(range(1, value.shape.rank))
    return tf.reduce_all(tf.math.is_finite(value), axis=axes)


def _broadcast_rows(numbers: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Reshapes one number per row to broadcast over `value`."""
    return tf.reshape(numbers, [-1] + [1] * (value.shape.rank - 1))


ENGINE = TensorFlowEngine
