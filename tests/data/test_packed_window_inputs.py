"""Packed rows: laid out as loops would, complete, and masked window by window."""

import numpy as np
import pytest
import tensorflow as tf

from seg_tf import features
from seg_tf.config import build_from
from seg_tf.data import packed_window_inputs, record_schema
from seg_tf.data.inputs import MaskingConfig, PackedWindowInputsConfig
from tests.data.test_window_inputs import (
    assert_same_rows,
    take,
    take_by_ranks,
    unmasked,
)
from tests.data_pipelines.builders import (
    SPECIAL_IDS,
    random_tree,
    read_split,
    write_windows,
)
from tests.layouts.test_windows import slow_indices

pytestmark = pytest.mark.slow

WINDOW_LENGTH = 32
VOCAB_SIZE = 500
MAX_WINDOWS = 4
TABLES = {
    "position_index": 32,
    "paragraph_index": 3,
    "sentence_index": 4,
    "token_index": 16,
}
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


def test_features_keep_the_contract(records_dir):
    inputs = build(records_dir)
    batch = next(iter(inputs.train_dataset(4)))
    predictions = batch["masked_ids"].shape[1]
    sizes = {"B": 4, "L": WINDOW_LENGTH, "P": predictions}
    specs = features.tensor_specs(inputs.feature_names, sizes)
    assert batch.keys() == specs.keys()
    assert "window_number" in specs
    for name, (shape, dtype) in specs.items():
        assert batch[name].shape == shape, name
        assert batch[name].dtype == dtype, name


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


def test_rows_are_windows_one_behind_the_other_then_padding(records_dir):
    rows = epoch(build(records_dir))
    assert rows["window_number"].max() > 2
    plain = unmasked(rows)
    for row in range(len(plain)):
        number, mask = rows["window_number"][row], rows["padding_mask"][row]
        assert (np.diff(number[mask]) >= 0).all()
        assert set(number[mask]) == set(range(1, number.max() + 1))
        assert number.max() <= MAX_WINDOWS
        end = mask.sum()
        assert mask[:end].all()
        for name in ("token_ids", "window_number", *TABLES):
            assert not rows[name][row, end:].any(), name  # [PAD] is 0 too
        begins = np.flatnonzero(plain[row] == SPECIAL_IDS["cls"])
        np.testing.assert_array_equal(number[begins], 1 + np.arange(len(begins)))
        chosen = rows["masked_weights"][row] == 1
        positions = rows["masked_positions"][row]
        assert (np.diff(positions[chosen]) > 0).all()
        assert not positions[~chosen].any()
        assert not rows["masked_ids"][row][~chosen].any()
        assert chosen[: chosen.sum()].all()


def test_counts_and_fill_are_those_of_the_batches(records_dir):
    inputs = build(records_dir)
    rows = epoch(inputs)
    num_windows = len(read_split(records_dir, "train"))
    assert inputs.num_train_samples < num_windows
    assert inputs.fill == pytest.approx(rows["padding_mask"].mean())
    assert inputs.parts_per_row == num_windows / inputs.num_train_samples
    assert inputs.parts_per_row == rows["window_number"].max(axis=1).mean()


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


def test_every_window_has_the_predictions_of_a_row_of_its_own(records_dir):
    for window in split_rows(epoch(build(records_dir))):
        pieces = len(window["token_ids"]) - 2
        expected = min(max(1, round(0.15 * pieces)), 6)
        assert len(window["masked_ids"]) == expected


def test_epochs_differ_in_order_and_masks_but_not_in_content(records_dir):
    inputs = build(records_dir)
    first, second = (split_rows(epoch(inputs, number)) for number in (0, 1))
    assert [*map(original_pieces, first)] != [*map(original_pieces, second)]
    assert sorted(map(original_pieces, first)) == sorted(map(original_pieces, second))
    first, second = by_pieces(first), by_pieces(second)
    long = [pieces for pieces in first if len(pieces) > 20]
    same = [
        np.array_equal(
            first[pieces][0]["masked_positions"], second[pieces][0]["masked_positions"]
        )
        for pieces in long
    ]
    assert sum(same) < 0.2 * len(long)


def test_a_sample_does_not_depend_on_batch_size_or_resumption(records_dir):
    inputs = build(records_dir)
    count = 2 * inputs.num_train_samples
    expected = take(inputs.train_dataset(1), count)
    assert expected["sample_number"].tolist() == list(range(count))
    assert_same_rows(take(inputs.train_dataset(13), count), expected)
    for first in (1, inputs.num_train_samples, count - 1):
        resumed = take(inputs.train_dataset(4, first_sample=first), count - first)
        assert_same_rows(resumed, {k: v[first:] for k, v in expected.items()})


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_ranks_share_the_global_batch(records_dir, num_ranks):
    inputs = build(records_dir)
    expected = take(inputs.train_dataset(6), 30)
    assert_same_rows(take_by_ranks(inputs, 6, num_ranks, 5), expected)


