"""Implements the training step on TensorFlow."""

# Shape key: R rows on this process, B rows per micro-batch, O objectives.

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from seg_tf.training.optimizers import dense
from seg_tf.training.step import (
    Features,
    GlobalBatch,
    Memory,
    StepParts,
    StepResult,
    nearest_power_of_two,
    pack_sums,
)


@dataclasses.dataclass(eq=False, repr=False)
class TrainingStep(StepParts):
    """Updates the weights from one global batch, which is split among all processes.

    The formulas are in `seg_tf.training.step`. Weights and counters only change after
    the last all-reduce. If a process fails, all others finish the step or none does.
    """

    def __post_init__(self) -> None:
        self._take_gradients, self._make_update = self._gradients, self._update
        if self.options.jit_compile:
            compiled = functools.partial(tf.function, autograph=False, jit_compile=True)
            self._take_gradients = compiled(self._gradients)
            self._make_update = compiled(self._update)

    def __call__(
        self, features: Features, memory: Memory, stop_requests: tf.Tensor
    ) -> StepResult:
        """Runs one step and returns a `StepResult`.

        Args:
            features: dict of tensors `(R, …)`. This process's rows. B must divide R.
            memory: dict of tensors `(R, …)`. The model's memory before these rows.
            stop_requests: float64 `(1,)`. Positive if this process requests a stop.
        """
        batch = self._count(features, stop_requests)
        factor = nearest_power_of_two(batch.micro_batches)
        gradients, sums, memory = self._accumulate(
            features, memory, batch.loss_weights / factor
        )
        gradients, factor = self._reduce(gradients, factor, batch)
        (sums,) = self.options.distribution.sum([sums], "sums")
        learning_rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        finite, norm = self._make_update(gradients, sums, factor)
        # Counters may only change when nothing can fail anymore.
        with tf.control_dependencies([finite]):
            counts = (batch.rows, batch.tokens, batch.stop_requests)
            result = (sums, norm, learning_rate, *counts, memory)
            return StepResult(finite, *tf.nest.map_structure(tf.identity, result))

    def _count(self, features: Features, stop_requests: tf.Tensor) -> GlobalBatch:
        """Sums the counts of the batch over processes, before computing gradients."""
        mask = features["padding_mask"]
        rows, size = tf.shape(mask)[0], self.options.micro_batch_size
        counts = [
            *(objective.count(features) for objective in self.objectives.values()),
            rows,
            tf.math.count_nonzero(mask),
            rows // size if size else 1,
            1,  # this process
        ]
        numbers = tf.stack([tf.cast(count, tf.float64) for count in counts])
        vector = tf.concat([numbers, stop_requests], axis=0)
        (vector,) = self.options.distribution.sum([vector], "counts")
        num_objectives, num_counts = len(self.objectives), len(counts)
        rows, tokens, micro_batches, processes = tf.unstack(
            vector[num_objectives:num_counts]
        )
        loss_weights = tf.cast(vector[:num_objectives], tf.float32)
        return GlobalBatch(
            loss_weights, rows, tokens, micro_batches, processes, vector[num_counts:]
        )

    def _accumulate(
        self, features: Features, memory: Memory, divisors: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, Memory]:
        """Sums gradients and results over micro-batches. Also returns the memory."""
        features = {**features, **memory}
        num_rows = features["padding_mask"].shape[0]
        size = self.options.micro_batch_size or num_rows
        if num_rows == size:
            return self._take_gradients(features, divisors)
        if num_rows is None or num_rows % size:
            raise ValueError(
                "`micro_batch_size` must divide the rows of a batch. Received: "
                f"micro_batch_size={size}, rows={num_rows}"
            )

        def add_next(
            begin: tf.Tensor,
            gradients: list[tf.Tensor],
            sums: tf.Tensor,
            memory: dict[str, tf.TensorArray],
        ) -> tuple[Any, ...]:
            rows = {
                name: tf.ensure_shape(
                    value[begin : begin + size], [size, *value.shape[1:]]
                )
                for name, value in features.items()
            }
            new_gradients, new_sums, new_memory = self._take_gradients(rows, divisors)
            gradients = [a + b for a, b in zip(gradients, new_gradients, strict=True)]
            memory = {
                name: parts.write(begin // size, new_memory[name])
                for name, parts in memory.items()
            }
            return begin + size, gradients, sums + new_sums, memory

        zeros = [tf.zeros(variable.shape, tf.float32) for variable in self.variables]
        parts = {
            name: tf.TensorArray(value.dtype, num_rows // size)
            for name, value in memory.items()
        }
        _, gradients, sums, memory = tf.while_loop(
            lambda begin, *_: begin < num_rows,
            add_next,
            (tf.constant(0), zeros, tf.zeros([self.num_sums], tf.float64), parts),
            # Two micro-batches in parallel would need twice the memory.
            parallel_iterations=1,
        )
        return gradients, sums, {name: part.concat() for name, part in memory.items()}

    def _gradients(
        self, features: Features, divisors: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, Memory]:
        """Returns a micro-batch's scaled float32 gradients, `pack_sums` and memory."""
        self._seed_dropout(features["sample_number"][0])
        with tf.GradientTape() as tape:
            results, memory = self.forward(features)
            terms = [
                self.objectives[name].loss_weight
                * tf.math.divide_no_nan(result.loss[0], divisor)
                for (name, result), divisor in zip(
                    results.items(), tf.unstack(divisors), strict=True
                )
            ]
            loss = tf.add_n(terms) * self.options.loss_scale.value
        # The tape only returns zeros for TensorFlow variables, not for Keras variables.
        variables = [variable.value for variable in self.variables]
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        gradients = [tf.cast(dense(gradient), tf.float32) for gradient in gradients]
        return gradients, pack_sums(results), memory

    def _seed_dropout(self, first_sample: tf.Tensor) -> None:
        if not self.random_states:
            return
        seed = tf.stack([tf.constant(self.options.seed, tf.int64), first_sample])
        states = tf.random.stateless_uniform(
            [len(self.random_states), 2],
            seed,
            minval=0,
            maxval=2**31 - 1,
            dtype=tf.int32,
        )
        for variable, state in zip(self.random_states, tf.unstack(states), strict=True):
            variable.assign(tf.cast(state, variable.dtype))

    def _reduce(
        self, gradients: list[tf.Tensor], factor: tf.Tensor, batch: GlobalBatch
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Sums gradients over processes in groups. Returns sums and their scale."""
        compress = self.options.compress_gradients
        if compress:
            # In float32, and by the mean over processes, so that all divide equally.
            share = nearest_power_of_two(batch.micro_batches / batch.processes)
            gradients = [gradient / share for gradient in gradients]
            factor /= share
        groups = backward_groups(
            [math.prod(variable.shape) for variable in self.variables],
            self.options.gradient_groups,
        )
        sums = list(gradients)
        for number, group in enumerate(groups):
            totals = self.options.distribution.sum(
                [gradients[index] for index in group],
                f"gradients_{number}",
                as_float16=compress,
            )
            for index, total in zip(group, totals, strict=True):
                sums[index] = total
        return sums, factor

    def _update(
        self, gradients: list[tf.Tensor], sums: tf.Tensor, factor: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Applies finite gradients. Updates the loss scale. Returns (finite, norm)."""
        scale = self.options.loss_scale.value * factor
        norm = tf.linalg.global_norm(gradients) / scale
        # A single non-finite entry makes the norm non-finite.
        finite = tf.math.is_finite(norm) & tf.reduce_all(tf.math.is_finite(sums))
        # One pass over the gradients unscales and clips them.
        multiplier = 1.0 / scale
        bound = self.options.clip_norm
        if bound is not None:
            multiplier *= bound / tf.maximum(norm, bound)

        def update() -> tf.Tensor:
            self.optimizer.apply(
                [gradient * multiplier for gradient in gradients], self.variables
            )
            return tf.constant(True)

        if self.options.jit_compile:
            # A branch would make the host wait for `finite`. `where` is fused into
            # the loops that compute the update.
            changing = [*self.variables, *self.optimizer.variables]
            before = [tf.identity(variable.value) for variable in changing]
            update()
            for variable, value in zip(changing, before, strict=True):
                variable.assign(tf.where(finite, variable.value, value))
        else:
            tf.cond(finite, update, lambda: tf.constant(False))
        self.options.loss_scale.update(finite)
        return finite, norm


def backward_groups(sizes: Sequence[int], number: int) -> list[list[int]]:
    """Splits indices into at most `number` groups of similar total size, last first.

    >>> backward_groups([4, 1, 1, 2], 2)
    [[3, 2, 1], [0]]
    """
    share = sum(sizes) / number
    groups: list[list[int]] = [[]]
    done = 0
    for index in reversed(range(len(sizes))):
        if groups[-1] and done >= share * len(groups):
            groups.append([])
        groups[-1].append(index)
        done += sizes[index]
    return groups
