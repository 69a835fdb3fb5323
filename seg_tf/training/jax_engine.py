"""JAX as the engine: processes that compute on all devices of their hosts."""

import contextlib
import pathlib
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import keras
import numpy as np
from keras import ops

from seg_tf.config import TrainingConfig
from seg_tf.training import distribution, jax_devices, jax_distribution, jax_step
from seg_tf.training.distribution import Distribution
from seg_tf.training.errors import TrainingStopped
from seg_tf.training.jax_distribution import JaxDistribution
from seg_tf.training.jax_step import JaxStep, row_sharding, sharding_of_all
from seg_tf.training.step import NoMemory


class JaxEngine:
    """Functions compiled by XLA; documented in `seg_tf.training.engine.TrainingEngine`.

    Sums and counts are float64 and int64, as on TensorFlow, which JAX has to be told.
    TensorFlow reads the batches and leaves the GPUs alone.
    """

    packages = ("jax", "jaxlib")
    step_class = JaxStep
    devices = jax_devices

    def __init__(self) -> None:
        jax.config.update("jax_enable_x64", True)
        jax_distribution.initialize()
        with contextlib.suppress(ImportError):  # made batches need no TensorFlow
            import tensorflow as tf

            tf.config.set_visible_devices([], "GPU")

    def join(self) -> Distribution:
        if jax.process_count() > 1:
            return JaxDistribution()
        if distribution.number_launched() > 1:
            rank = distribution.rank_launched()
            raise TrainingStopped(
                "`--engine` must be tensorflow on every rank that horovodrun starts. "
                f"Received: --engine=jax on rank {rank} of "
                f"{distribution.number_launched()} ({socket.gethostname()}). Processes "
                "of the engine jax find each other by "
                f"{distribution.JAX_ADDRESS}=host:port in the environment "
                "(docs/training_engine.md), or are one, on all devices of its host"
            )
        return Distribution()

    def compiles(self, settings: TrainingConfig) -> bool:
        return True

    def lane_memory(self, initial: Mapping[str, Any]) -> NoMemory:
        return JaxLaneMemory(initial)

    def traced(
        self, function: Callable[[Mapping[str, Any]], Any], features: Mapping[str, Any]
    ) -> Any:
        results = []
        # Computed, every operator would be compiled apart. Variables that are created
        # get their values where the scope ends.
        with keras.StatelessScope():
            jax.eval_shape(lambda rows: results.append(function(rows)), features)
        return results[0]

    def compiled(
        self,
        function: Callable[[Mapping[str, Any]], Any],
        variables: Callable[[], Iterable[Any]],
        rows_vary: bool = False,
    ) -> Callable[[Mapping[str, Any]], Any]:
        """As `TrainingEngine.compiled`: variables' values go in and come out."""
        owned: list[Any] = []

        def pure(values: list[Any], features: Mapping[str, Any]) -> tuple[Any, Any]:
            mapping = list(zip(owned, values, strict=True))
            with keras.StatelessScope(state_mapping=mapping) as scope:
                result = function(features)
            return result, [scope.get_current_value(one) for one in owned]

        everywhere = sharding_of_all()
        compiled = jax.jit(
            pure,
            # The old values are not needed any more.
            donate_argnums=0,
            in_shardings=(everywhere, None),
            out_shardings=(None, everywhere),
        )

        def run(features: Mapping[str, Any]) -> Any:
            if not owned:
                owned.extend({id(one): one for one in variables()}.values())
            # Those that were assigned since may be elsewhere, which would be compiled
            # for anew.
            values = [
                value
                if value.sharding == everywhere
                else _on_all(np.asarray(value), everywhere)
                for value in (variable.value for variable in owned)
            ]
            batch = {name: np.asarray(value) for name, value in features.items()}
            if rows_vary:
                batch = _of_all_processes(batch)
                on_devices = {name: _on_all(one) for name, one in batch.items()}
            else:
                on_devices = {name: _on_own(one) for name, one in batch.items()}
            result, values = compiled(values, on_devices)
            for variable, value in zip(owned, values, strict=True):
                variable.assign(value)
            return result

        return run

    def num_request_rows(self) -> int:
        return jax_step.mesh().size // jax.process_count()

    def rows_to_try(self, features: Mapping[str, Any]) -> Mapping[str, Any]:
        # All have to try the same, which they compute together.
        return _of_all_processes(
            {name: np.asarray(value) for name, value in features.items()}
        )

    def start_profile(self, folder: pathlib.Path) -> None:
        jax.profiler.start_trace(str(folder))

    def stop_profile(self) -> None:
        jax.profiler.stop_trace()

    def profiled_step(self, number: int) -> contextlib.AbstractContextManager[Any]:
        return jax.profiler.StepTraceAnnotation("train", step_num=number)


def _on_own(value: np.ndarray) -> jax.Array:
    """Rows of this process on its devices, part of an array of all processes."""
    sharding = row_sharding(len(value) * jax.process_count())
    return jax.make_array_from_process_local_data(sharding, value)


def _on_all(value: np.ndarray, sharding: Any = None) -> jax.Array:
    """The same value of every process, on the devices of all."""
    sharding = sharding or row_sharding(len(value))
    return jax.make_array_from_callback(value.shape, sharding, lambda at: value[at])


def _of_all_processes(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The rows of all processes, in their order."""
    if jax.process_count() == 1:
        return batch
    parts = JaxDistribution().gather(batch)
    return {name: np.concatenate([part[name] for part in parts]) for name in batch}


class JaxLaneMemory(NoMemory):
    """The memory of every lane, in variables that a compiled step reads and assigns.

    Args:
        initial: memory of the lanes before any text, by name: tensors
            `(number of lanes, …)`.
    """

    def __init__(self, initial: Mapping[str, Any]):
        self._lanes = {
            name: keras.Variable(value, trainable=False, dtype=value.dtype, name=name)
            for name, value in initial.items()
        }

    @property
    def variables(self) -> tuple[Any, ...]:
        return tuple(self._lanes.values())

    def read(self, features: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: ops.take(variable, features["lane"], axis=0)
            for name, variable in self._lanes.items()
        }

    def write(self, features: Mapping[str, Any], memory: Mapping[str, Any]) -> None:
        before = self.read(features)
        # NaNs in the memory would persist forever.
        is_finite = _all_finite(memory)
        for name, variable in self._lanes.items():
            kept = ops.reshape(is_finite, (-1,) + (1,) * (len(variable.shape) - 1))
            rows = ops.where(kept, memory[name], before[name])
            variable.assign(
                ops.scatter_update(variable, features["lane"][:, None], rows)
            )


def _all_finite(memory: Mapping[str, Any]) -> Any:
    """Mask of the rows that are finite in all tensors: bool (rows,)."""
    masks = [
        ops.all(ops.isfinite(value), axis=tuple(range(1, len(value.shape))))
        for value in memory.values()
    ]
    return ops.all(ops.stack(masks), axis=0)


ENGINE = JaxEngine