def test_ranks_share_validation_even_where_one_has_nothing_left(records_dir):
    inputs = build(records_dir)
    size = inputs.num_validation_samples
    first = take(inputs.validation_dataset(4), 10**6)
    assert len(first["token_ids"]) == size
    windows = sorted(map(original_pieces, split_rows(first)))
    assert len(windows) == len(read_split(records_dir, "validation"))
    for rows_of_rank, expected in ((size - 1, [size - 1, 1]), (size, [size, 0])):
        batches = [
            next(iter(inputs.validation_dataset(2 * rows_of_rank, None, rank, 2)))
            for rank in range(2)
        ]
        assert [len(batch["token_ids"]) for batch in batches] == expected
        together = {
            name: np.concatenate([batch[name] for batch in batches]) for name in first
        }
        assert_same_rows(together, first)


@pytest.mark.parametrize(
    "lengths",
    [
        pytest.param([1] * 30, id="shortest"),
        pytest.param([30] * 9, id="full"),
        pytest.param([30, 1] * 9, id="full and shortest"),
    ],
)
def test_extremes_are_packed_without_loss(tmp_path, lengths):
    inputs = build(write(tmp_path, lengths), max_windows=16)
    rows = epoch(inputs, batch_size=3)
    found = sorted(len(window["token_ids"]) - 2 for window in split_rows(rows))
    assert found == sorted(lengths)


def test_there_is_room_for_the_predictions_of_every_row_and_no_more(records_dir):
    rows = epoch(build(records_dir, mask_rate=0.5))
    predictions = rows["masked_weights"].sum(axis=1)
    assert predictions.max() == rows["masked_weights"].shape[1]
    assert predictions.max() > 6  # more than a window may have


def test_windows_that_do_not_fit_their_row_stop_the_run(records_dir, tmp_path):
    for path in records_dir.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    # Lengths of the same sum that are not those of the records.
    path = tmp_path / "train-00000.tfrecord"
    lengths = record_schema.WINDOWS.read_shard(path)
    assert len(set(lengths)) > 5
    record_schema.WINDOWS.write(path, lengths[::-1])
    inputs = build(tmp_path)
    with pytest.raises(tf.errors.InvalidArgumentError, match="check_records"):
        epoch(inputs)


def test_missing_lengths_say_what_to_do(records_dir, tmp_path):
    for path in records_dir.iterdir():
        if path.suffix != ".lengths":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match=r"missing.*build_windows"):
        build(tmp_path).train_dataset(2)


def test_joined_windows_are_those_of_plain_loops():
    generator = np.random.default_rng(0)
    row_length, num_predictions, pad_id = 20, 12, 7
    sizes = [3, 1, 2, 0, 1]
    lengths = [6, 3, 11, 20, 9, 9, 4]
    count = len(lengths)
    is_token = np.arange(row_length) < np.array(lengths)[:, None]
    weights = np.zeros((count, 5), np.float32)
    for row in weights:
        row[: generator.integers(0, 5)] = 1
    windows = {
        "token_ids": np.where(is_token, generator.integers(10, 99, is_token.shape), 7),
        "padding_mask": is_token,
        "position_index": np.where(is_token, np.arange(row_length), 0),
        "masked_positions": np.cumsum(weights, axis=1) * weights,
        "masked_ids": generator.integers(10, 99, weights.shape) * weights,
        "masked_weights": weights,
    }
    windows = {
        name: values.astype(features.FEATURES[name].dtype)
        for name, values in windows.items()
    }
    expected = {
        name: np.zeros(
            (
                len(sizes),
                row_length if spec.shape[1] == "L" else num_predictions,
            ),
            spec.dtype,
        )
        for name, spec in features.FEATURES.items()
        if name in windows or name == "window_number"
    }
    expected["token_ids"][:] = pad_id
    window = 0
    for row, size in enumerate(sizes):
        at = predictions = 0
        for number in range(1, size + 1):
            for position in range(lengths[window]):
                for name in ("token_ids", "padding_mask", "position_index"):
                    expected[name][row, at + position] = windows[name][window, position]
                expected["window_number"][row, at + position] = number
            for slot in range(5):
                if windows["masked_weights"][window, slot]:
                    for name in ("masked_ids", "masked_weights", "masked_positions"):
                        value = windows[name][window, slot]
                        offset = at if name == "masked_positions" else 0
                        expected[name][row, predictions] = value + offset
                    predictions += 1
            at += lengths[window]
            window += 1

    joined = tf.function(packed_window_inputs.join_windows)(
        {name: tf.constant(values) for name, values in windows.items()},
        tf.constant(sizes, tf.int64),
        row_length=row_length,
        max_predictions=num_predictions,
        pad_id=pad_id,
    )
    assert_same_rows(
        {name: values.numpy() for name, values in joined.items()}, expected
    )


def test_only_the_named_tables_are_made(records_dir):
    inputs = build(records_dir, tables={"position_index": 32})
    rows = epoch(inputs)
    assert "paragraph_index" not in rows
    second = rows["window_number"] == 2
    begins = rows["position_index"][second & (rows["position_index"] == 0)]
    assert len(begins) == (rows["window_number"].max(axis=1) > 1).sum()
