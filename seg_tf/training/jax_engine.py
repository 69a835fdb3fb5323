"""Implements the JAX engine, whose processes compute on all devices of their hosts."""

import atexit
import contextlib
import os
import pickle
import re
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils

from seg_tf.config import TrainingConfig
from seg_tf.training import distribution, step_jax
from seg_tf.training.errors import TrainingStopped
from seg_tf.training.step_jax import JaxStep, replicated, row_sharding

_DETERMINISTIC = "--xla_gpu_deterministic_ops=true"
# Words that only occur in errors of the communication between processes.
_EXCHANGE = re.compile(r"gloo|nccl|coordination", re.IGNORECASE)
Batch = Mapping[str, Any]


class JaxEngine:
    """The JAX engine. `TensorFlowEngine` documents its methods.

    The constructor enables 64-bit types, connects the processes and hides GPUs from
    TensorFlow, which only reads batches. Raises `TrainingStopped` if connecting fails.
    """

    packages: tuple[str, ...] = ("jax", "jaxlib")
    step_class: Any = JaxStep

    def __init__(self) -> None:
        jax.config.update("jax_enable_x64", True)
        _initialize()
        with contextlib.suppress(ImportError):  # batches may come without TensorFlow
            import tensorflow as tf

            tf.config.set_visible_devices([], "GPU")

    def join(self) -> distribution.Distribution:
        if jax.process_count() > 1:
            return JaxDistribution()
        if distribution.number_launched() > 1:
            raise TrainingStopped(
                "`--engine` must be tensorflow on every rank that horovodrun starts. "
                f"Received: --engine=jax ({socket.gethostname()}). Its processes find "
                f"each other by {distribution.JAX_ADDRESS} (docs/training_engine.md)"
            )
        return distribution.Distribution()

    def compiles(self, settings: TrainingConfig) -> bool:
        return True

    def traced(self, function: Callable[[Batch], Any], features: Batch) -> Any:
        results = []
        # Eager calls would compile every operator separately. New variables are
        # initialized when the scope ends.
        with keras.StatelessScope():
            jax.eval_shape(lambda rows: results.append(function(rows)), features)
        return results[0]

    def compiled(
        self,
        function: Callable[[Batch], Any],
        variables: Callable[[], Iterable[Any]],
        rows_vary: bool = False,
    ) -> Callable[[Batch], Any]:
        """Compiles a function with its variables' values as inputs and outputs."""
        changing: list[Any] = []

        def pure(values: list[Any], features: Batch) -> tuple[Any, Any]:
            mapping = list(zip(changing, values, strict=True))
            with keras.StatelessScope(state_mapping=mapping) as scope:
                result = function(features)
            return result, [scope.get_current_value(variable) for variable in changing]

        everywhere = replicated()
        compiled = jax.jit(
            pure,
            donate_argnums=0,  # the old values
            in_shardings=(everywhere, None),
            out_shardings=(None, everywhere),
        )

        def run(features: Batch) -> Any:
            if not changing:
                changing.extend({id(v): v for v in variables()}.values())
            # Values assigned since the last call may be on other devices, which would
            # compile the function again.
            values = [
                value
                if value.sharding == everywhere
                else _on_all_devices(np.asarray(value), everywhere)
                for value in (variable.value for variable in changing)
            ]
            batch = {name: np.asarray(value) for name, value in features.items()}
            place = _on_local_devices
            if rows_vary:
                batch, place = _gather_rows(batch), _on_all_devices
            arrays = {name: place(value) for name, value in batch.items()}
            result, values = compiled(values, arrays)
            for variable, value in zip(changing, values, strict=True):
                variable.assign(value)
            return result

        return run

    def num_request_rows(self) -> int:
        return step_jax.mesh().size // jax.process_count()

    # --- Devices --------------------------------------------------------------------

    def has_gpu(self) -> bool:
        return jax.default_backend() == "gpu"

    def gpu_name(self) -> str | None:
        return jax.local_devices()[0].device_kind if self.has_gpu() else None

    def gpu_memory_use(self) -> tuple[int, int] | None:
        if not self.has_gpu():
            return None
        stats = jax.local_devices()[0].memory_stats()
        return stats["bytes_in_use"], stats["peak_bytes_in_use"]

    def gpu_memory_limit(self) -> int | None:
        if not self.has_gpu():
            return None
        limit: int = jax.local_devices()[0].memory_stats()["bytes_limit"]
        return limit

    def uses_tensor_float_32(self) -> bool:
        precision = getattr(jax.config, "jax_default_matmul_precision")  # noqa: B009
        return precision in (None, "default", "tensorfloat32")

    def num_devices(self) -> int:
        return jax.local_device_count() if self.has_gpu() else 1

    def set_determinism(
        self, settings: TrainingConfig, report: Callable[[str], None]
    ) -> None:
        """Raises a `ValueError` if required deterministic kernels are off.

        XLA's CPU kernels are deterministic. Its GPU kernels need a flag in `XLA_FLAGS`.
        Without it, `report` is called if `settings.deterministic_ops` is None.
        """
        if not self.has_gpu() or _DETERMINISTIC in os.environ.get("XLA_FLAGS", ""):
            return
        if settings.deterministic_ops:
            raise ValueError(
                "`deterministic_ops` needs a flag of XLA in the environment on a GPU: "
                f'XLA_FLAGS="{_DETERMINISTIC}". Received: deterministic_ops=True'
            )
        if settings.deterministic_ops is None:
            report(
                "Deterministic kernels are off: a run that is resumed on a GPU is "
                "close to an uninterrupted one, not equal to it; "
                f'XLA_FLAGS="{_DETERMINISTIC}" turns them on'
            )


