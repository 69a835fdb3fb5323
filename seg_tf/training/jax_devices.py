"""GPUs that JAX computes on, as `seg_tf.training.devices` tells TensorFlow's."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax

if TYPE_CHECKING:
    from seg_tf.config import TrainingConfig

_DETERMINISTIC = "--xla_gpu_deterministic_ops=true"


def has_gpu() -> bool:
    """Returns whether this process computes on GPUs."""
    return jax.default_backend() == "gpu"


def gpu_name() -> str | None:
    """Name of the first GPU by its driver; None without one."""
    return jax.local_devices()[0].device_kind if has_gpu() else None


def gpu_memory_use() -> tuple[int, int] | None:
    """Bytes that JAX holds of the first GPU now, and at most so far."""
    stats = _memory_of_gpu()
    return (stats["bytes_in_use"], stats["peak_bytes_in_use"]) if stats else None


def gpu_memory_limit() -> int | None:
    """Bytes that JAX may take of the first GPU; None without one."""
    stats = _memory_of_gpu()
    return stats["bytes_limit"] if stats else None


def uses_tensor_float_32() -> bool:
    """True if products of float32 may be rounded to TensorFloat-32, XLA's default."""
    precision = getattr(jax.config, "jax_default_matmul_precision")  # noqa: B009
    return precision in (None, "default", "tensorfloat32")


def num_used() -> int:
    """Devices whose peaks add up to that of this process."""
    return jax.local_device_count() if has_gpu() else 1


def set_determinism(settings: TrainingConfig, report: Callable[[str], None]) -> None:
    """Makes sure that kernels are deterministic, as `settings` say.

    XLA's for CPUs are. Those for GPUs need a flag in the environment, since it is read
    before any setting is.

    Args:
        settings: of the run.
        report: called with a line where they are left off by default.

    Raises:
        ValueError: if they are asked for and the flag is missing.
    """
    if not has_gpu() or _DETERMINISTIC in os.environ.get("XLA_FLAGS", ""):
        return
    if settings.deterministic_ops:
        raise ValueError(
            "`deterministic_ops` needs a flag of XLA in the environment on a GPU: "
            f'XLA_FLAGS="{_DETERMINISTIC}". Received: deterministic_ops=True'
        )
    if settings.deterministic_ops is None:
        report(
            "Deterministic kernels are off: a run that is resumed on a GPU is close to "
            "an uninterrupted one, not equal to it; "
            f'XLA_FLAGS="{_DETERMINISTIC}" turns them on'
        )


def _memory_of_gpu() -> dict[str, int] | None:
    return jax.local_devices()[0].memory_stats() if has_gpu() else None
