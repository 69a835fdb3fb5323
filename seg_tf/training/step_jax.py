"""Implements the training step on JAX."""

# Shape key: R rows on all devices, B rows per micro-batch, O objectives.

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
    """The JAX version of `seg_tf.training.step_tf.TrainingStep`.

    The rows of batches and memory are sharded over all devices of all processes.
    Everything else is replicated. Each device sums the gradients of its micro-batches.
    The step sums these over devices. Call it in a function that `JaxEngine` compiles.
    """

    def __call__(
        self, features: Features, memory: Memory, stop_requests: Any
    ) -> StepResult:
        """Runs one step, with the arguments and result of `TrainingStep`."""
        batch = self._count(features, stop_requests)
        factor = nearest_power_of_two(batch.micro_batches)
        share = 1.0
        if self.options.compress_gradients:
            share = nearest_power_of_two(batch.micro_batches / batch.processes)
        gradients, sums, memory = self._accumulate(
            features, memory, batch.loss_weights / factor, share
        )
        learning_rate = jnp.asarray(self.optimizer.learning_rate)
        finite, norm = self._update(gradients, sums, factor / share)
        counts = (batch.rows, batch.tokens, batch.stop_requests)
        return StepResult(finite, sums, norm, learning_rate, *counts, memory)

    def _count(self, features: Features, stop_requests: Any) -> GlobalBatch:
        """Returns the counts of the global batch, such as rows and loss weights."""
        mask = features["padding_mask"]
        devices, rows = mesh().size, mask.shape[0]
        counts = [objective.count(features) for objective in self.objectives.values()]
        return GlobalBatch(
            loss_weights=jnp.stack(counts).astype("float32"),
            rows=jnp.asarray(rows, "float64"),
            tokens=jnp.count_nonzero(mask).astype("float64"),
            micro_batches=jnp.asarray(rows // self._size(rows), "float64"),
            processes=jnp.asarray(devices, "float64"),
            stop_requests=stop_requests,
        )

    def _size(self, num_rows: int) -> int:
        """Returns the micro-batch size B. Raises `ValueError` if rows are left over."""
        devices = mesh().size
        size = self.options.micro_batch_size or max(1, num_rows // devices)
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
        """Sums gradients and results over all devices. Also returns the memory."""
        features = {**features, **memory}
        size = self._size(features["padding_mask"].shape[0])
        weights = [variable.value for variable in self.variables]
        zeros = (
            [jnp.zeros(variable.shape, "float32") for variable in self.variables],
            jnp.zeros(self.num_sums, "float64"),
        )

        def on_device(
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
                total: tuple[list[Any], Any], rows: Features
            ) -> tuple[tuple[list[Any], Any], Memory]:
                gradients, sums, memory = self._gradients(
                    weights, rows, divisors, scale
                )
                return jax.tree.map(jnp.add, total, (gradients, sums)), memory

            (gradients, sums), memory = lax.scan(add_next, zeros, parts)
            return (
                self._sum_over_devices(gradients, share),
                lax.psum(sums, _AXIS),
                {name: jnp.concatenate(list(part)) for name, part in memory.items()},
            )

        return jax.shard_map(
            on_device,
            mesh=mesh(),
            in_specs=(_ALL, _ROWS, _ALL, _ALL, _ALL),
            out_specs=(_ALL, _ALL, _ROWS),
            check_vma=False,
        )(
            weights,
            features,
            divisors,
            self.options.loss_scale.value,
            jnp.asarray(share, "float32"),
        )

    def _gradients(
        self, weights: list[Any], features: Features, divisors: Any, scale: Any
    ) -> tuple[list[Any], Any, Memory]:
        """Returns a micro-batch's scaled float32 gradients, `pack_sums` and memory."""
        seeds = self._dropout_seeds(features["sample_number"][0])

        def scaled_loss(weights: list[Any]) -> tuple[Any, tuple[Any, Memory]]:
            values = [*zip(self.variables, weights, strict=True)]
            values += [*zip(self.random_states, seeds, strict=True)]
            with keras.StatelessScope(state_mapping=values):
                results, memory = self.forward(features)
            terms = [
                self.objectives[name].loss_weight
                * keras.ops.divide_no_nan(result.loss[0], divisor)
                for (name, result), divisor in zip(
                    results.items(), divisors, strict=True
                )
            ]
            return sum(terms) * scale, (pack_sums(results), memory)

        take_gradients = jax.grad(scaled_loss, has_aux=True)
        gradients, (sums, memory) = take_gradients(weights)
        return [gradient.astype("float32") for gradient in gradients], sums, memory

    def _dropout_seeds(self, first_sample: Any) -> list[Any]:
        """Returns the states of the dropout seed generators for a micro-batch."""
        key = jax.random.key(self.options.seed)
        for half in (first_sample >> 32, first_sample & 0xFFFFFFFF):
            key = jax.random.fold_in(key, half.astype("uint32"))
        shape = (len(self.random_states), 2)
        states = jax.random.randint(key, shape, 0, 2**31 - 1, "int32")
        return [
            state.astype(variable.dtype)
            for variable, state in zip(self.random_states, states, strict=True)
        ]

    def _sum_over_devices(self, gradients: list[Any], share: Any) -> list[Any]:
        """Sums gradients over devices. If sent as float16, divides by `share` first."""
        if not self.options.compress_gradients:
            return lax.psum(gradients, _AXIS)
        gradients = [(gradient / share).astype("float16") for gradient in gradients]
        return [total.astype("float32") for total in lax.psum(gradients, _AXIS)]

    def _update(self, gradients: list[Any], sums: Any, factor: Any) -> tuple[Any, Any]:
        """Applies finite gradients. Updates the loss scale. Returns (finite, norm)."""
        scale = self.options.loss_scale.value * factor
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(part)) for part in gradients)) / scale
        # A single non-finite entry makes the norm non-finite.
        finite = jnp.isfinite(norm) & jnp.all(jnp.isfinite(sums))
        multiplier = 1.0 / scale
        bound = self.options.clip_norm
        if bound is not None:
            multiplier *= bound / jnp.maximum(norm, bound)
        slots = self.optimizer.variables
        old_weights = [variable.value for variable in self.variables]
        old_slots = [variable.value for variable in slots]
        weights, state = self.optimizer.stateless_apply(
            old_slots, [gradient * multiplier for gradient in gradients], old_weights
        )
        # A branch would make the host wait for `finite`. `where` is fused into the
        # loops that compute the update.
        for variable, value, old in zip(
            (*self.variables, *slots),
            (*weights, *state),
            (*old_weights, *old_slots),
            strict=True,
        ):
            variable.assign(jnp.where(finite, value, old))
        self.options.loss_scale.update(finite)
        return finite, norm


@functools.cache
def mesh() -> jax.sharding.Mesh:
    """Returns the mesh of all devices of all processes."""
    return jax.sharding.Mesh(np.array(jax.devices()), (_AXIS,))


def replicated() -> NamedSharding:
    """Returns the sharding of arrays that are replicated on all devices."""
    return NamedSharding(mesh(), _ALL)


def row_sharding(num_rows: int) -> NamedSharding:
    """Returns a sharding by rows, or `replicated()` if rows do not split evenly."""
    shared = num_rows % mesh().size == 0
    return NamedSharding(mesh(), _ROWS if shared else _ALL)
