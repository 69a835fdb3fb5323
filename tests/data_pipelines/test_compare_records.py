"""Two sets of records are told apart by what they hold, not by shards or order."""

import dataclasses

import numpy as np
import pytest

from data_pipelines import compare_records
from data_pipelines.records import examples
from data_pipelines.records import shards as shard_files
from data_pipelines.records.manifest import Manifest
from tests.data_pipelines import builders

SHARDS = ((0, 3), (3, 5), (5, 9))


@pytest.fixture
def trees():
    generator = np.random.default_rng(0)
    return [builders.random_tree(generator, 60, 100) for _ in range(9)]


def write(folder, trees, borders=SHARDS):
    train = [trees[begin:end] for begin, end in borders]
    # A manifest has as many shards of each split; numbers follow those of train.
    validation = [trees[:1], *([] for _ in borders[1:])]
    manifest = builders.write_windows(
        folder,
        {"train": train, "validation": validation},
        window_length=32,
        vocab_size=100,
    )
    manifest.save(folder)
    return folder


def test_the_same_records_in_other_shards_are_the_same(tmp_path, trees):
    one = write(tmp_path / "one", trees)
    other = write(tmp_path / "other", trees, ((0, 7), (7, 9)))
    assert list(compare_records.differences(one, other)) == []


def with_options(folder, **options):
    manifest = Manifest.load(folder)
    options = {**manifest.options, **options}
    dataclasses.replace(manifest, options=options).save(folder)


def test_options_that_only_cut_other_shards_do_not_count(tmp_path, trees):
    one = write(tmp_path / "one", trees)
    other = write(tmp_path / "other", trees, ((0, 7), (7, 9)))
    with_options(one, seed=1, slice_megabytes=8.0, documents_manifest_sha256="ab")
    with_options(other, seed=1, slice_megabytes=1.0, documents_manifest_sha256="cd")
    assert list(compare_records.differences(one, other)) == []


@pytest.mark.parametrize("changed", [{"seed": 2}, {"short_window_rate": 0.1}])
def test_any_other_option_counts(tmp_path, trees, changed):
    one, other = write(tmp_path / "one", trees), write(tmp_path / "other", trees)
    with_options(one, seed=1, slice_megabytes=8.0)
    with_options(other, **{"seed": 1, "slice_megabytes": 1.0, **changed})
    (line,) = compare_records.differences(one, other)
    assert line.startswith("manifest, options: ")
    assert all(name in line for name in changed)


def rewritten(folder, change):
    """Changes the list of records of the first shard of train, not the manifest."""
    manifest = Manifest.load(folder)
    shard = manifest.splits["train"][0]
    path = folder / shard.file
    reader = shard_files.RecordReader([path])
    data = [reader[number] for number in range(len(reader))]
    change(data)
    shard_files.write_shard(path, data)
    changed = dataclasses.replace(shard, bytes=path.stat().st_size)
    train = (changed, *manifest.splits["train"][1:])
    splits = {**manifest.splits, "train": train}
    dataclasses.replace(manifest, splits=splits).save(folder)


def test_the_order_of_records_does_not_count(tmp_path, trees):
    one, other = write(tmp_path / "one", trees), write(tmp_path / "other", trees)
    rewritten(other, lambda data: data.reverse())
    assert list(compare_records.differences(one, other)) == []


@pytest.mark.parametrize("place", [0, -1])
def test_a_record_that_stands_twice_in_place_of_another_is_found(
    tmp_path, trees, place
):
    one, other = write(tmp_path / "one", trees), write(tmp_path / "other", trees)
    widths = Manifest.load(one).number_widths
    changed = []

    def change(data):
        changed.append(examples.decode(data[place], widths)[1])
        changed.append(examples.decode(data[1], widths)[1])
        data[place] = data[1]

    rewritten(other, change)
    (line,) = compare_records.differences(one, other)
    shown = ", ".join(map(str, sorted(set(changed))))
    assert line == f"train: {len(set(changed))} documents have other records: {shown}"


def test_counts_and_options_that_differ_are_named(tmp_path, trees):
    one = write(tmp_path / "one", trees)
    other = write(tmp_path / "other", trees[:7], ((0, 3), (3, 7)))
    manifest = Manifest.load(other)
    dataclasses.replace(manifest, window_length=33).save(other)
    lines = list(compare_records.differences(one, other))
    assert "manifest, window_length: 32 and 33" in lines
    assert "train: 9 and 7 documents" in lines
    assert any("documents have other records: 7, 8" in line for line in lines)
