"""Packing: nothing lost or too long, as tight as a plain best fit, and shuffled."""

import numpy as np
import pytest

from seg_tf.data import packing

ROW_LENGTH = 64


def rows_of(packs):
    return [
        packs.members[begin:end].tolist()
        for begin, end in zip(packs.offsets[:-1], packs.offsets[1:], strict=True)
    ]


def spaces_of_plain_best_fit(lengths, row_length, max_windows):
    """Best-fit decreasing, one window and one row at a time."""
    rows = []
    for length in sorted(lengths, reverse=True):
        fits = [
            row
            for row in rows
            if row_length - sum(row) >= length and len(row) < max_windows
        ]
        if fits:
            min(fits, key=lambda row: row_length - sum(row)).append(length)
        else:
            rows.append([length])
    return sorted(row_length - sum(row) for row in rows)


LENGTHS = {
    "random": np.random.default_rng(0).integers(3, ROW_LENGTH + 1, 700),
    "mostly long": 64 - np.random.default_rng(1).geometric(0.2, 500).clip(max=61),
    "mostly short": np.random.default_rng(2).geometric(0.1, 500).clip(3, 64),
    "shortest only": np.full(500, 3),
    "all full": np.full(20, 64),
    "half and a bit more": np.array([33] * 9 + [32] * 7 + [31] * 5),
    "one": np.array([7]),
    "none": np.zeros(0, int),
}
all_lengths = pytest.mark.parametrize(
    "lengths", [pytest.param(value, id=name) for name, value in LENGTHS.items()]
)


@all_lengths
@pytest.mark.parametrize("max_windows", [1, 2, 3, 8, 64])
def test_every_window_is_in_one_row_that_holds_it(lengths, max_windows):
    packs = packing.pack(lengths, ROW_LENGTH, max_windows, seed=0)
    rows = rows_of(packs)
    assert len(packs) == len(rows)
    assert sorted(packs.members) == list(range(len(lengths)))
    for row in rows:
        assert 1 <= len(row) <= max_windows
        assert sum(lengths[row]) <= ROW_LENGTH
    if max_windows == 1:
        assert len(rows) == len(lengths)


@all_lengths
def test_spaces_are_those_of_best_fit_one_by_one(lengths):
    # Without a limit: rows with the same space are the same to best fit then.
    packs = packing.pack(lengths, ROW_LENGTH, ROW_LENGTH, seed=0)
    spaces = sorted(ROW_LENGTH - sum(lengths[row]) for row in rows_of(packs))
    assert spaces == spaces_of_plain_best_fit(lengths, ROW_LENGTH, ROW_LENGTH)


@pytest.mark.parametrize("name", ["mostly short", "shortest only"])
def test_a_limit_costs_no_more_rows_than_it_must(name):
    lengths = LENGTHS[name]
    rows = len(packing.pack(lengths, ROW_LENGTH, 4, seed=0))
    assert rows <= len(spaces_of_plain_best_fit(lengths, ROW_LENGTH, 4)) + 1
    assert rows >= len(lengths) / 4


def test_the_seed_alone_decides():
    lengths = LENGTHS["random"]
    first, again, other = (
        rows_of(packing.pack(lengths, ROW_LENGTH, 8, seed=seed)) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other
    assert [sorted(lengths[row]) for row in first] == [
        sorted(lengths[row]) for row in other
    ]


def test_the_packs_are_the_same_in_every_version():
    # A change of these numbers would break the resumption of running jobs.
    packs = packing.pack(np.array([9, 3, 3, 5, 10, 4, 3, 7]), 12, 3, seed=42)
    assert rows_of(packs) == GOLDEN_ROWS


GOLDEN_ROWS = [[7, 3], [0, 2], [5, 1, 6], [4]]


def test_windows_of_one_length_meet_at_random():
    lengths = np.full(4_000, ROW_LENGTH // 2)
    packs = packing.pack(lengths, ROW_LENGTH, 8, seed=0)
    first, second = packs.members.reshape(-1, 2).T
    # Partners of a random pairing are a third of the corpus apart on average.
    distance = np.abs(first - second).mean() / len(lengths)
    assert abs(distance - 1 / 3) < 0.02
    assert abs(np.corrcoef(np.arange(2_000), first)[0, 1]) < 4 / np.sqrt(2_000)


@pytest.mark.parametrize("length", [0, ROW_LENGTH + 1])
def test_windows_that_no_row_can_hold_are_refused(length):
    with pytest.raises(ValueError, match=rf"`row_length`=64.*{length}"):
        packing.pack(np.array([5, length]), ROW_LENGTH, 8, seed=0)
