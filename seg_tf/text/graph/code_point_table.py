"""A number for every code point, looked up in the graph.

Two levels, as in the tables of Unicode libraries: most blocks of 256 code points are
like others, and are held once. So a table of all of Unicode is some kilobytes large.
"""

import numpy as np
import tensorflow as tf

NUM_CODE_POINTS = 0x110000
_BLOCK_LENGTH = 256


class CodePointTable(tf.Module):
    """Looks up what a table says of code points.

    Args:
        values: int array `(0x110000,)`, a number for each code point.

    Example:
        >>> table = np.zeros(NUM_CODE_POINTS, np.int32)
        >>> table[ord("x")] = 7
        >>> CodePointTable(table)(tf.constant([ord("x"), ord("y")])).numpy()
        array([7, 0], dtype=int32)
    """

    def __init__(self, values: np.ndarray):
        super().__init__()
        number_of: dict[bytes, int] = {}  # of each different block
        numbers = [
            number_of.setdefault(block.tobytes(), len(number_of))
            for block in np.asarray(values, np.int32).reshape(-1, _BLOCK_LENGTH)
        ]
        self._blocks = held_once(np.frombuffer(b"".join(number_of), np.int32))
        self._block_numbers = held_once(np.array(numbers))

    def __call__(self, code_points: tf.Tensor) -> tf.Tensor:
        """The numbers of int32 code points, of any shape."""
        block = tf.gather(self._block_numbers, code_points // _BLOCK_LENGTH)
        within = code_points % _BLOCK_LENGTH
        return tf.gather(self._blocks, block * _BLOCK_LENGTH + within)


def held_once(values: np.ndarray) -> tf.Variable:
    """A table that all graphs which read it share, where each would copy a constant."""
    return tf.Variable(values, trainable=False, dtype=tf.int32)
