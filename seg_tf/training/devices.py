"""The GPU that a process may have, and the kernels that TensorFlow may use on it."""

from collections.abc import Callable

import tensorflow as tf

from seg_tf.configuration import TrainingConfig

_REASON = (
    "TensorFlow's deterministic kernels copy the whole of what they scatter into from "
    "the GPU to the host and back"
)


def has_gpu() -> bool:
    """Returns whether this process computes on a GPU."""
    return bool(tf.config.list_logical_devices("GPU"))


def set_determinism(settings: TrainingConfig, report: Callable[[str], None]) -> None:
    """Turns TensorFlow's deterministic kernels on, for this whole process.

    On a GPU they are left off unless `settings.deterministic_ops` is true.

    Args:
        settings: of the run.
        report: called with a line where they are left off by default.

    Raises:
        ValueError: if a GPU would have to run compiled and deterministic.
    """
    wanted = settings.deterministic_ops
    on_gpu = has_gpu()
    if wanted and on_gpu and settings.jit_compile:
        raise ValueError(
            "`deterministic_ops` must not be true together with `jit_compile` on a "
            f"GPU: {_REASON}, which compiled code cannot. Received: "
            "deterministic_ops=True, jit_compile=True"
        )
    if wanted is None and on_gpu:
        report(
            f"Deterministic kernels are off: {_REASON}. A run that is resumed on a GPU "
            "is close to an uninterrupted one, not equal to it; "
            "--config.training.deterministic_ops=true turns them on"
        )
    if wanted or (wanted is None and not on_gpu):
        tf.config.experimental.enable_op_determinism()