def _on_local_devices(value: np.ndarray) -> jax.Array:
    """Places this process's rows on its devices, as part of a global array."""
    sharding = row_sharding(len(value) * jax.process_count())
    return jax.make_array_from_process_local_data(sharding, value)


def _on_all_devices(value: np.ndarray, sharding: Any = None) -> jax.Array:
    """Creates a global array from equal local copies, by default row-sharded."""
    sharding = sharding or row_sharding(len(value))
    return jax.make_array_from_callback(value.shape, sharding, lambda at: value[at])


def _gather_rows(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Concatenates the rows of all processes, ordered by rank."""
    if jax.process_count() == 1:
        return batch
    parts = JaxDistribution().gather(batch)
    return {name: np.concatenate([part[name] for part in parts]) for name in batch}


def _initialize() -> None:
    """Connects to the other processes if the environment has a coordinator address.

    The environment or a launcher such as Slurm gives the number of processes and the
    rank. Must run before JAX initializes devices. Raises `TrainingStopped` on failure.
    """
    address = os.environ.get(distribution.JAX_ADDRESS)
    if not address:
        return
    # Needed by processes that compute on CPUs.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        number, rank = (
            int(os.environ[name]) if os.environ.get(name) else None
            for name in (distribution.JAX_PROCESSES, distribution.JAX_PROCESS)
        )
        print(f"Waiting for all processes at {address}", file=sys.stderr, flush=True)
        jax.distributed.initialize(address, number, rank)
    except (ValueError, RuntimeError) as error:
        raise TrainingStopped(
            "The processes of --engine=jax must all be started, with that engine, and "
            f"reach one another at {address}: {error}"
        ) from error


class JaxDistribution(distribution.Distribution):
    """The processes connected by `jax.distributed`.

    A step runs on the devices of all processes, so its sums are already global. All
    processes read the same number of rows.
    """

    computes_together = True

    @property
    def rank(self) -> int:
        return jax.process_index()

    @property
    def size(self) -> int:
        return jax.process_count()

    def local_micro_batch_size(self, micro_batch_size: int | None) -> int | None:
        return None

    def broadcast(self, variables: Sequence[Any]) -> None:
        local_values = [np.asarray(variable.value) for variable in variables]
        with self.failures_explained():
            values = multihost_utils.broadcast_one_to_all(local_values)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(np.asarray(value))

    def broadcast_object(self, value: Any) -> Any:
        return self.gather(value)[0]

    def gather(self, value: Any) -> list[Any]:
        content = np.frombuffer(pickle.dumps(value), "uint8")
        with self.failures_explained():
            sizes = multihost_utils.process_allgather(np.array([len(content)])).ravel()
            padded = np.pad(content, (0, int(sizes.max()) - len(content)))
            rows = np.asarray(multihost_utils.process_allgather(padded))
        return [
            pickle.loads(row[:size].tobytes())
            for row, size in zip(rows, sizes, strict=True)
        ]

    @contextlib.contextmanager
    def failures_explained(self) -> Iterator[None]:
        try:
            yield
        except jax.errors.JaxRuntimeError as error:
            if not _EXCHANGE.search(str(error)):
                raise
            atexit.register(_exit_at_once)
            line = str(error).splitlines()[0]
            raise TrainingStopped(
                f"{self.describe_failure()} JAX says: {line}"
            ) from error


def _exit_at_once() -> None:
    """Exits without JAX's shutdown, which would wait for dead processes and abort."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(TrainingStopped.exit_code)


ENGINE = JaxEngine
