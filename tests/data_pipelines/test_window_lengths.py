"""Lengths of windows: those of the records, and checked against the manifest."""

import numpy as np
import pytest

from data_pipelines import window_lengths
from tests.data_pipelines.builders import random_tree, read_windows, write_windows


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
    expected = [len(tree.token_ids) for tree in read_windows(folder, "train")]
    assert window_lengths.read(manifest, folder, "train").tolist() == expected
    assert window_lengths.read(manifest, folder, "validation").tolist() == []


def test_the_longest_window_there_can_be_keeps_its_length(tmp_path):
    window_lengths.write(tmp_path / "a.tfrecord", [65_533, 1])
    assert window_lengths.read_shard(tmp_path / "a.tfrecord").tolist() == [65_533, 1]


def test_missing_lengths_say_what_to_do(built):
    manifest, folder = built
    (folder / "train-00002.lengths").unlink()
    with pytest.raises(
        ValueError, match=r"train-00002\.lengths.*earlier version.*build_windows"
    ):
        window_lengths.read(manifest, folder, "train")


@pytest.mark.parametrize("damage", ["shorter", "other"])
def test_lengths_that_contradict_the_manifest_are_refused(built, damage):
    manifest, folder = built
    lengths = window_lengths.read_shard(folder / "train-00000.tfrecord").copy()
    if damage == "other":
        lengths[2] += 1
    else:
        lengths = lengths[:-1]
    window_lengths.write(folder / "train-00000.tfrecord", lengths)
    with pytest.raises(ValueError, match=r"train-00000\.lengths: expected .* found"):
        window_lengths.read(manifest, folder, "train")


def test_only_missing_lengths_are_added(built):
    manifest, folder = built
    kept, missing = folder / "train-00000.lengths", folder / "train-00002.lengths"
    expected = missing.read_bytes()
    missing.unlink()
    before = kept.stat().st_mtime_ns
    window_lengths.add_missing(manifest, folder)
    assert missing.read_bytes() == expected
    assert kept.stat().st_mtime_ns == before
