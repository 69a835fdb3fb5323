"""One step on JAX: gradients of micro-batches, sum over devices, and the update."""

# Shape key: R rows of all devices, B rows of a micro-batch, O objectives.

import functools
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from seg_tf.training.step import (
    Features,
    GlobalBatch,
    Memory,
    StepParts,
    StepResult,
    nearest_power_of_two,
    pack_sums,
)

_AXIS = "rows"
_ALL, _ROWS = PartitionSpec(), PartitionSpec(_AXIS)


class JaxStep(StepParts):
    """`seg_tf.training.tensorflow_step.TrainingStep` on JAX, which has its formulas.

    Where there the processes share a batch, here the devices of all of them do: each
    has R / devices rows, adds up the gradients of its micro-batches one after another,
    and the sums over the devices are part of the compiled step. Everything else is
    computed alike on every device.

    Called in what `JaxEngine.compiled` compiles: variables hold tracers there.
    """

    def __call__(
        self, features: Features, memory: Memory, stop_requests: Any
    ) -> StepResult:
        """Makes one step; arguments are those of `TrainingStep`."""
        batch = self._count(features, stop_requests)
        factor = nearest_power_of_two(batch.micro_batches)
        share = 1.0
        if self._options.compress_gradients:
            share = nearest_power_of_two(batch.micro_batches / batch.processes)
        gradients, sums, memory = self._accumulate(
            features, memory, batch.loss_weights / factor, share
        )
        learning_rate = jnp.asarray(self._optimizer.learning_rate)
        finite, norm = self._update(gradients, sums, factor / share)
        counted = (batch.rows, batch.tokens, batch.stop_requests)
        return StepResult(finite, sums, norm, learning_rate, *counted, memory)

    def _count(self, features: Features, stop_requests: Any) -> GlobalBatch:
        """Counts the batch of all devices."""
        mask = features["padding_mask"]
        devices, rows = mesh().size, mask.shape[0]
        counts = [one.count(features) for one in self._objectives.values()]
        return GlobalBatch(
            loss_weights=jnp.stack(counts).astype("float32"),
            rows=jnp.asarray(rows, "float64"),
            tokens=jnp.count_nonzero(mask).astype("float64"),
            micro_batches=jnp.asarray(rows // self._size(rows), "float64"),
            processes=jnp.asarray(devices, "float64"),
            stop_requests=stop_requests,
        )

    def _size(self, num_rows: int) -> int:
        """B, for so many rows of all devices.

        Raises:
            ValueError: if the devices cannot share the rows.
        """
        devices = mesh().size
        size = self._options.micro_batch_size or max(1, num_rows // devices)
        if num_rows % (devices * size):
            raise ValueError(
                "`micro_batch_size` times the number of devices must divide the rows "
                f"of a batch. Received: micro_batch_size={size}, devices={devices}, "
                f"rows={num_rows}"
            )
        return size

    def _accumulate(
        self, features: Features, memory: Memory, divisors: Any, share: Any
    ) -> tuple[list[Any], Any, Memory]:
        """Sums of `_gradients` over all rows, and the memory of the rows."""
        features = {**features, **memory}
        size = self._size(features["padding_mask"].shape[0])
        weights = [variable.value for variable in self._variables]
        scale = self._options.loss_scale.value

        def of_device(
            weights: list[Any],
            features: Features,
            divisors: Any,
            scale: Any,
            share: Any,
        ) -> tuple[list[Any], Any, Memory]:
            parts = {
                name: value.reshape((-1, size, *value.shape[1:]))
                for name, value in features.items()
            }

            def add_next(
                added: tuple[list[Any], Any], rows: Features
            ) -> tuple[tuple[list[Any], Any], Memory]:
                gradients, sums, memory = self._gradients(
                    weights, rows, divisors, scale
                )
                return jax.tree.map(jnp.add, added, (gradients, sums)), memory

            (gradients, sums), memory = lax.scan(add_next, self._zeros(), parts)
            return (
                self._over_devices(gradients, share),
                lax.psum(sums, _AXIS),
                {name: jnp.concatenate(list(of)) for name, of in memory.items()},
            )

        return jax.shard_map(
            of_device,
            mesh=mesh(),
            in_specs=(_ALL, _ROWS, _ALL, _ALL, _ALL),
            out_specs=(_ALL, _ALL, _ROWS),
            check_vma=False,
        )(weights, features, divisors, scale, jnp.asarray(share, "float32"))

    def _zeros(self) -> tuple[list[Any], Any]:
        gradients = [jnp.zeros(one.shape, "float32") for one in self._variables]
        return gradients, jnp.zeros(self._num_sums, "float64")

    def _gradients(
        self, weights: list[Any], features: Features, divisors: Any, scale: Any
    ) -> tuple[list[Any], Any, Memory]:
        """Scaled float32 gradients of the loss of some rows, their sums and memory."""
        seeds = self._dropout_seeds(features["sample_number"][0])

        def scaled_loss(weights: list[Any]) -> tuple[Any, tuple[Any, Memory]]:
            values = [*zip(self._variables, weights, strict=True)]
            values += [*zip(self._random_states, seeds, strict=True)]
            with keras.StatelessScope(state_mapping=values):
                results, memory = self._forward(features)
            terms = [
                self._objectives[name].loss_weight * _divide(result.loss[0], divisor)
                for (name, result), divisor in zip(
                    results.items(), divisors, strict=True
                )
            ]
            return sum(terms) * scale, (pack_sums(results), memory)

        take_gradients = jax.grad(scaled_loss, has_aux=True)
        gradients, (sums, memory) = take_gradients(weights)
        return [one.astype("float32") for one in gradients], sums, memory

    def _dropout_seeds(self, first_sample: Any) -> list[Any]:
        """States of the generators of dropout for a micro-batch."""
        key = jax.random.key(self._options.seed)
        for half in (first_sample >> 32, first_sample & 0xFFFFFFFF):
            key = jax.random.fold_in(key, half.astype("uint32"))
        shape = (len(self._random_states), 2)
        states = jax.random.randint(key, shape, 0, 2**31 - 1, "int32")
        return [
            state.astype(variable.dtype)
            for variable, state in zip(self._random_states, states, strict=True)
        ]

    def _over_devices(self, gradients: list[Any], share: Any) -> list[Any]:
        """Sums over the devices, `share` times smaller."""
        if not self._options.compress_gradients:
            return lax.psum(gradients, _AXIS)
        gradients = [(one / share).astype("float16") for one in gradients]
        return [one.astype("float32") for one in lax.psum(gradients, _AXIS)]

    def _update(self, gradients: list[Any], sums: Any, factor: Any) -> tuple[Any, Any]:
        """Unscales, checks, clips, updates; returns (finite, norm before clipping)."""
        scale = self._options.loss_scale.value * factor
        squares = [jnp.sum(jnp.square(one)) for one in gradients]
        norm = jnp.sqrt(sum(squares)) / scale
        # One entry that is not finite makes the norm so.
        finite = jnp.isfinite(norm) & jnp.all(jnp.isfinite(sums))
        multiplier = 1.0 / scale
        bound = self._options.clip_norm
        if bound is not None:
            multiplier *= bound / jnp.maximum(norm, bound)
        of_optimizer = self._optimizer.variables
        before = tuple(
            [one.value for one in group] for group in (self._variables, of_optimizer)
        )
        weights, state = self._optimizer.stateless_apply(
            before[1], [one * multiplier for one in gradients], before[0]
        )
        # A branch would have the host wait for `finite`; a choice is part of the loops
        # that compute the update.
        for variable, value, old in zip(
            (*self._variables, *of_optimizer),
            (*weights, *state),
            (*before[0], *before[1]),
            strict=True,
        ):
            variable.assign(jnp.where(finite, value, old))
        self._options.loss_scale.update(finite)
        return finite, norm


@functools.cache
def mesh() -> jax.sharding.Mesh:
    """All devices of all processes, which share the rows of a batch."""
    return jax.sharding.Mesh(np.array(jax.devices()), (_AXIS,))


def sharding_of_all() -> NamedSharding:
    """Every device has the whole."""
    return NamedSharding(mesh(), _ALL)


def row_sharding(num_rows: int) -> NamedSharding:
    """Every device has its rows; or all, where they cannot be shared evenly."""
    shared = num_rows % mesh().size == 0
    return NamedSharding(mesh(), _ROWS if shared else _ALL)


def _divide(sum_: Any, weight: Any) -> Any:
    """The quotient, 0 where the weight is 0."""
    return jnp.where(weight == 0, 0.0, sum_ / jnp.where(weight == 0, 1.0, weight))
