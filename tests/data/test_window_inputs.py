"""The input pipeline: exact rows, and the order-of-samples property."""

import itertools

import numpy as np
import pytest

from seg_tf.config import build_from
from seg_tf.data.inputs import MaskingConfig, WindowInputsConfig
from seg_tf.data.manifest import Manifest
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


def write(folder, cut_sentences=False):
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
    config = WindowInputsConfig(
        window_length=overrides.pop("window_length", WINDOW_LENGTH),
        masking=MaskingConfig(max_predictions=max_predictions),
    )
    return build_from(
        config, records_dir=records_dir, index_tables=tables, seed=seed, **overrides
    )


def joined(parts):
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def take(dataset, count):
    """The first `count` rows of a dataset, as one dict of arrays."""
    parts = []
    rows = 0
    for batch in dataset:
        parts.append({name: value.numpy() for name, value in batch.items()})
        rows += len(parts[-1]["token_ids"])
        if rows >= count:
            break
    return {name: values[:count] for name, values in joined(parts).items()}


def take_by_ranks(inputs, batch_size, num_ranks, num_batches):
    """The rows of the first batches, put together from what each rank reads."""
    datasets = [
        inputs.train_dataset(batch_size, rank=rank, num_ranks=num_ranks)
        for rank in range(num_ranks)
    ]
    parts = []
    for batches in itertools.islice(zip(*datasets, strict=True), num_batches):
        parts.extend({k: v.numpy() for k, v in batch.items()} for batch in batches)
    return joined(parts)


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


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"window_length": 64}, "window_length=32.*inputs.window_length=64"),
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
