import numpy as np
import pytest

from seg_tf.layouts.block_placing import (
    place_in_blocks,
    place_in_fewest_blocks,
    split_long,
)


def test_long_sentences_are_cut_into_even_parts():
    lengths, part = split_long(np.array([3, 10, 4, 0, 5]), 4)
    assert lengths.tolist() == [3, 4, 3, 3, 4, 0, 3, 2]
    assert part.tolist() == [0, 0, 1, 2, 0, 0, 0, 1]


@pytest.mark.parametrize("longest", [1, 7, 45, 500])
def test_no_piece_is_lost_by_cutting(longest):
    whole = np.random.default_rng(0).integers(1, 300, 200)
    lengths, part = split_long(whole, longest)
    assert lengths.max() <= longest
    assert lengths.min() >= 1
    sentence = np.cumsum(part == 0) - 1
    assert np.bincount(sentence, weights=lengths).tolist() == whole.tolist()
    for number in range(len(whole)):
        own = lengths[sentence == number]
        assert len(own) == -(-whole[number] // longest)
        assert own.max() - own.min() <= 1


def slow_starts(lengths, num_blocks, block_length):
    """First-fit decreasing, one sentence and one block at a time; None if it fails."""
    used, starts = [0] * num_blocks, {}
    order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    for number in order:
        for block in range(num_blocks):
            if used[block] + lengths[number] <= block_length:
                starts[number] = block * block_length + used[block]
                used[block] += int(lengths[number])
                break
        else:
            return None
    return [starts[number] for number in range(len(lengths))]


def test_sentences_go_where_first_fit_decreasing_puts_them():
    generator = np.random.default_rng(1)
    lengths = generator.integers(3, 33, (200, 12))
    lengths[generator.random(lengths.shape) < 0.2] = 0
    starts, succeeded = place_in_blocks(lengths, 6, 32)
    assert 20 < succeeded.sum() < 180  # both ways are tried
    for row, found, ok in zip(lengths, starts, succeeded, strict=True):
        expected = slow_starts(row[row > 0].tolist(), 6, 32)
        assert ok == (expected is not None)
        if ok:
            assert found[row > 0].tolist() == expected
            assert (found[row == 0] == 0).all()


def test_sentences_lie_in_one_block_each_and_not_on_one_another():
    lengths = np.random.default_rng(2).integers(4, 49, (50, 40))
    starts, succeeded = place_in_blocks(lengths, 12, 128)
    assert succeeded.any()
    ends = starts + lengths
    assert (starts // 128 == (ends - 1) // 128)[succeeded].all()
    for row in np.flatnonzero(succeeded):
        taken = np.zeros(12 * 128, int)
        for start, end in zip(starts[row], ends[row], strict=True):
            taken[start:end] += 1
        assert taken.max() == 1


@pytest.mark.parametrize("length", [17, 16, 11, 9])
def test_rows_that_are_half_full_always_succeed(length):
    """Also where sentences are just too long for two, or three, to share a block."""
    count = 8 * 32 // 2 // length
    lengths = np.full((1, count), length)
    assert place_in_blocks(lengths, 8, 32)[1].all()
    # Of the worst kind no more would go in.
    assert not place_in_blocks(np.full((1, 9), 17), 8, 32)[1].any()


def test_rows_without_sentences_succeed():
    starts, succeeded = place_in_blocks(np.zeros((2, 3), int), 2, 8)
    assert not starts.any()
    assert succeeded.all()


@pytest.mark.parametrize("seed", range(5))
def test_fewest_blocks_are_those_that_the_placing_needs(seed):
    lengths = np.random.default_rng(seed).integers(3, 17, 1 + 6 * seed)
    starts, num_blocks = place_in_fewest_blocks(lengths, 16)
    (expected,), (succeeded,) = place_in_blocks(lengths[np.newaxis], num_blocks, 16)
    assert succeeded
    assert starts.tolist() == expected.tolist()
    if num_blocks > 1:
        assert not place_in_blocks(lengths[np.newaxis], num_blocks - 1, 16)[1].any()
    (more,), _ = place_in_blocks(lengths[np.newaxis], num_blocks + 3, 16)
    assert more.tolist() == starts.tolist()
