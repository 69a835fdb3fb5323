"""Vectors at positions, against a loop."""

import numpy as np
import pytest

from seg_tf.ops.gathering import gather_vectors


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
