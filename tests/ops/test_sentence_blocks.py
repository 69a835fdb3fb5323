import numpy as np
import pytest

from seg_tf.ops.sentence_blocks import same_sentence, same_text, to_blocks


def test_rows_become_blocks_in_order():
    rows = np.arange(2 * 6 * 3).reshape(2, 6, 3)
    blocks = np.asarray(to_blocks(rows, 2))
    assert blocks.shape == (6, 2, 3)
    np.testing.assert_array_equal(blocks[4], rows[1, 2:4])


def test_rows_that_are_no_blocks_are_refused():
    with pytest.raises(ValueError, match=r"`block_length` must divide.*=4.*length 6"):
        to_blocks(np.zeros((2, 6)), 4)


def test_positions_see_their_sentence_and_padding_sees_padding():
    number = np.array([[1, 1, 2, 0], [3, 0, 0, 3]])
    found = np.asarray(same_sentence(number, 4))
    for row, query, key in np.ndindex(*found.shape):
        assert found[row, query, key] == (number[row, query] == number[row, key])


def test_a_sentence_number_in_another_block_is_not_seen():
    assert np.asarray(same_sentence(np.array([[1, 2, 2, 1]]), 2)).shape == (2, 2, 2)


def test_positions_see_what_is_of_their_text():
    text = np.array([[1, 1, 2, 2, 0]])
    positions = np.array([[1, 2, 0, 4]])
    mask = np.array([[True, True, False, False]])
    found = np.asarray(same_text(text, positions, mask))
    np.testing.assert_array_equal(
        found[0],
        [
            [True, False, False, False],
            [True, False, False, False],
            [False, True, False, False],
            [False, True, False, False],
            [False, False, False, False],  # padding, which nothing reads
        ],
    )
