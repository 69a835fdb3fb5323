"""Packing: nothing lost, tight, and shuffled."""

import collections

import numpy as np
import pytest

from seg_tf.data import packing
from tests.data import test_packed_window_inputs as windows
from tests.data import test_reat_inputs as texts
from tests.data.test_window_inputs import take

pytestmark = pytest.mark.slow
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


def test_the_packs_are_the_same_in_every_version():
    # A change of these numbers would break the resumption of running jobs.
    packs = packing.pack(np.array([9, 3, 3, 5, 10, 4, 3, 7]), 12, 3, seed=42)
    assert rows_of(packs) == [[7, 3], [0, 2], [5, 1, 6], [4]]


def pieces_of_windows(rows):
    """How often each window, with its masks, is in the rows."""
    return collections.Counter(
        (windows.original_pieces(window), *window["masked_positions"].tolist())
        for window in windows.split_rows(rows)
    )


def sentences_of_texts(rows):
    """How often each sentence of a text is in the rows."""
    return collections.Counter(
        tuple(sentence) for _, _, text in texts.texts_of(rows) for _, sentence in text
    )


def write_windows(folder):
    lengths = [*windows.EXTREMES, *np.random.default_rng(4).integers(1, 50, 40)]
    return windows.write(folder, lengths)


@pytest.mark.parametrize(
    ("write", "build", "content"),
    [
        (write_windows, windows.build, pieces_of_windows),
        (texts.write, texts.build, sentences_of_texts),
    ],
    ids=["windows", "texts"],
)
def test_groups_of_shards_lose_nothing(write, build, content, tmp_path, monkeypatch):
    records_dir = write(tmp_path)
    # Long texts are drawn from all of them.
    arguments = {"long_rate": 0.0} if content is sentences_of_texts else {}

    def read():
        inputs = build(records_dir, **arguments)
        rows = take(inputs.train_dataset(4), inputs.num_train_samples)
        assert inputs.fill == pytest.approx(rows["padding_mask"].mean())
        return rows

    at_once = read()
    monkeypatch.setattr(packing, "_GROUP_SIZE", 1)
    rows = read()
    assert content(rows) == content(at_once)
    assert rows["token_ids"].shape != at_once["token_ids"].shape  # fewer fill a row
