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
from seg_tf.training.tensorflow_step import TrainingStep

_HOST = "CPU:0"
_NOT_HELD = -1


class TensorFlowEngine:
    """Graphs of TensorFlow; documented in `seg_tf.training.engine.TrainingEngine`."""

    packages = ("tensorflow",)
    step_class = TrainingStep
    devices = devices

    def join(self) -> Distribution:
        number = os.environ.get(distribution.JAX_PROCESSES, "several")
        rank = os.environ.get(distribution.JAX_PROCESS, "?")
        is_one_of_jax = distribution.JAX_ADDRESS in os.environ and number != "1"
        if is_one_of_jax and distribution.number_launched() <= 1:
            raise TrainingStopped(
                "`--engine` must be jax on every rank that the environment gives a "
                f"{distribution.JAX_ADDRESS}. Received: --engine=tensorflow on rank "
                f"{rank} of {number} ({socket.gethostname()})"
            )
        return horovod_distribution.join()

    def compiles(self, settings: TrainingConfig) -> bool:
        if settings.jit_compile is None:
            # Compiled code on a GPU has no deterministic kernels.
            return devices.has_gpu() and not settings.deterministic_ops
        return settings.jit_compile

    def lane_memory(self, initial: Mapping[str, Any]) -> NoMemory:
        return LaneMemory(initial)

    def traced(
        self, function: Callable[[Mapping[str, Any]], Any], features: Mapping[str, Any]
    ) -> Any:
        return function(features)

    def compiled(
        self,
        function: Callable[[Mapping[str, Any]], Any],
        variables: Callable[[], Iterable[Any]],
        rows_vary: bool = False,
    ) -> Callable[[Mapping[str, Any]], Any]:
        # A graph for every shape: rows must be known, and change only when the
        # number of processes does.
        compiled: Callable[..., Any] = tf.function(function, autograph=False)
        return compiled

    def num_request_rows(self) -> int:
        return 1

    def rows_to_try(self, features: Mapping[str, Any]) -> Mapping[str, Any]:
        return features

    def start_profile(self, folder: pathlib.Path) -> None:
        tf.profiler.experimental.start(str(folder))

    def stop_profile(self) -> None:
        tf.profiler.experimental.stop()

    def profiled_step(self, number: int) -> contextlib.AbstractContextManager[Any]:
        step: contextlib.AbstractContextManager[Any]
        step = tf.profiler.experimental.Trace("train", step_num=number, _r=1)
        return step


class LaneMemory(NoMemory):
    """The memory of every lane, of which a process computes with its own rows' alone.

    The lanes of the rows of a batch are held on the device that computes, and every
    step assigns them whole: a scatter into all lanes would be copied through the host
    by TensorFlow's deterministic kernels. All lanes have storage on the host of each
    process, so that a checkpoint of the chief is whole once they were collected, and
    any number of processes can continue from it. When a batch comes with other lanes,
    those held are kept there and the others are taken from there.

    Lanes of a process that died lag behind then; what they hold does not precede the
    text that comes next, and models ignore it.

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
        # As many rows as there are lanes held, and the row of each lane.
        self._held = {name: _of_any_length(value) for name, value in initial.items()}
        num_lanes = next(iter(initial.values())).shape[0]
        self._rows = tf.Variable(
            tf.fill([num_lanes], _NOT_HELD), trainable=False, name="rows_of_lanes"
        )

    @property
    def variables(self) -> tuple[Any, ...]:
        """All lanes, for a checkpoint; those held are brought up to date first."""
        self._keep()
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
        # NaNs in the memory would persist forever. What is kept instead does not
        # precede the next words, which models notice.
        is_finite = tf.reduce_all([_are_finite(one) for one in memory.values()], axis=0)
        for name, variable in self._held.items():
            kept = _over_rows(is_finite, before[name])
            variable.assign(tf.where(kept, memory[name], before[name]))

    def collect(self, distribution: Distribution) -> None:
        self._keep()
        if distribution.size == 1:
            return
        is_own = tf.not_equal(self._rows, _NOT_HELD)
        (owners,) = distribution.sum([tf.cast(is_own, tf.int32)], "owners_of_lanes")
        with tf.device(_HOST):
            for name, variable in self._all.items():
                value = tf.convert_to_tensor(variable.value)
                own = tf.where(_over_rows(is_own, value), value, tf.zeros_like(value))
                (of_all,) = distribution.sum([own], f"lanes_{name}")
                has_owner = _over_rows(owners > 0, value)
                variable.assign(tf.where(has_owner, of_all, value))

    def share(self) -> None:
        for variable in self._held.values():
            variable.assign(tf.zeros([0, *variable.shape[1:]], variable.dtype))
        self._rows.assign(tf.fill(self._rows.shape, _NOT_HELD))

    def _hold(self, lanes: tf.Tensor) -> None:
        """Makes sure that the lanes held are these, in this order."""
        is_in_row = lanes == tf.range(self._rows.shape[0])[:, tf.newaxis]
        rows = tf.range(tf.size(lanes)) * tf.cast(is_in_row, tf.int32)
        rows = tf.where(
            tf.reduce_any(is_in_row, axis=1), tf.reduce_sum(rows, axis=1), _NOT_HELD
        )

        def switch() -> tf.Tensor:
            self._keep()
            for name, variable in self._held.items():
                with tf.device(_HOST):
                    taken = tf.gather(self._all[name].value, lanes)
                variable.assign(taken)
            self._rows.assign(rows)
            return tf.constant(True)

        are_held = tf.reduce_all(tf.equal(self._rows, rows))
        tf.cond(are_held, lambda: tf.constant(True), switch)

    def _keep(self) -> None:
        """Puts the lanes held among all lanes, on the host."""
        rows = tf.convert_to_tensor(self._rows)
        held = {name: tf.convert_to_tensor(one) for name, one in self._held.items()}
        with tf.device(_HOST):
            is_held = rows != _NOT_HELD
            num_held = tf.reduce_sum(tf.cast(is_held, tf.int32))
            rows = tf.where(is_held, rows, num_held + tf.range(rows.shape[0]))
            for name, variable in self._all.items():
                both = tf.concat([held[name], variable.value], axis=0)
                variable.assign(tf.gather(both, rows))


def _of_any_length(value: tf.Tensor) -> tf.Variable:
    """A variable of no rows like those of `value`, which may get any number of them."""
    return tf.Variable(
        tf.zeros([0, *value.shape[1:]], value.dtype),
        shape=[None, *value.shape[1:]],
        trainable=False,
    )


def _are_finite(value: tf.Tensor) -> tf.Tensor:
    """Mask of the rows that are finite throughout: bool (rows,)."""
    if not value.dtype.is_floating:
        return tf.ones([tf.shape(value)[0]], tf.bool)
    axes = list(range(1, value.shape.rank))
    return tf.reduce_all(tf.math.is_finite(value), axis=axes)


def _over_rows(of_rows: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Reshapes one number a row so that it broadcasts over a value of the rows."""
    return tf.reshape(of_rows, [-1] + [1] * (value.shape.rank - 1))


ENGINE = TensorFlowEngine
