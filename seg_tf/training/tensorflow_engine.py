"""TensorFlow as the engine, with Horovod between processes."""

import os
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from seg_tf.config import TrainingConfig
from seg_tf.training import devices, distribution, horovod_distribution
from seg_tf.training.distribution import Distribution
from seg_tf.training.errors import TrainingStopped
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
        """The processes that this process was started to train with."""
        number = os.environ.get(distribution.JAX_PROCESSES, "several")
        is_jax_process = distribution.JAX_ADDRESS in os.environ and number != "1"
        if is_jax_process and distribution.number_launched() <= 1:
            raise TrainingStopped(
                "`--engine` must be jax on every rank that the environment gives a "
                f"{distribution.JAX_ADDRESS}. Received: --engine=tensorflow "
                f"({socket.gethostname()})"
            )
        return horovod_distribution.join()

    def compiles(self, settings: TrainingConfig) -> bool:
        """True if XLA compiles the step of a run with these settings."""
        if settings.jit_compile is None:
            # Compiled code on a GPU has no deterministic kernels.
            return devices.has_gpu() and not settings.deterministic_ops
        return settings.jit_compile

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
        compiled: Callable[..., Any] = tf.function(function, autograph=False)
        return compiled

    def num_request_rows(self) -> int:
        """Number of rows in which a process's stop request enters a step."""
        return 1


ENGINE = TensorFlowEngine
