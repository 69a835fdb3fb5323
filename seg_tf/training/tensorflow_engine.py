"""Implements the TensorFlow engine, whose processes communicate through Horovod.

Apart from the checks in `seg_tf.doctor`, only this file uses Horovod. Horovod's Keras
integration is not used, because it does not support Keras 3.
"""

import contextlib
import importlib.util
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.client import device_lib

from seg_tf.config import TrainingConfig
from seg_tf.training import distribution
from seg_tf.training.distribution import Distribution
from seg_tf.training.errors import TrainingStopped
from seg_tf.training.step_tf import TrainingStep

Batch = Mapping[str, Any]
# Horovod's time limits in seconds, unless the environment sets them.
_TIME_LIMITS = {
    # Interval of the check for late ranks, which are named after two to four intervals.
    "HOROVOD_STALL_CHECK_TIME_SECONDS": 12,
    # A late rank ends the run. It may compile or write a checkpoint for minutes.
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": 1_800,
    # A stopped process or an unreachable host ends the run within five minutes.
    # Horovod's default, 30 s, ends a run that is swapped out for a moment. Ranks also
    # wait this long for each other at the start.
    "HOROVOD_GLOO_TIMEOUT_SECONDS": 240,
}


class TensorFlowEngine:
    """The TensorFlow engine, which runs steps as TensorFlow graphs.

    Attributes:
        packages: tuple of str. Packages whose versions may affect results.
        step_class: class of the training step.
    """

    packages: tuple[str, ...] = ("tensorflow",)
    step_class: Any = TrainingStep

    def join(self) -> Distribution:
        """Returns the run's `Distribution`, or raises `TrainingStopped` on failure."""
        number = os.environ.get(distribution.JAX_PROCESSES, "several")
        is_jax_process = distribution.JAX_ADDRESS in os.environ and number != "1"
        if is_jax_process and distribution.number_launched() <= 1:
            raise TrainingStopped(
                "`--engine` must be jax on every rank that the environment gives a "
                f"{distribution.JAX_ADDRESS}. Received: --engine=tensorflow "
                f"({socket.gethostname()})"
            )
        return join()

    def compiles(self, settings: TrainingConfig) -> bool:
        """Returns whether XLA compiles the training step with these settings."""
        if settings.jit_compile is None:
            # Compiled code on GPUs has no deterministic kernels.
            return self.has_gpu() and not settings.deterministic_ops
        return settings.jit_compile

    def traced(self, function: Callable[[Batch], Any], features: Batch) -> Any:
        """Calls a function once to create its variables, and returns the result.

        The result must not depend on the values of the features.
        """
        return function(features)

    def compiled(
        self,
        function: Callable[[Batch], Any],
        variables: Callable[[], Iterable[Any]],
        rows_vary: bool = False,
    ) -> Callable[[Batch], Any]:
        """Returns a compiled version of a function of a batch's features.

        `variables` returns all Keras variables that the function reads or assigns.
        `rows_vary` is whether the number of rows may differ between processes.
        """
        compiled: Callable[..., Any] = tf.function(function, autograph=False)
        return compiled

    def num_request_rows(self) -> int:
        """Returns the number of `stop_request` rows in a process's batch."""
        return 1

    # --- Devices --------------------------------------------------------------------

    def has_gpu(self) -> bool:
        """Returns whether this process computes on a GPU."""
        return bool(tf.config.list_logical_devices("GPU"))

    def num_devices(self) -> int:
        """Returns the number of devices that this process computes on."""
        return 1

    def gpu_name(self) -> str | None:
        """Returns the GPU's name as reported by its driver, or None without a GPU."""
        visible = tf.config.get_visible_devices("GPU")
        if not visible:
            return None
        details = tf.config.experimental.get_device_details(visible[0])
        return details.get("device_name", "")

    def gpu_memory_use(self) -> tuple[int, int] | None:
        """Returns the current and peak GPU memory in bytes, or None without a GPU."""
        gpus = tf.config.list_logical_devices("GPU")
        if not gpus:
            return None
        info = tf.config.experimental.get_memory_info(gpus[0].name)
        return info["current"], info["peak"]

    def gpu_memory_limit(self) -> int | None:
        """Returns the usable GPU memory in bytes, or None without a GPU."""
        if not self.has_gpu():
            return None
        # The public API only returns the memory in use.
        local = device_lib.list_local_devices()
        limits = (gpu.memory_limit for gpu in local if gpu.device_type == "GPU")
        return next(limits, None)

    def uses_tensor_float_32(self) -> bool:
        """Returns whether float32 products may use TensorFloat-32."""
        return bool(tf.config.experimental.tensor_float_32_execution_enabled())

    def set_determinism(
        self, settings: TrainingConfig, report: Callable[[str], None]
    ) -> None:
        """Enables deterministic kernels in this process if `settings` require them.

        If `settings.deterministic_ops` is None, they are enabled without a GPU. With a
        GPU, they stay off, and `report` is called with a message about this. Raises a
        `ValueError` if `deterministic_ops` and `jit_compile` are both true on a GPU.
        """
        enabled, on_gpu = settings.deterministic_ops, self.has_gpu()
        if enabled and on_gpu and settings.jit_compile:
            raise ValueError(
                "`deterministic_ops` must not be true together with `jit_compile` on a "
                "GPU. Received: deterministic_ops=True, jit_compile=True"
            )
        if enabled is None and on_gpu:
            report(
                "Deterministic kernels are off: a run that is resumed on a GPU is "
                "close to an uninterrupted one, not equal to it; "
                "--config.training.deterministic_ops=true turns them on, and XLA off"
            )
        if enabled or (enabled is None and not on_gpu):
            tf.config.experimental.enable_op_determinism()


