"""One step: gradients of micro-batches, all-reduce, unscale, check, clip, update."""

# Shape key: R rows of this process, B rows of a micro-batch, K micro-batches.

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from seg_tf.objectives.base import Objective, ObjectiveOutput
from seg_tf.training.distribution import Distribution
from seg_tf.training.loss_scale import DynamicLossScale, NoLossScale

Features = Mapping[str, tf.Tensor]
Results = Mapping[str, ObjectiveOutput]
Memory = Mapping[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """How a step is made.

    Attributes:
        micro_batch_size: B; None takes all rows of this process at once.
        clip_norm: bound on the global gradient norm; None does not clip.
        loss_scale: what keeps float16 gradients from vanishing.
        compress_gradients: whether gradients travel as float16.
        jit_compile: whether XLA compiles the gradients and the update. The
            all-reduce stands between the two, outside of both.
        seed: of dropout.
        distribution: the processes that train together.
    """

    micro_batch_size: int | None = None
    clip_norm: float | None = None
    loss_scale: NoLossScale | DynamicLossScale = dataclasses.field(
        default_factory=NoLossScale
    )
    compress_gradients: bool = False
    jit_compile: bool = False
    seed: int = 0
    distribution: Distribution = dataclasses.field(default_factory=Distribution)


class StepResult(NamedTuple):
    """What a step did. All numbers are those of the global batch.

    Attributes:
        finite: bool. Whether loss and gradient were; if not, no weight has changed.
        sums: float64 `(N,)`. The numbers of `pack_sums`.
        gradient_norm: before clipping.
        learning_rate: of this update.
        rows: rows of the batch.
        tokens: of these rows, padding left out.
        wishes: float64 `(W,)`. How many processes have each wish.
        memory: what the model remembers of this process's rows, by name.
    """

    finite: tf.Tensor
    sums: tf.Tensor
    gradient_norm: tf.Tensor
    learning_rate: tf.Tensor
    rows: tf.Tensor
    tokens: tf.Tensor
    wishes: tf.Tensor
    memory: Memory


class TrainingStep:
    """Updates the weights from one global batch, of which each process has a part.

    The update descends the weighted sum over objectives of

        (sum of losses over all micro-batches and processes) / (sum of their weights)

    which is neither a mean of means over micro-batches nor over processes: k
    micro-batches of b rows, on any processes, give the gradient of one batch of k·b.

    Dropout of a micro-batch is a function of the seed and of the number of its first
    sample, so it is the same on whichever process and after whatever restart.

    Everything that a step changes it changes after the last all-reduce. If a process
    fails, the others are left with the state of a step that was made on all, or not.

    Args:
        forward: from features of some rows to the result of each objective and to
            what the model remembers of them, `{}` for a model without memory.
        objectives: by the names of these results.
        variables: what is trained.
        random_states: states of the generators of dropout.
        optimizer: built, without clipping of its own.
        num_sums: N, how many numbers `pack_sums` gives for the results.
        options: how.
    """

    def __init__(
        self,
        forward: Callable[[Features], tuple[Results, Memory]],
        objectives: Mapping[str, Objective],
        variables: Sequence[keras.Variable],
        random_states: Sequence[keras.Variable],
        optimizer: keras.optimizers.Optimizer,
        num_sums: int,
        options: StepOptions,
    ):
        self._forward = forward
        self._objectives = objectives
        self._variables = list(variables)
        self._random_states = list(random_states)
        self._optimizer = optimizer
        self._num_sums = num_sums
        self._options = options
        compiled = functools.partial(tf.function, autograph=False, jit_compile=True)
        wrap = compiled if options.jit_compile else lambda function: function
        self._gradients = wrap(self._gradients)
        self._update = wrap(self._update)

    def __call__(
        self, features: Features, memory: Memory, wishes: tf.Tensor
    ) -> StepResult:
        """Makes one step.

        Args:
            features: this process's rows `(R, …)`; R is a multiple of B.
            memory: what the model remembers of the text before them, `(R, …)`; it
                gets this among the features.
            wishes: float64 `(W,)`: what this process wishes.
        """
        counts, rows, tokens, wishes = self._count(features, wishes)
        gradients, sums, memory = self._accumulate(features, memory, counts)
        gradients, sums = self._reduce(gradients, sums)
        learning_rate = tf.convert_to_tensor(self._optimizer.learning_rate)
        finite, norm = self._update(gradients, sums)
        # What is counted of a step counts once nothing can fail any more.
        with tf.control_dependencies([finite]):
            result = (sums, norm, learning_rate, rows, tokens, wishes, memory)
            return StepResult(finite, *tf.nest.map_structure(tf.identity, result))

    def _count(self, features: Features, wishes: tf.Tensor) -> tuple:
        """What the losses of the global batch are over, and other counts of it."""
        counts = [one.count(features) for one in self._objectives.values()]
        counts.append(tf.shape(features["padding_mask"])[0])
        counts.append(tf.math.count_nonzero(features["padding_mask"]))
        numbers = tf.stack([tf.cast(count, tf.float64) for count in counts])
        vector = tf.concat([numbers, wishes], axis=0)
        (vector,) = self._options.distribution.sum([vector], "counts")
        num_objectives = len(self._objectives)
        counts = tf.cast(vector[:num_objectives], tf.float32)
        rows, tokens = tf.unstack(vector[num_objectives : num_objectives + 2])
        return counts, rows, tokens, vector[num_objectives + 2 :]

    def _accumulate(
        self, features: Features, memory: Memory, counts: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, Memory]:
        """What `_gradients` gives of all rows, one micro-batch after another."""
        features = {**features, **memory}
        num_rows = features["padding_mask"].shape[0]
        size = self._options.micro_batch_size or num_rows
        if num_rows == size:
            return self._gradients(features, counts)
        if num_rows is None or num_rows % size:
            raise ValueError(
                "`micro_batch_size` must divide the rows of a batch. Received: "
                f"micro_batch_size={size}, rows={num_rows}"
            )

        def add_next(
            begin: tf.Tensor, gradients: list, sums: tf.Tensor, memory: dict
        ) -> tuple:
            rows = {name: _rows(value, begin, size) for name, value in features.items()}
            more_gradients, more_sums, of_rows = self._gradients(rows, counts)
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
        self, features: Features, counts: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, Memory]:
        """Scaled float32 gradients of the loss of some rows, their sums and memory."""
        self._seed_dropout(features["sample_number"][0])
        with tf.GradientTape() as tape:
            results, memory = self._forward(features)
            terms = [
                self._objectives[name].loss_weight
                * tf.math.divide_no_nan(result.loss[0], count)
                for (name, result), count in zip(
                    results.items(), tf.unstack(counts), strict=True
                )
            ]
            loss = tf.add_n(terms) * self._options.loss_scale.value
        # TensorFlow's own variables: of Keras's it cannot make a zero.
        variables = [variable.value for variable in self._variables]
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        gradients = [tf.cast(_dense(one), tf.float32) for one in gradients]
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
        self, gradients: list[tf.Tensor], sums: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        distribution = self._options.distribution
        gradients = distribution.sum(
            gradients, "gradients", as_float16=self._options.compress_gradients
        )
        (sums,) = distribution.sum([sums], "sums")
        return gradients, sums

    def _update(
        self, gradients: list[tf.Tensor], sums: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Unscale, check, clip, update; returns (finite, norm before clipping)."""
        scale = self._options.loss_scale.value
        norm = tf.linalg.global_norm(gradients) / scale
        # One entry that is not finite makes the norm so.
        finite = tf.math.is_finite(norm) & tf.reduce_all(tf.math.is_finite(sums))
        # One pass over the gradients does both.
        factor = 1.0 / scale
        bound = self._options.clip_norm
        if bound is not None:
            factor *= bound / tf.maximum(norm, bound)

        def update() -> tf.Tensor:
            self._optimizer.apply([one * factor for one in gradients], self._variables)
            return tf.constant(True)

        tf.cond(finite, update, lambda: tf.constant(False))
        self._options.loss_scale.update(finite)
        return finite, norm


def named_pairs(results: Results) -> list[tuple[str, tuple]]:
    """(name, (sum, weight)) of every loss and metric of every objective."""
    pairs = []
    for objective, result in results.items():
        pairs.append((f"{objective}_loss", result.loss))
        for metric, pair in result.metrics.items():
            pairs.append((f"{objective}_{metric}", pair))
    return pairs


def pack_sums(results: Results) -> tf.Tensor:
    """All sums and weights, as float64 `(N,)`: float32 cannot count to 2**24 + 1."""
    numbers = [number for _, pair in named_pairs(results) for number in pair]
    return tf.stack([tf.cast(number, tf.float64) for number in numbers])


def _rows(value: tf.Tensor, begin: tf.Tensor, size: int) -> tf.Tensor:
    return tf.ensure_shape(value[begin : begin + size], [size, *value.shape[1:]])


def _dense(gradient: Any) -> tf.Tensor:
    """The gradient as an ordinary tensor.

    That of an embedding table may come as a list of rows, some of them twice; a norm
    or a square taken row by row would be that of another gradient.
    """
    return tf.convert_to_tensor(gradient)
