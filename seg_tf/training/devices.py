"""GPUs of a host and of a process, and TensorFlow's deterministic kernels.

Nothing else in training asks TensorFlow for GPUs, so that tests can replace the answer.
`jax_engine.JaxDevices` has the same functions for JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow.python.client import device_lib

if TYPE_CHECKING:
    from seg_tf.config import TrainingConfig


def has_gpu() -> bool:
    """Returns whether this process computes on a GPU."""
    return bool(tf.config.list_logical_devices("GPU"))


def gpu_name() -> str | None:
    """Name of this process's GPU by its driver, maybe empty; None without a GPU."""
    visible = tf.config.get_visible_devices("GPU")
    if not visible:
        return None
    details = tf.config.experimental.get_device_details(visible[0])
    return details.get("device_name", "")


def gpu_memory_use() -> tuple[int, int] | None:
    """Bytes of the GPU that tensors use now, and their maximum so far."""
    gpus = tf.config.list_logical_devices("GPU")
    if not gpus:
        return None
    info = tf.config.experimental.get_memory_info(gpus[0].name)
    return info["current"], info["peak"]


def gpu_memory_limit() -> int | None:
    """Bytes that TensorFlow may use of the GPU; None without a GPU."""
    if not has_gpu():
        return None
    # The public interface only has the memory in use.
    local = device_lib.list_local_devices()
    return next((gpu.memory_limit for gpu in local if gpu.device_type == "GPU"), None)


def uses_tensor_float_32() -> bool:
    """True if products of float32 may be rounded to TensorFloat-32."""
    return bool(tf.config.experimental.tensor_float_32_execution_enabled())


def num_used() -> int:
    """Number of devices that this process computes on."""
    return 1


def num_gpus() -> int:
    """Number of GPUs of this host."""
    return len(tf.config.list_physical_devices("GPU"))


def use_one_gpu(number: int) -> None:
    """Limits this process to one GPU of its host, and to the memory that it needs."""
    gpu = tf.config.list_physical_devices("GPU")[number]
    tf.config.set_visible_devices(gpu, "GPU")
    tf.config.experimental.set_memory_growth(gpu, True)


def set_determinism(settings: TrainingConfig, report: Callable[[str], None]) -> None:
    """Turns TensorFlow's deterministic kernels on, for this whole process.

    On a GPU they stay off unless `settings.deterministic_ops` is true.

    Raises:
        ValueError: if a GPU would have to run compiled and deterministic.
    """
    enabled, on_gpu = settings.deterministic_ops, has_gpu()
    if enabled and on_gpu and settings.jit_compile:
        raise ValueError(
            "`deterministic_ops` must not be true together with `jit_compile` on a "
            "GPU. Received: deterministic_ops=True, jit_compile=True"
        )
    if enabled is None and on_gpu:
        report(
            "Deterministic kernels are off: a run that is resumed on a GPU is close to "
            "an uninterrupted one, not equal to it; "
            "--config.training.deterministic_ops=true turns them on, and XLA off"
        )
    if enabled or (enabled is None and not on_gpu):
        tf.config.experimental.enable_op_determinism()