ENGINE = TensorFlowEngine


class HorovodDistribution(Distribution):
    """Processes that a launcher such as `horovodrun` started, connected by Horovod."""

    def __init__(self) -> None:
        import horovod.tensorflow as horovod

        self._horovod = horovod
        for name, seconds in _TIME_LIMITS.items():
            os.environ.setdefault(name, str(seconds))
        horovod.init()
        _use_one_gpu(horovod.local_rank())

    @property
    def rank(self) -> int:
        return self._horovod.rank()

    @property
    def size(self) -> int:
        return self._horovod.size()

    def sum(
        self, tensors: Sequence[tf.Tensor], name: str, as_float16: bool = False
    ) -> list[tf.Tensor]:
        compression = self._horovod.Compression
        return self._horovod.grouped_allreduce(
            list(tensors),
            op=self._horovod.Sum,
            compression=compression.fp16 if as_float16 else compression.none,
            # Errors contain this name, by which `failures_explained` recognizes
            # Horovod's errors.
            name=f"Horovod_{name}",
            # Name scopes may differ between processes, for example by accumulation.
            ignore_name_scope=True,
        )

    def broadcast(self, variables: Sequence[Any]) -> None:
        for variable in variables:  # as bytes, since Gloo does not support bfloat16
            variable.assign(self.broadcast_object(np.asarray(variable.value)))

    def broadcast_object(self, value: Any) -> Any:
        with self.failures_explained():
            return self._horovod.broadcast_object(value, root_rank=0, name="object")

    def gather(self, value: Any) -> list[Any]:
        with self.failures_explained():
            return self._horovod.allgather_object(value, name="gathered")

    @contextlib.contextmanager
    def failures_explained(self) -> Iterator[None]:
        try:
            yield
        except tf.errors.OpError as error:
            lines = [line for line in error.message.splitlines() if "Horovod" in line]
            if not lines:
                raise
            raise TrainingStopped(
                f"{self.describe_failure()} Horovod says: {lines[0].strip()}"
            ) from error


def join() -> Distribution:
    """Connects to the processes started with this one. Returns a `Distribution`.

    A process without a launcher trains alone. Otherwise, raises `TrainingStopped` if
    Horovod is missing or does not find all processes, or if a host has too few GPUs.
    """
    number = distribution.number_launched()
    if number <= 1:
        return Distribution()
    if importlib.util.find_spec("horovod") is None:
        raise TrainingStopped(
            f"{number} processes were started, but Horovod is not installed, so each "
            "would train alone. Install it with `make setup HOROVOD=require`"
        )
    processes = HorovodDistribution()
    if processes.size != number:
        raise TrainingStopped(
            f"{number} processes were started, but Horovod found {processes.size}, "
            "so each would train alone. Start them with horovodrun; mpirun and srun "
            "need a Horovod that was built with HOROVOD_WITH_MPI=1"
        )
    return processes


def _use_one_gpu(local_rank: int) -> None:
    """Restricts this process to one GPU of its host and enables memory growth.

    Does nothing without GPUs. Raises `TrainingStopped` if there are too few.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return
    if local_rank >= len(gpus):
        raise TrainingStopped(
            f"{socket.gethostname()} must have a GPU for each process: horovodrun -H "
            f"host:GPUs. Received: process {local_rank}, but {len(gpus)} GPUs"
        )
    tf.config.set_visible_devices(gpus[local_rank], "GPU")
    tf.config.experimental.set_memory_growth(gpus[local_rank], True)
