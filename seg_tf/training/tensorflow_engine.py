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
from seg_tf.training.step import NoMemory
from seg_tf.training.tensorflow_lane_memory import LaneMemory
from seg_tf.training.tensorflow_step import TrainingStep


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

    def rows_of_flags(self) -> int:
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


ENGINE = TensorFlowEngine
