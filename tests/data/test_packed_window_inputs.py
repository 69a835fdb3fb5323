"""Packed rows: laid out as loops would, complete, and masked window by window."""

import numpy as np
import pytest

from seg_tf.config import build_from
from seg_tf.data.inputs import MaskingConfig, PackedWindowInputsConfig
from tests.data.test_window_inputs import TABLES, VOCAB_SIZE, WINDOW_LENGTH, take
from tests.data_pipelines.builders import (
    SPECIAL_IDS,
    random_tree,
    read_split,
    write_windows,
)
from tests.layouts.test_windows import slow_indices

pytestmark = pytest.mark.slow
MAX_WINDOWS = 4
# Pieces of documents, the extremes among them: one piece, a full window, one more.
EXTREMES = [1, 1, 1, 1, 1, 1, 2, 29, 30, 30, 31, 60]


def write(folder, lengths, seed=0):
    """Windows of documents with these many pieces; every other one in its shard."""
    generator = np.random.default_rng(seed)

    def tree(length):
        while True:
            found = random_tree(generator, length, VOCAB_SIZE)
            if len(found.token_ids) == length:
                return found

    documents = [tree(length) for length in lengths]
    write_windows(
        folder,
        {"train": [documents[::2], [], documents[1::2]], "validation": [documents[:9]]},
        window_length=WINDOW_LENGTH,
        vocab_size=VOCAB_SIZE,
    )
    return folder


@pytest.fixture(scope="module")
def records_dir(tmp_path_factory):
    generator = np.random.default_rng(1)
    lengths = [*EXTREMES, *generator.integers(1, 50, 40), *generator.integers(1, 9, 30)]
    return write(tmp_path_factory.mktemp("records"), lengths)


def build(records_dir, seed=0, tables=TABLES, max_windows=MAX_WINDOWS, **masking):
    config = PackedWindowInputsConfig(
        window_length=WINDOW_LENGTH,
        masking=MaskingConfig(max_predictions=6, **masking),
        max_windows_per_row=max_windows,
    )
    return build_from(config, records_dir=records_dir, index_tables=tables, seed=seed)


def epoch(inputs, number=0, batch_size=5):
    """All rows of an epoch."""
    size = inputs.num_train_samples
    dataset = inputs.train_dataset(batch_size, first_sample=number * size)
    return take(dataset, size)


def split_rows(rows):
    """Every window of packed rows, in a row of its own, by loops."""
    found = []
    for row in range(len(rows["token_ids"])):
        for number in range(1, rows["window_number"][row].max() + 1):
            (positions,) = np.nonzero(rows["window_number"][row] == number)
            first, last = positions[0], positions[-1]
            assert positions.tolist() == list(range(first, last + 1))
            window = {
                name: values[row, first : last + 1]
                for name, values in rows.items()
                if values.ndim == 2 and values.shape[1] == WINDOW_LENGTH
            }
            predicted = rows["masked_weights"][row] == 1
            predicted &= rows["masked_positions"][row] >= first
            predicted &= rows["masked_positions"][row] <= last
            window["masked_positions"] = (
                rows["masked_positions"][row][predicted] - first
            )
            window["masked_ids"] = rows["masked_ids"][row][predicted]
            found.append(window)
    return found


def original_pieces(window):
    token_ids = window["token_ids"].copy()
    token_ids[window["masked_positions"]] = window["masked_ids"]
    return tuple(token_ids.tolist())


def by_pieces(windows):
    """`{pieces: windows that have them}`: windows of one piece may be alike."""
    found = {}
    for window in windows:
        found.setdefault(original_pieces(window), []).append(window)
    return found


def test_an_epoch_is_every_window_once_with_its_indices(records_dir):
    inputs = build(records_dir)
    windows = split_rows(epoch(inputs))
    trees = read_split(records_dir, "train")
    expected = []
    for tree in trees:
        pieces = tree.token_ids.tolist()
        index = slow_indices(tree, len(pieces) + 2, TABLES)
        expected.append(
            (
                (SPECIAL_IDS["cls"], *pieces, SPECIAL_IDS["sep"]),
                *(tuple(index[name].tolist()) for name in TABLES),
            )
        )
    found = [
        (original_pieces(window), *(tuple(window[name].tolist()) for name in TABLES))
        for window in windows
    ]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("number", [0, 2])
def test_masks_of_a_window_do_not_depend_on_its_neighbours(records_dir, number):
    packed = by_pieces(split_rows(epoch(build(records_dir), number)))
    alone = by_pieces(split_rows(epoch(build(records_dir, max_windows=1), number)))
    assert packed.keys() == alone.keys()
    compared = 0
    for pieces, windows in packed.items():
        if len(windows) > 1:
            continue  # alike: which is which cannot be told
        (window,), (expected,) = windows, alone[pieces]
        assert window.keys() == expected.keys()
        for name in window.keys() - {"window_number"}:
            np.testing.assert_array_equal(window[name], expected[name], err_msg=name)
        compared += 1
    assert compared > 40
