"""Vectors picked out of sequences, and blocks."""

import math

import numpy as np
import pytest

from seg_tf.layers.common import gelu
from seg_tf.ops.gathering import gather_vectors, text_of_positions, to_blocks


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_vectors_are_those_at_the_positions_of_their_own_row(dtype):
    sequence = np.arange(2 * 5 * 3, dtype="float32").reshape(2, 5, 3)
    # More positions than there are vectors, in no order, some twice.
    positions = np.array([[4, 0, 0, 2, 1, 3], [1, 1, 3, 0, 4, 4]], dtype)
    expected = [
        [sequence[row, position] for position in of_row]
        for row, of_row in enumerate(positions)
    ]
    found = np.asarray(gather_vectors(sequence, positions))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


def test_rows_that_are_no_blocks_are_refused():
    with pytest.raises(ValueError, match=r"`block_length` must divide.*=4.*length 6"):
        to_blocks(np.zeros((2, 6)), 4)


def test_positions_have_the_text_that_they_are_of():
    text = np.array([[1, 1, 2, 2, 0]])
    positions = np.array([[1, 2, 0, 4]])
    mask = np.array([[True, True, False, False]])
    found = np.asarray(text_of_positions(text, positions, mask))
    # None is that of padding, 0.
    np.testing.assert_array_equal(found, [[1, 2, -1, -1]])


INPUTS = np.linspace(-6, 6, 2001, dtype="float32")


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_equals_its_formula(approximate):
    if approximate:
        inner = [math.sqrt(2 / math.pi) * (x + 0.044715 * x**3) for x in INPUTS]
        expected = [
            x / 2 * (1 + math.tanh(y)) for x, y in zip(INPUTS, inner, strict=True)
        ]
    else:
        expected = [x / 2 * math.erfc(-x / math.sqrt(2)) for x in INPUTS]
    np.testing.assert_allclose(gelu(approximate)(INPUTS), expected, atol=1e-6)
