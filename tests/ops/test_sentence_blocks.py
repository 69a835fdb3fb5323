import numpy as np
import pytest

from seg_tf.ops.sentence_blocks import text_of_positions, to_blocks


def test_rows_become_blocks_in_order():
    rows = np.arange(2 * 6 * 3).reshape(2, 6, 3)
    blocks = np.asarray(to_blocks(rows, 2))
    assert blocks.shape == (6, 2, 3)
    np.testing.assert_array_equal(blocks[4], rows[1, 2:4])


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
