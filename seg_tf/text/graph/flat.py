"""Flat tensors of characters, and operations on them, in the graph.

Shape key: B texts, N positions, R runs.
"""

import dataclasses
from typing import Self

import numpy as np
import tensorflow as tf

NUM_CODE_POINTS = 0x110000
LINE_FEED = ord("\n")
_BLOCK_LENGTH = 256


@dataclasses.dataclass(frozen=True)
class FlatTexts:
    """Concatenated texts, with a line feed after each text.

    `code_points` is int32 `(N,)`. `starts` and `ends`, `(B,)`, exclude the line feed.
    """

    code_points: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor

    @classmethod
    def of(cls, texts: tf.Tensor) -> Self:
        """Creates flat texts from UTF-8 strings `(B,)`. Invalid bytes become U+FFFD."""
        decoded = tf.strings.unicode_decode(
            tf.strings.join([texts, "\n"]), "UTF-8", errors="replace"
        )
        splits = tf.cast(decoded.row_splits, tf.int32)
        return cls(decoded.flat_values, splits[:-1], splits[1:] - 1)

    def text_of(self, position: tf.Tensor) -> tf.Tensor:
        """Returns the number of the text that contains each position."""
        return tf.searchsorted(self.ends, position)

    def strings(self, starts: tf.Tensor, stops: tf.Tensor) -> tf.Tensor:
        """Returns the UTF-8 string between each start and stop position, `(R,)`."""
        position, _ = count_off(starts, stops - starts)
        return encode_strings(tf.gather(self.code_points, position), stops - starts)


def encode_strings(code_points: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Splits code points `(N,)` into UTF-8 strings of `lengths` code points, `(R,)`."""
    return tf.strings.unicode_encode(
        tf.RaggedTensor.from_row_lengths(code_points, lengths, validate=False), "UTF-8"
    )


class MarkedPositions:
    """Looks up the positions that are True in a bool tensor `(N,)`."""

    def __init__(self, is_marked: tf.Tensor):
        self._length = tf.size(is_marked)
        self.positions = tf.cast(tf.where(is_marked)[:, 0], tf.int32)
        self._before = tf.pad(tf.cumsum(tf.cast(is_marked, tf.int32)), [[1, 0]])

    def count_before(self, position: tf.Tensor) -> tf.Tensor:
        """Counts the marked positions before each `position`, which may be N."""
        return tf.gather(self._before, position)

    def last_before(self, position: tf.Tensor) -> tf.Tensor:
        """Returns the last marked position before each `position`, or -1."""
        padded = tf.concat([[-1], self.positions], 0)
        return tf.gather(padded, self.count_before(position))

    def next_from(self, position: tf.Tensor) -> tf.Tensor:
        """Returns the first marked position at or after each `position`, or N."""
        padded = tf.concat([self.positions, [self._length]], 0)
        return tf.gather(padded, self.count_before(position))


def count_off(starts: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns runs of consecutive numbers, and the index of the run of each number.

    For example, starts [5, 0] and lengths [2, 3], int32 `(R,)`, give [5, 6, 0, 1, 2]
    and [0, 0, 1, 1, 1].
    """
    run = which_run(lengths)
    begins = tf.cumsum(lengths, exclusive=True)
    return tf.range(tf.size(run)) + tf.gather(starts - begins, run), run


def which_run(lengths: tf.Tensor) -> tf.Tensor:
    """Returns `tf.repeat(tf.range(R), lengths)`, without padding to the longest run."""
    ends = tf.cumsum(lengths)
    total = tf.reduce_sum(lengths)
    ended = tf.scatter_nd(ends[:, tf.newaxis], tf.ones_like(ends), [total + 1])
    return tf.cumsum(ended)[:total]


def shifted(values: tf.Tensor, by: int, fill: bool | int) -> tf.Tensor:
    """Returns `values[n + by]` for each n, or `fill` where that is out of range."""
    outside = tf.fill([abs(by)], tf.constant(fill, values.dtype))
    if by > 0:
        return tf.concat([values, outside], 0)[by:]
    return tf.concat([outside, values], 0)[: tf.size(values)]


class CodePointTable(tf.Module):
    """Int32 table `(0x110000,)` that stores identical blocks of 256 entries once."""

    def __init__(self, values: np.ndarray):
        super().__init__()
        number_of: dict[bytes, int] = {}  # for each distinct block
        numbers = [
            number_of.setdefault(block.tobytes(), len(number_of))
            for block in np.asarray(values, np.int32).reshape(-1, _BLOCK_LENGTH)
        ]
        self._blocks = table_variable(np.frombuffer(b"".join(number_of), np.int32))
        self._block_numbers = table_variable(np.array(numbers))

    def __call__(self, code_points: tf.Tensor) -> tf.Tensor:
        """Looks up the entries of int32 code points of any shape."""
        block = tf.gather(self._block_numbers, code_points // _BLOCK_LENGTH)
        within = code_points % _BLOCK_LENGTH
        return tf.gather(self._blocks, block * _BLOCK_LENGTH + within)


def table_variable(values: np.ndarray) -> tf.Variable:
    """Creates an int32 table that all graphs share. A constant is copied into each."""
    return tf.Variable(values, trainable=False, dtype=tf.int32)
