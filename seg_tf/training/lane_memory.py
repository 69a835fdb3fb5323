"""What a model remembers of the text that it read before, kept from step to step.

A batch has a row for every lane of a stream, and goes on where the one before it
stopped. Models with memory take that of their rows with the features and return the
memory for the next batch; here it waits.
"""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from seg_tf.training.distribution import Distribution


class NoMemory:
    """That of models without any."""

    variables: tuple[()] = ()

    def read(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The memory of the rows of a batch."""
        return {}

    def write(
        self, features: Mapping[str, tf.Tensor], memory: Mapping[str, tf.Tensor]
    ) -> None:
        """Keeps what a model returned for these rows, where that is finite."""

    def collect(self, distribution: Distribution) -> None:
        """Gives every process the lanes of all; each has to call it."""

    def share(self) -> None:
        """Says that every process has been given the same lanes."""


class LaneMemory(NoMemory):
    """The memory of every lane, of which each process writes those of its rows.

    All lanes have room on each process, so that a checkpoint of the chief is whole
    once they were collected, and any number of processes can go on from it. Lanes of
    a process that died are behind then; what they hold does not precede the text that
    comes next, and models ignore it.

    Args:
        initial: memory of the lanes before any text, by name: tensors
            `(number of lanes, …)`.
    """

    def __init__(self, initial: Mapping[str, Any]):
        self._memory = {
            name: keras.Variable(value, trainable=False, dtype=value.dtype, name=name)
            for name, value in initial.items()
        }
        num_lanes = next(iter(initial.values())).shape[0]
        self._is_own = tf.Variable(tf.zeros([num_lanes], tf.bool), trainable=False)

    @property
    def variables(self) -> tuple[Any, ...]:
        """What a checkpoint has to hold."""
        return tuple(self._memory.values())

    def read(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        lanes = features["lane"]
        return {
            name: tf.gather(variable.value, lanes)
            for name, variable in self._memory.items()
        }

    def write(
        self, features: Mapping[str, tf.Tensor], memory: Mapping[str, tf.Tensor]
    ) -> None:
        lanes = features["lane"]
        before = self.read(features)
        # Memory that is not finite would never be again. What is kept instead does not
        # precede the next words, which models see.
        is_finite = tf.reduce_all([_are_finite(one) for one in memory.values()], axis=0)
        for name, variable in self._memory.items():
            kept = _over_rows(is_finite, before[name])
            rows = tf.where(kept, memory[name], before[name])
            variable.value.scatter_update(tf.IndexedSlices(rows, lanes))
        own = tf.ones_like(lanes, tf.bool)
        self._is_own.scatter_update(tf.IndexedSlices(own, lanes))

    def collect(self, distribution: Distribution) -> None:
        if distribution.size == 1:
            return
        is_own = tf.convert_to_tensor(self._is_own)
        (owners,) = distribution.sum([tf.cast(is_own, tf.int32)], "owners_of_lanes")
        for name, variable in self._memory.items():
            value = tf.convert_to_tensor(variable.value)
            own = tf.where(_over_rows(is_own, value), value, tf.zeros_like(value))
            (of_all,) = distribution.sum([own], f"lanes_{name}")
            has_owner = _over_rows(owners > 0, value)
            variable.assign(tf.where(has_owner, of_all, value))
        self.share()

    def share(self) -> None:
        self._is_own.assign(tf.zeros_like(self._is_own))


def _are_finite(value: tf.Tensor) -> tf.Tensor:
    """Which rows are finite throughout: bool (rows,)."""
    if not value.dtype.is_floating:
        return tf.ones([tf.shape(value)[0]], tf.bool)
    axes = list(range(1, value.shape.rank))
    return tf.reduce_all(tf.math.is_finite(value), axis=axes)


def _over_rows(of_rows: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Numbers of rows in a shape that they can stand beside a value of rows in."""
    return tf.reshape(of_rows, [-1] + [1] * (value.shape.rank - 1))
