"""JAX as the engine: one process that computes on all devices of its host."""

import contextlib
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import keras
import numpy as np

from seg_tf.configuration import TrainingConfig
from seg_tf.training import distribution, jax_devices
from seg_tf.training.distribution import Distribution
from seg_tf.training.errors import TrainingStopped
from seg_tf.training.jax_lane_memory import JaxLaneMemory
from seg_tf.training.jax_step import JaxStep, row_sharding, sharding_of_all
from seg_tf.training.lane_memory import NoMemory


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
        with contextlib.suppress(ImportError):  # made batches need no TensorFlow
            import tensorflow as tf

            tf.config.set_visible_devices([], "GPU")

    def join(self) -> Distribution:
        if distribution.was_launched():
            raise TrainingStopped(
                "The engine jax trains in one process, on all devices of its host, but "
                "a launcher started several. Start one, or take --engine=tensorflow"
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
                else jax.device_put(value, everywhere)
                for value in (variable.value for variable in owned)
            ]
            result, values = compiled(values, _on_devices(features))
            for variable, value in zip(owned, values, strict=True):
                variable.assign(value)
            return result

        return run

    def start_profile(self, folder: pathlib.Path) -> None:
        jax.profiler.start_trace(str(folder))

    def stop_profile(self) -> None:
        jax.profiler.stop_trace()

    def profiled_step(self, number: int) -> contextlib.AbstractContextManager[Any]:
        return jax.profiler.StepTraceAnnotation("train", step_num=number)

    def in_keras_loop(self, function: Callable[[Any], Any]) -> Callable[..., Any]:
        # Keras's loop carries the values of variables, of which `Pretrainer` gives it
        # none: they are in the variables after every batch.
        return lambda state, iterator: (function(iterator), state)


def _on_devices(features: Mapping[str, Any]) -> dict[str, Any]:
    """The features as arrays of JAX, each device with its rows."""
    return {
        name: jax.device_put(np.asarray(value), row_sharding(len(value)))
        for name, value in features.items()
    }


ENGINE = JaxEngine
