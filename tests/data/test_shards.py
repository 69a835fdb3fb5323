"""Shards: random access, damage noticed, nothing half-written."""

import os
import resource

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.data import examples, record_schema, shards
from seg_tf.text.tree import DocumentTree


def test_records_read_at_random_equal_tensorflows_reader(tmp_path):
    payloads = [os.urandom(size) for size in (0, 1, 7, 1000, 65_537)]
    path = tmp_path / "a.tfrecord"
    assert shards.write_shard(path, payloads) == 5
    reader = shards.RecordReader([path])
    assert [reader[i] for i in (4, 0, 2, 1, 3)] == [
        payloads[i] for i in (4, 0, 2, 1, 3)
    ]
    expected = [r.numpy() for r in tf.data.TFRecordDataset(str(path))]
    assert [reader[i] for i in range(len(reader))] == expected


def numbered_shards(folder, num_shards, size):
    """Shards of the numbers from 0 on, in words."""
    paths = [folder / f"{number}.tfrecord" for number in range(num_shards)]
    for number, path in enumerate(paths):
        first = number * size
        shards.write_shard(path, [b"%d" % n for n in range(first, first + size)])
    return paths


@pytest.fixture
def few_open_files(monkeypatch):
    """Room for the files that two readers open where 256 are allowed, and a few more.

    Beside those that the process has open: other tests leave some.
    """
    in_use = num_open_files()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    max_open_shards = shards.max_open_shards()
    room = 2 * 2 * max_open_shards + 8
    assert room < 256 - 64  # What Python and TensorFlow have open.
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + room, hard))
    monkeypatch.setattr(shards, "max_open_shards", lambda: max_open_shards)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def num_open_files():
    return len(os.listdir("/proc/self/fd")) - 1  # Without the listing itself.


def test_more_shards_are_read_than_files_may_be_open(
    tmp_path, monkeypatch, few_open_files
):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # 6,000 of them.
    paths = numbered_shards(tmp_path, 3000, 2)
    train, validation = shards.RecordReader(paths), shards.RecordReader(paths)
    numbers = np.random.default_rng(0).permutation(6000).tolist()
    for reader in (train, validation):
        assert reader.read(numbers) == [b"%d" % number for number in numbers]
        assert [reader[number] for number in numbers[:500]] == [
            b"%d" % number for number in numbers[:500]
        ]
    open_before = num_open_files()
    del reader, train, validation
    assert num_open_files() == open_before - 2 * 2 * 256 // 8


def test_shards_that_change_while_they_are_read_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "max_open_shards", lambda: 1)
    paths = numbered_shards(tmp_path, 2, 3)
    reader = shards.RecordReader(paths)
    assert reader[4] == b"4"
    os.truncate(paths[1], paths[1].stat().st_size - 1)  # The one that is open.
    assert reader.read([3, 4]) == [b"3", b"4"]
    with pytest.raises(shards.DamagedShardError, match=r"1\.tfrecord: record 2 "):
        reader[5]
    paths[0].unlink()
    with pytest.raises(FileNotFoundError, match=r"0\.tfrecord"):
        reader[0]
    with pytest.raises(shards.DamagedShardError, match=r"1\.tfrecord .*truncated"):
        shards.RecordReader(paths[1:])


def test_every_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "a.tfrecord"
    shards.write_shard(path, [b"first", b"second record", b"third"])
    sound = path.read_bytes()
    begin = 12 + 5 + 4  # of the second record
    end = begin + 12 + 13 + 4
    for place in range(begin, end):
        damaged = bytearray(sound)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        reader = shards.RecordReader([path])
        with pytest.raises(shards.DamagedShardError, match=r"a\.tfrecord: record 1 "):
            reader[1]
        assert reader[0] == b"first"
        assert reader[2] == b"third"


def test_a_failed_write_leaves_the_folder_as_it_was(tmp_path):
    path = tmp_path / "a.tfrecord"
    shards.write_shard(path, [b"old"])
    before = sorted(p.name for p in tmp_path.iterdir())

    def failing():
        yield b"new"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        shards.write_shard(path, failing())
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert shards.RecordReader([path])[0] == b"old"


@pytest.mark.parametrize("vocab_size", [30_522, 65_536, 65_537, 267_735])
def test_a_record_survives_encoding(vocab_size):
    tree = DocumentTree(
        np.array([0, vocab_size - 1, 7]), np.array([1, 2]), np.array([2]), (3, 1, 4)
    )
    widths = record_schema.number_widths(vocab_size, 510)
    serialized = examples.encode(tree, 12, widths, np.array([1, 0]))
    decoded, document_id, permutation = examples.decode(serialized, widths)
    np.testing.assert_array_equal(decoded.token_ids, tree.token_ids)
    np.testing.assert_array_equal(decoded.sentence_lengths, tree.sentence_lengths)
    np.testing.assert_array_equal(decoded.paragraph_lengths, tree.paragraph_lengths)
    assert decoded.first_index == (3, 1, 4)
    assert document_id == 12
    np.testing.assert_array_equal(permutation, [1, 0])

    parsed = examples.parse(tf.constant([serialized]))
    for name, expected in (
        ("token_ids", tree.token_ids),
        ("sentence_lengths", tree.sentence_lengths),
    ):
        numbers, lengths = examples.decode_numbers(parsed[name], widths[name], 5)
        assert lengths.numpy().tolist() == [len(expected)]
        np.testing.assert_array_equal(numbers[0, : len(expected)], expected)
        assert not numbers[0, len(expected) :].numpy().any()
