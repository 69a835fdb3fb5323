"""TensorFlow as the engine, with Horovod between processes."""

import contextlib
import os
import pathlib
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from seg_tf.config import TrainingConfig
from seg_tf.training import devices, distribution, horovod_distribution
from seg_tf.training.distribution import Distribution
from seg_tf.training.errors import TrainingStopped
from seg_tf.training.step import LaneMemory, NoMemory
from seg_tf.training.step_tf import TrainingStep

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
        return SharedLaneMemory(initial)

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


class SharedLaneMemory(LaneMemory):
    """The memory of every lane; each process keeps the lanes of its rows current.

    `collect` gives the chief all lanes for a checkpoint, from which any number of
    processes can continue.

    Args:
        initial: as for `LaneMemory`.
    """

    def __init__(self, initial: Mapping[str, Any]):
        super().__init__(initial)
        num_lanes = self.variables[0].shape[0]
        # Whether a lane was in a row of this process, 0 or 1.
        self._owned = tf.Variable(tf.zeros([num_lanes], tf.int64), trainable=False)

    def write(self, features: Batch, memory: Mapping[str, Any]) -> None:
        super().write(features, memory)
        is_owned = tf.reduce_any(self._is_in_row(features), axis=1)
        self._owned.assign(tf.maximum(self._owned, tf.cast(is_owned, tf.int64)))

    def collect(self, distribution: Distribution) -> None:
        if distribution.size == 1:
            return
        (owners,) = distribution.sum([tf.identity(self._owned)], "owners_of_lanes")
        for variable in self.variables:
            value = tf.convert_to_tensor(variable.value)
            ones = [1] * (value.shape.rank - 1)
            is_owned = tf.reshape(self._owned > 0, [-1, *ones])
            own_lanes = tf.where(is_owned, value, tf.zeros_like(value))
            (lanes,) = distribution.sum([own_lanes], f"lanes_{variable.name}")
            has_owner = tf.reshape(owners > 0, [-1, *ones])
            variable.assign(tf.where(has_owner, lanes, value))

    def share(self) -> None:
        self._owned.assign(tf.zeros_like(self._owned))


ENGINE = TensorFlowEngine
