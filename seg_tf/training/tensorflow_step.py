"""One step on TensorFlow: gradients of micro-batches, all-reduce, and the update."""

# Shape key: R rows of this process, B rows of a micro-batch, O objectives.

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from seg_tf.training.optimizers.adamw import dense
from seg_tf.training.step import (
    Features,
    GlobalBatch,
    Memory,
    StepParts,
    StepResult,
    nearest_power_of_two,
    pack_sums,
)


class TrainingStep(StepParts):
    """Updates the weights from one global batch, of which each process has a part.

    The update descends the weighted sum over objectives o of

        S_o / G_o = (sum of losses of the global batch) / (sum of their weights)

    which is neither a mean of means over micro-batches nor over processes: k
    micro-batches of b rows, on any processes, give the gradient of one batch of k·b.

    A micro-batch m differentiates its share of that, F times enlarged:

        loss_scale * sum over o of loss_weight_o * S_om / (G_o / F)

    F is the power of two next to the number of micro-batches of the global batch, so
    that G_o / F is about the weight of one of them: the loss has the size of the
    micro-batch's own mean, however large the batch is. Divided by G_o alone, the
    gradients of a batch of millions of targets would be below what float16 can hold.
    The update divides the sum by F again, in float32; a power of two changes no bit
    of a float32 or bfloat16 gradient. Gradients that travel as float16 are divided
    before that by the power of two next to the micro-batches of a process, so that
    they have the size of one micro-batch there too.

    Dropout of a micro-batch is a function of the seed and of the number of its first
    sample, so it is the same on whichever process and after whatever restart.

    A step changes all variables after the last all-reduce. If a process
    fails, the others are left with the state of a step that was made on all, or not.

    Args:
        *parts: those of `StepParts`.
        **named_parts: likewise.
    """

    def __init__(self, *parts: Any, **named_parts: Any):
        super().__init__(*parts, **named_parts)
        self._take_gradients, self._make_update = self._gradients, self._update
        if self._options.jit_compile:
            compiled = functools.partial(tf.function, autograph=False, jit_compile=True)
            self._take_gradients = compiled(self._gradients)
            self._make_update = compiled(self._update)

    def __call__(
        self, features: Features, memory: Memory, stop_requests: tf.Tensor
    ) -> StepResult:
        """Makes one step.

        Args:
            features: this process's rows `(R, …)`; R is a multiple of B.
            memory: the model's memory of the text before them, `(R, …)`; it
                gets this among the features.
            stop_requests: float64 `(1,)`: stop flag of this process.
        """
        batch = self._count(features, stop_requests)
        factor = nearest_power_of_two(batch.micro_batches)
        gradients, sums, memory = self._accumulate(
            features, memory, batch.loss_weights / factor
        )
        gradients, factor = self._reduce(gradients, factor, batch)
        (sums,) = self._options.distribution.sum([sums], "sums")
        learning_rate = tf.convert_to_tensor(self._optimizer.learning_rate)
        finite, norm = self._make_update(gradients, sums, factor)
        # What is counted of a step counts once nothing can fail any more.
        with tf.control_dependencies([finite]):
            counted = (batch.rows, batch.tokens, batch.stop_requests)
            result = (sums, norm, learning_rate, *counted, memory)
            return StepResult(finite, *tf.nest.map_structure(tf.identity, result))

    def _count(self, features: Features, stop_requests: tf.Tensor) -> GlobalBatch:
        """Counts the global batch before any gradient is taken."""
        mask = features["padding_mask"]
        size = self._options.micro_batch_size
        counts = [one.count(features) for one in self._objectives.values()]
        counts.append(tf.shape(mask)[0])
        counts.append(tf.math.count_nonzero(mask))
        counts.append(tf.shape(mask)[0] // size if size else 1)
        counts.append(1)  # this process
        numbers = tf.stack([tf.cast(count, tf.float64) for count in counts])
        vector = tf.concat([numbers, stop_requests], axis=0)
        (vector,) = self._options.distribution.sum([vector], "counts")
        num_objectives, num_counts = len(self._objectives), len(counts)
        rows, tokens, micro_batches, processes = tf.unstack(
            vector[num_objectives:num_counts]
        )
        return GlobalBatch(
            loss_weights=tf.cast(vector[:num_objectives], tf.float32),
            rows=rows,
            tokens=tokens,
            micro_batches=micro_batches,
            processes=processes,
            stop_requests=vector[num_counts:],
        )

    def _accumulate(
        self, features: Features, memory: Memory, divisors: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, Memory]:
        """Sums up `_gradients` over all rows, one micro-batch after another."""
        features = {**features, **memory}
        num_rows = features["padding_mask"].shape[0]
        size = self._options.micro_batch_size or num_rows
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
            rows = {name: _rows(value, begin, size) for name, value in features.items()}
            more_gradients, more_sums, of_rows = self._take_gradients(rows, divisors)
            added = [a + b for a, b in zip(gradients, more_gradients, strict=True)]
            memory = {
                name: parts.write(begin // size, of_rows[name])
                for name, parts in memory.items()
            }
            return begin + size, added, sums + more_sums, memory

        parts = {
            name: tf.TensorArray(value.dtype, num_rows // size)
            for name, value in memory.items()
        }

        _, gradients, sums, memory = tf.while_loop(
            lambda begin, *_: begin < num_rows,
            add_next,
            (tf.constant(0), *self._zeros(), parts),
            # Two micro-batches at once would need the memory of two.
            parallel_iterations=1,
        )
        return gradients, sums, {name: one.concat() for name, one in memory.items()}

    def _zeros(self) -> tuple[list[tf.Tensor], tf.Tensor]:
        gradients = [tf.zeros(one.shape, tf.float32) for one in self._variables]
        return gradients, tf.zeros([self._num_sums], tf.float64)

    def _gradients(
        self, features: Features, divisors: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, Memory]:
        """Scaled float32 gradients of the loss of some rows, their sums and memory.

        Args:
            features: the rows.
            divisors: float32 `(O,)`; the sum of each objective's losses is divided
                by its own.
        """
        self._seed_dropout(features["sample_number"][0])
        with tf.GradientTape() as tape:
            results, memory = self._forward(features)
            terms = [
                self._objectives[name].loss_weight
                * tf.math.divide_no_nan(result.loss[0], divisor)
                for (name, result), divisor in zip(
                    results.items(), tf.unstack(divisors), strict=True
                )
            ]
            loss = tf.add_n(terms) * self._options.loss_scale.value
        # TensorFlow's own variables: of Keras's it cannot make a zero.
        variables = [variable.value for variable in self._variables]
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        gradients = [tf.cast(dense(one), tf.float32) for one in gradients]
        return gradients, pack_sums(results), memory

    def _seed_dropout(self, first_sample: tf.Tensor) -> None:
        if not self._random_states:
            return
        seed = tf.stack([tf.constant(self._options.seed, tf.int64), first_sample])
        states = tf.random.stateless_uniform(
            [len(self._random_states), 2],
            seed,
            minval=0,
            maxval=2**31 - 1,
            dtype=tf.int32,
        )
        for variable, state in zip(
            self._random_states, tf.unstack(states), strict=True
        ):
            variable.assign(tf.cast(state, variable.dtype))

    def _reduce(
        self, gradients: list[tf.Tensor], factor: tf.Tensor, batch: GlobalBatch
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Adds gradients up over the processes, in groups.

        A group is summed when all processes have its gradients. Those of the last
        layers come first, so that their sum travels while the backward pass computes
        the others. Not where XLA compiles the gradients, nor where micro-batches
        are added up: then all of them are there at once.

        Args:
            gradients: those of this process.
            factor: how many times they are enlarged.
            batch: what all processes have counted.

        Returns:
            The sums, and how many times these are enlarged.
        """
        compress = self._options.compress_gradients
        if compress:
            # Of float32, so that what travels has the size of one micro-batch. By the
            # mean number of a process: all have to divide by the same.
            share = nearest_power_of_two(batch.micro_batches / batch.processes)
            gradients = [one / share for one in gradients]
            factor /= share
        groups = backward_groups(
            [one.shape.num_elements() for one in gradients],
            self._options.gradient_groups,
        )
        sums = list(gradients)
        for number, group in enumerate(groups):
            of_group = self._options.distribution.sum(
                [gradients[index] for index in group],
                f"gradients_{number}",
                as_float16=compress,
            )
            for index, total in zip(group, of_group, strict=True):
                sums[index] = total
        return sums, factor

    def _update(
        self, gradients: list[tf.Tensor], sums: tf.Tensor, factor: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Unscales, checks, clips, updates; returns (finite, norm before clipping).

        Args:
            gradients: those of the global loss, `factor` times the loss scale too
                large.
            sums: losses and metrics of the global batch.
            factor: a power of two.
        """
        scale = self._options.loss_scale.value * factor
        norm = tf.linalg.global_norm(gradients) / scale
        # One entry that is not finite makes the norm so.
        finite = tf.math.is_finite(norm) & tf.reduce_all(tf.math.is_finite(sums))
        # One pass over the gradients unscales and clips them.
        multiplier = 1.0 / scale
        bound = self._options.clip_norm
        if bound is not None:
            multiplier *= bound / tf.maximum(norm, bound)

        def update() -> tf.Tensor:
            self._optimizer.apply(
                [one * multiplier for one in gradients], self._variables
            )
            return tf.constant(True)

        if self._options.jit_compile:
            # A branch would have the host wait for `finite`; a choice is part of the
            # loops that compute the update.
            changing = [*self._variables, *self._optimizer.variables]
            before = [tf.identity(one.value) for one in changing]
            update()
            for variable, value in zip(changing, before, strict=True):
                variable.assign(tf.where(finite, variable.value, value))
        else:
            tf.cond(finite, update, lambda: tf.constant(False))
        self._options.loss_scale.update(finite)
        return finite, norm


def backward_groups(sizes: Sequence[int], number: int) -> list[list[int]]:
    """Places of gradients by group, in the order of a backward pass: the last first.

    Args:
        sizes: numbers of entries of the gradients, in the order of the forward pass.
        number: the most groups. Each but the last ends where it has its share of all
            entries.

    Example:
    >>> backward_groups([4, 1, 1, 2], 2)
    [[3, 2, 1], [0]]
    """
    share = sum(sizes) / number
    groups: list[list[int]] = [[]]
    done = 0
    for place in reversed(range(len(sizes))):
        if groups[-1] and done >= share * len(groups):
            groups.append([])
        groups[-1].append(place)
        done += sizes[place]
    return groups


def _rows(value: tf.Tensor, begin: tf.Tensor, size: int) -> tf.Tensor:
    return tf.ensure_shape(value[begin : begin + size], [size, *value.shape[1:]])
