"""Lengths beside the shards: those of the records, and checked against the manifest."""

import itertools

import numpy as np
import pytest

from seg_tf.data import record_schema
from seg_tf.data.record_schema import SENTENCES, WINDOWS
from tests.data_pipelines.builders import random_tree, read_split, write_windows

KINDS = pytest.mark.parametrize("kind", [WINDOWS, SENTENCES])


@pytest.fixture
def built(tmp_path):
    generator = np.random.default_rng(0)

    def documents(count):
        return [random_tree(generator, 90, 500) for _ in range(count)]

    manifest = write_windows(
        tmp_path,
        {"train": [documents(5), [], documents(3)], "validation": []},
        window_length=32,
        vocab_size=500,
    )
    return manifest, tmp_path


def test_lengths_are_those_of_the_records_in_their_order(built):
    manifest, folder = built
    trees = read_split(folder, "train")
    expected = [len(tree.token_ids) for tree in trees]
    assert WINDOWS.read(manifest.splits["train"], folder).tolist() == expected
    expected = [tree.sentence_lengths.tolist() for tree in trees]
    assert max(map(len, expected)) > 1
    pieces, counts = record_schema.read_sentence_lengths(
        manifest.splits["train"], folder
    )
    assert pieces.tolist() == list(itertools.chain(*expected))
    assert counts.tolist() == list(map(len, expected))
    # Whatever is counted with them must not wrap around.
    assert pieces.dtype == counts.dtype == np.int32


def test_a_split_without_windows_has_no_lengths(built):
    manifest, folder = built
    assert WINDOWS.read(manifest.splits["validation"], folder).tolist() == []
    for one in record_schema.read_sentence_lengths(
        manifest.splits["validation"], folder
    ):
        assert one.tolist() == []


def test_the_longest_window_there_can_be_keeps_its_length(tmp_path):
    path = tmp_path / "a.tfrecord"
    record_schema.write_lengths(path, [np.array([65_533], np.uint16), np.array([1])])
    assert WINDOWS.read_shard(path).tolist() == [65_533, 1]
    # A sum that the sentences' own type does not hold.
    record_schema.write_lengths(path, [np.array([250] * 100, np.uint8)])
    assert WINDOWS.read_shard(path).tolist() == [25_000]
    assert SENTENCES.read_shard(path).tolist() == [250] * 100


@KINDS
def test_missing_lengths_say_what_to_do(built, kind):
    manifest, folder = built
    (folder / f"train-00002{kind.suffix}").unlink()
    with pytest.raises(
        ValueError, match=rf"train-00002\{kind.suffix}.*missing.*build_windows"
    ):
        record_schema.read_sentence_lengths(manifest.splits["train"], folder)


@KINDS
@pytest.mark.parametrize("damage", ["shorter", "other"])
def test_lengths_that_contradict_the_manifest_are_refused(built, kind, damage):
    manifest, folder = built
    path = folder / "train-00000.tfrecord"
    lengths = kind.read_shard(path).copy()
    if damage == "other":
        lengths[2] += 1
    else:
        lengths = lengths[:-1]
    kind.write(path, lengths)
    with pytest.raises(
        ValueError, match=rf"train-00000\{kind.suffix}: expected .* found"
    ):
        kind.read(manifest.splits["train"], folder)


def test_sentences_over_the_end_of_a_window_are_refused(built):
    manifest, folder = built
    path = folder / "train-00002.tfrecord"
    lengths = SENTENCES.read_shard(path)
    # As many, and of the same sum.
    assert len(set(lengths)) > 2
    SENTENCES.write(path, lengths[::-1])
    with pytest.raises(
        ValueError, match=r"train-00002\.sentence_lengths: expected that every window"
    ):
        record_schema.read_sentence_lengths(manifest.splits["train"], folder)
