"""The input pipeline: exact rows, and the order-of-samples property."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from seg_tf import configuration, features
from seg_tf.data import sample_order
from seg_tf.data.manifest import Manifest
from seg_tf.data.window_inputs import WindowInputs
from seg_tf.text.normalization import UNCASED
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
TABLES = {
    "position_index": 32,
    "paragraph_index": 3,
    "sentence_index": 4,
    "token_index": 16,
}


def write(folder, cut_sentences):
    generator = np.random.default_rng(0)

    def documents(count):
        return [random_tree(generator, 90, VOCAB_SIZE) for _ in range(count)]

    write_windows(
        folder,
        {"train": [documents(9), documents(4), []], "validation": [documents(5)]},
        window_length=WINDOW_LENGTH,
        vocab_size=VOCAB_SIZE,
        cut_sentences=cut_sentences,
    )
    return folder


@pytest.fixture(scope="module")
def records_dir(tmp_path_factory):
    return write(tmp_path_factory.mktemp("records"), cut_sentences=False)


def build(records_dir, seed=0, tables=TABLES, max_predictions=6, **overrides):
    config = configuration.WindowInputsConfig(
        window_length=overrides.pop("window_length", WINDOW_LENGTH),
        masking=configuration.MaskingConfig(max_predictions=max_predictions),
    )
    return configuration.build(
        config, records_dir=records_dir, index_tables=tables, seed=seed, **overrides
    )


def take(dataset, count):
    """The first `count` rows of a dataset, as one dict of arrays."""
    parts = []
    rows = 0
    for batch in dataset:
        parts.append({name: value.numpy() for name, value in batch.items()})
        rows += len(parts[-1]["token_ids"])
        if rows >= count:
            break
    return {
        name: np.concatenate([part[name] for part in parts])[:count]
        for name in parts[0]
    }


def take_by_ranks(inputs, batch_size, num_ranks, num_batches):
    """The rows of the first batches, put together from what each rank reads."""
    datasets = [
        inputs.train_dataset(batch_size, rank=rank, num_ranks=num_ranks)
        for rank in range(num_ranks)
    ]
    parts = []
    for batches in itertools.islice(zip(*datasets, strict=True), num_batches):
        parts.extend({k: v.numpy() for k, v in batch.items()} for batch in batches)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def assert_same_rows(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def unmasked(rows):
    """The rows with the predicted pieces put back."""
    token_ids = rows["token_ids"].copy()
    for row, positions, ids, weights in zip(
        token_ids,
        rows["masked_positions"],
        rows["masked_ids"],
        rows["masked_weights"],
        strict=True,
    ):
        row[positions[weights == 1]] = ids[weights == 1]
    return token_ids


def test_features_keep_the_contract(records_dir):
    inputs = build(records_dir)
    batch = next(iter(inputs.train_dataset(4)))
    sizes = {"B": 4, "L": WINDOW_LENGTH, "P": 6}
    specs = features.tensor_specs(inputs.feature_names, sizes)
    assert batch.keys() == specs.keys()
    for name, (shape, dtype) in specs.items():
        assert batch[name].shape == shape, name
        assert batch[name].dtype == dtype, name


@pytest.mark.parametrize("cut_sentences", [False, True])
def test_an_epoch_is_every_window_once_with_its_indices(tmp_path, cut_sentences):
    records_dir = write(tmp_path, cut_sentences)
    inputs = build(records_dir)
    windows = read_split(records_dir, "train")
    # A window that continues inside a sentence is there either way.
    assert any(tree.first_index[2] > 0 for tree in windows)
    assert inputs.num_train_samples == len(windows)
    rows = take(inputs.train_dataset(5), len(windows))
    found = {tuple(row): number for number, row in enumerate(unmasked(rows))}
    assert len(found) == len(windows)
    for tree in windows:
        expected = np.zeros(WINDOW_LENGTH, int)
        pieces = len(tree.token_ids)
        expected[0], expected[pieces + 1] = SPECIAL_IDS["cls"], SPECIAL_IDS["sep"]
        expected[1 : pieces + 1] = tree.token_ids
        number = found[tuple(expected)]
        assert rows["padding_mask"][number].sum() == pieces + 2
        for name, values in slow_indices(tree, WINDOW_LENGTH, TABLES).items():
            values[pieces + 2 :] = 0
            np.testing.assert_array_equal(rows[name][number], values, err_msg=name)


def test_epochs_differ_in_order_and_masks_but_not_in_content(records_dir):
    inputs = build(records_dir)
    size = inputs.num_train_samples
    rows = take(inputs.train_dataset(7), 2 * size)
    plain = unmasked(rows)
    assert not np.array_equal(plain[:size], plain[size:])
    assert sorted(map(tuple, plain[:size])) == sorted(map(tuple, plain[size:]))
    masks = {}
    for row, positions in zip(plain, rows["masked_positions"], strict=True):
        masks.setdefault(tuple(row), set()).add(tuple(positions))
    assert sum(len(found) == 2 for found in masks.values()) > 0.8 * size


def test_a_sample_does_not_depend_on_batch_size_or_resumption(records_dir):
    inputs = build(records_dir)
    count = 3 * inputs.num_train_samples
    expected = take(inputs.train_dataset(1), count)
    assert expected["sample_number"].tolist() == list(range(count))
    assert_same_rows(take(inputs.train_dataset(13), count), expected)
    for first in (1, 17, inputs.num_train_samples, count - 1):
        resumed = take(inputs.train_dataset(4, first_sample=first), count - first)
        assert_same_rows(resumed, {k: v[first:] for k, v in expected.items()})


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
def test_ranks_share_the_global_batch(records_dir, num_ranks):
    inputs = build(records_dir)
    expected = take(inputs.train_dataset(6), 60)
    assert_same_rows(take_by_ranks(inputs, 6, num_ranks, 10), expected)


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
@pytest.mark.parametrize("micro_batch_size", [None, 2])
def test_ranks_have_an_epoch_together_and_no_sample_twice(
    records_dir, num_ranks, micro_batch_size
):
    inputs = build(records_dir)
    size = inputs.num_train_samples
    assert size % 12  # the epoch ends inside a batch
    samples, rows_of_ranks = [], []
    for rank in range(num_ranks):
        dataset = inputs.train_dataset(
            12, rank=rank, num_ranks=num_ranks, micro_batch_size=micro_batch_size
        )
        rows = take(dataset.take(-(-size // 12)), 10**9)
        in_epoch = rows["sample_number"] < size
        samples += rows["sample_number"][in_epoch].tolist()
        rows_of_ranks += map(tuple, unmasked(rows)[in_epoch])
    assert sorted(samples) == list(range(size))
    everything = take(build(records_dir).train_dataset(size), size)
    assert sorted(rows_of_ranks) == sorted(map(tuple, unmasked(everything)))


def test_another_seed_is_another_run(records_dir):
    first = take(build(records_dir, seed=0).train_dataset(8), 24)
    second = take(build(records_dir, seed=1).train_dataset(8), 24)
    assert not np.array_equal(unmasked(first), unmasked(second))
    assert not np.array_equal(first["masked_positions"], second["masked_positions"])


def test_validation_is_complete_and_the_same_each_time(records_dir):
    inputs = build(records_dir)
    size = inputs.num_validation_samples
    first = take(inputs.validation_dataset(4), 10**6)
    assert len(first["token_ids"]) == size
    assert len(set(map(tuple, unmasked(first)))) == size
    assert_same_rows(take(inputs.validation_dataset(3), 10**6), first)
    limited = take(inputs.validation_dataset(4, max_samples=6), 10**6)
    assert_same_rows(limited, {k: v[:6] for k, v in first.items()})


def test_ranks_share_validation_with_equally_many_batches(records_dir):
    inputs = build(records_dir)
    first = take(inputs.validation_dataset(4), 10**6)
    ranks = [
        [
            batch["sample_number"].numpy()
            for batch in inputs.validation_dataset(4, rank=rank, num_ranks=2)
        ]
        for rank in range(2)
    ]
    assert len(ranks[0]) == len(ranks[1])
    together = np.concatenate([*ranks[0], *ranks[1]])
    assert sorted(together) == sorted(first["sample_number"])


def test_a_rank_may_have_nothing_left_to_validate(records_dir):
    inputs = build(records_dir)
    size = inputs.num_validation_samples
    batches = [
        next(iter(inputs.validation_dataset(2 * size, rank=rank, num_ranks=2)))
        for rank in range(2)
    ]
    assert [len(batch["token_ids"]) for batch in batches] == [size, 0]


def test_only_the_named_tables_are_made(records_dir):
    inputs = build(records_dir, tables={"position_index": 32})
    batch = next(iter(inputs.train_dataset(2)))
    assert "paragraph_index" not in batch
    np.testing.assert_array_equal(batch["position_index"][0][:4], [0, 1, 2, 3])


@pytest.mark.parametrize("num_records", [1, 2, 3, 100, 1000])
def test_each_epoch_is_a_permutation(num_records):
    samples = tf.range(3 * num_records, dtype=tf.int64)
    epochs, records = sample_order.epochs_and_records(samples, num_records, seed=5)
    np.testing.assert_array_equal(epochs, np.repeat([0, 1, 2], num_records))
    orders = records.numpy().reshape(3, num_records)
    for order in orders:
        assert sorted(order) == list(range(num_records))
    if num_records >= 100:
        assert not np.array_equal(orders[0], orders[1])
        # Far from the stored order: a permutation drawn at random keeps one record
        # in its place on average.
        assert (orders[0] == np.arange(num_records)).sum() < 8
        correlation = np.corrcoef(orders[0], np.arange(num_records))[0, 1]
        assert abs(correlation) < 4 / np.sqrt(num_records)


# TensorFlow's shuffle takes one bit too few for 4^8 + 1, 4^9 + 1, ….
@pytest.mark.parametrize(
    "num_records",
    [
        *(n for k in range(1, 8) for n in (4**k, 4**k + 1, 2 * 4**k + 1)),
        *(65_535, 65_536, 65_537, 65_538, 131_073, 262_144, 262_145, 262_146),
        1_048_577,
    ],
)
def test_every_record_is_read_once_an_epoch(num_records):
    num_epochs = 3
    samples = tf.range(num_epochs * num_records, dtype=tf.int64)
    orders = []
    for seed in (0, 5, 2**31) if num_records < 10**6 else (5,):
        epochs, records = sample_order.epochs_and_records(samples, num_records, seed)
        counts = np.bincount(epochs * num_records + records)
        assert len(counts) == len(samples)
        assert (counts == 1).all(), f"never read: {np.flatnonzero(counts == 0)[:9]}"
        orders += [*records.numpy().reshape(num_epochs, num_records)[:2]]
    for one, other in itertools.pairwise(orders) if num_records > 1000 else ():
        # Two permutations drawn at random agree in one place on average.
        assert (one == other).sum() < 9


@pytest.mark.parametrize("num_records", [1, 5, 6, 7, 23, 24, 25, 1000])
@pytest.mark.parametrize("size, at_once", [(1, 1), (3, 2), (6, 4), (7, 300), (2000, 2)])
def test_an_order_by_blocks_is_a_permutation_that_stays_close(
    num_records, size, at_once
):
    blocks = sample_order.Blocks(size, at_once)
    samples = tf.range(3 * num_records, dtype=tf.int64)
    _, records = sample_order.epochs_and_records(samples, num_records, 5, blocks)
    orders = records.numpy().reshape(3, num_records)
    for order in orders:
        assert sorted(order) == list(range(num_records))
        for begin in range(0, num_records, size * at_once):
            group = order[begin : begin + size * at_once]
            # What is left over after the last whole block is one, too.
            assert len(set(group // size)) <= at_once
    if num_records == 1000 and size * at_once < num_records:
        assert not np.array_equal(orders[0], orders[1])
        firsts = orders[:, : size * at_once] // size
        assert set(firsts[0]) != set(firsts[1])


def test_blocks_and_places_in_a_group_are_drawn_apart():
    blocks = sample_order.Blocks(50, 4)
    samples = tf.range(1000, dtype=tf.int64)
    _, records = sample_order.epochs_and_records(samples, 1000, 5, blocks)
    order = records.numpy()
    assert abs(np.corrcoef(order, np.arange(1000))[0, 1]) < 0.6
    for begin in range(0, 1000, 200):
        for part in np.split(order[begin : begin + 200] // 50, 4):
            assert len(set(part)) == 4  # Each quarter has records of all four blocks.
    for seed in range(3):
        _, other = sample_order.epochs_and_records(samples, 1000, seed, blocks)
        assert not np.array_equal(order, other)


# A change of these numbers would break the resumption of running jobs.
@pytest.mark.parametrize(
    ("first_sample", "num_records", "seed", "expected"),
    [
        (0, 1_000, 42, [181, 121, 597, 524, 531, 789]),
        (4, 2, 7, [0, 1, 0, 1, 1, 0]),
        (20, 10, 7, [0, 8, 5, 9, 7, 1]),
        (131_072, 65_536, 7, [14268, 17730, 61762, 48044, 31387, 2099]),
        (131_076, 65_538, 7, [63172, 42560, 19719, 15107, 57064, 23541]),
        (524_288, 262_144, 7, [252771, 200203, 192630, 140670, 57064, 23541]),
        (2_097_156, 1_048_578, 7, [897562, 963463, 764749, 228830, 491318, 998873]),
    ],
)
def test_the_order_is_the_same_in_every_version(
    first_sample, num_records, seed, expected
):
    samples = first_sample + tf.range(6, dtype=tf.int64)
    _, records = sample_order.epochs_and_records(samples, num_records, seed)
    assert records.numpy().tolist() == expected


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"window_length": 64},
            "window_length=32.*inputs.window_length=64.*--documents",
        ),
        ({"vocab_size": 30_522}, "vocabulary of 500 pieces.*model.vocab_size=30522"),
        ({"tables": {"colour_index": 5}}, "'colour_index'"),
    ],
)
def test_records_that_do_not_fit_are_refused(records_dir, overrides, message):
    with pytest.raises(ValueError, match=message):
        build(records_dir, **overrides)


def test_a_missing_manifest_or_shard_is_named(records_dir, tmp_path):
    with pytest.raises(ValueError, match="there is no manifest"):
        build(tmp_path)
    manifest = Manifest.load(records_dir)
    manifest.save(tmp_path)
    with pytest.raises(
        ValueError, match=r"train-00000\.tfrecord: the shard is missing"
    ):
        build(tmp_path).train_dataset(2)


def test_a_damaged_record_stops_the_run_and_is_named(records_dir, tmp_path):
    for path in records_dir.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    shard = tmp_path / "train-00001.tfrecord"
    damaged = bytearray(shard.read_bytes())
    damaged[30] ^= 4
    shard.write_bytes(damaged)
    inputs = build(tmp_path)
    with pytest.raises(tf.errors.OpError, match=r"train-00001\.tfrecord: record 0 "):
        take(inputs.train_dataset(4), inputs.num_train_samples)


def test_batches_that_ranks_cannot_share_are_refused(records_dir):
    with pytest.raises(ValueError, match="multiple of `num_ranks`"):
        build(records_dir).train_dataset(8, rank=0, num_ranks=3)


def test_inputs_are_built_from_the_default_config():
    config = configuration.WindowInputsConfig()
    module, _, name = config.implementation.partition(":")
    assert (module, name) == (WindowInputs.__module__, WindowInputs.__name__)


def test_vocabulary_travels_with_the_inputs_and_must_be_the_records_own(tmp_path):
    manifest = write_windows(
        tmp_path,
        {"train": [[random_tree(np.random.default_rng(0), 90, VOCAB_SIZE)]]},
        window_length=WINDOW_LENGTH,
        vocab_size=VOCAB_SIZE,
    )
    path = tmp_path / "vocab.txt"
    preparation = build(tmp_path).text_preparation
    assert preparation.vocabulary == path.read_bytes()
    assert preparation.normalization == UNCASED
    assert preparation.sentence_splitter == manifest.sentence_splitter
    path.write_text("another\n")
    with pytest.raises(ValueError, match=r"vocab\.txt: not the vocabulary"):
        build(tmp_path)
    path.unlink()
    assert build(tmp_path).text_preparation is None
