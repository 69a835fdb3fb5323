"""Nearest marked positions, and runs of numbers: operations on flat tensors.

Shape key: N positions, M of which are marked; R runs.
"""

import tensorflow as tf


class MarkedPositions:
    """Finds the nearest marked position before or after others, in the graph.

    Args:
        is_marked: bool tensor `(N,)`.
    """

    def __init__(self, is_marked: tf.Tensor):
        self._length = tf.size(is_marked)
        self.positions = tf.cast(tf.where(is_marked)[:, 0], tf.int32)
        # How many there are before each position, and after all.
        self._before = tf.pad(tf.cumsum(tf.cast(is_marked, tf.int32)), [[1, 0]])

    def count_before(self, position: tf.Tensor) -> tf.Tensor:
        """Number of marks before each of some positions, which may be up to N."""
        return tf.gather(self._before, position)

    def last_before(self, position: tf.Tensor) -> tf.Tensor:
        """The last that lies before each of some positions; -1 if there is none."""
        padded = tf.concat([[-1], self.positions], 0)
        return tf.gather(padded, self.count_before(position))

    def next_from(self, position: tf.Tensor) -> tf.Tensor:
        """The first that does not lie before each; N if there is none."""
        padded = tf.concat([self.positions, [self._length]], 0)
        return tf.gather(padded, self.count_before(position))


def count_off(starts: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Runs of numbers, one after the other.

    For example, starts [5, 0] and lengths [2, 3] give [5, 6, 0, 1, 2] and the runs
    [0, 0, 1, 1, 1] that these belong to.

    Args:
        starts: int32 tensor `(R,)`.
        lengths: int32 tensor `(R,)`.

    Returns:
        Two int32 tensors of as many numbers as the lengths sum to.
    """
    run = which_run(lengths)
    begins = tf.cumsum(lengths, exclusive=True)
    return tf.range(tf.size(run)) + tf.gather(starts - begins, run), run


def which_run(lengths: tf.Tensor) -> tf.Tensor:
    """The runs that positions belong to, as many positions for each as it is long.

    Unlike `tf.repeat`, which would make all runs as long as the longest on the way.

    Args:
        lengths: int32 tensor `(R,)`.
    """
    ends = tf.cumsum(lengths)
    total = tf.reduce_sum(lengths)
    ended = tf.scatter_nd(ends[:, tf.newaxis], tf.ones_like(ends), [total + 1])
    return tf.cumsum(ended)[:total]


def shifted(values: tf.Tensor, by: int, fill: bool | int) -> tf.Tensor:
    """`values[n + by]` at every position n, `fill` where there is none.

    Args:
        values: tensor `(N,)`.
        by: how far; negative looks back.
        fill: what lies outside.
    """
    outside = tf.fill([abs(by)], tf.constant(fill, values.dtype))
    if by > 0:
        return tf.concat([values, outside], 0)[by:]
    return tf.concat([outside, values], 0)[: tf.size(values)]
