"""Corpora and records in a bucket: the same bytes and batches as on a disk."""

import contextlib
import dataclasses
import pathlib
import threading

import fsspec
import numpy as np
import pytest
import tensorflow as tf

from seg_tf import remote_files
from seg_tf.config import build_from
from seg_tf.data import mirrors, sample_order, shards
from seg_tf.data.inputs import (
    MaskingConfig,
    PackedWindowInputsConfig,
    WindowInputsConfig,
)
from seg_tf.data.manifest import Manifest, shard_paths, text_preparation
from seg_tf.data.window_records import WindowRecords
from tests import command_calls
from tests.data import test_reat_inputs as texts
from tests.data.test_window_inputs import assert_same_rows, take
from tests.data_pipelines import object_server, small_corpus
from tests.data_pipelines.object_server import BUCKET
from tests.data_pipelines.small_corpus import contents

pytestmark = pytest.mark.slow

# Every file costs some requests: there are few.
SLICE, LARGER_SLICE = 0.01, 0.03
WINDOWS = WindowInputsConfig(window_length=32, masking=MaskingConfig(max_predictions=6))


@pytest.fixture(scope="module")
def server():
    """A server with a bucket, in which each test has a folder of its own."""
    with pytest.MonkeyPatch.context() as patch, object_server.running(patch) as faults:
        yield faults


@pytest.fixture(autouse=True)
def faults(server, monkeypatch, tmp_path):
    """Those of the server, none so far, beside an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server.reset()
    return server


@pytest.fixture
def url(tmp_path):
    """Where nothing is in the bucket."""
    return f"{BUCKET}/{tmp_path.name}/records"


@pytest.fixture(scope="module")
def records(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    small_corpus.build(corpus, folder, slice_megabytes=SLICE)
    return folder


@pytest.fixture(scope="module")
def stored(records, server):
    """The URL of the same in the bucket, which no test may change."""
    put(records, f"{BUCKET}/stored/records")
    return f"{BUCKET}/stored/records"


@pytest.fixture(scope="module")
def fewer_records(corpus, tmp_path_factory):
    """Windows of the same corpus in fewer shards."""
    folder = tmp_path_factory.mktemp("fewer")
    small_corpus.build(corpus, folder, slice_megabytes=LARGER_SLICE)
    return folder


def put(folder, url):
    fsspec.filesystem("s3").put(
        f"{folder}/", f"{url}/", recursive=True, ACL="public-read"
    )


def in_bucket(url):
    """Names below a URL and their bytes."""
    system = fsspec.filesystem("s3")
    system.invalidate_cache()
    root = url.removeprefix("s3://")
    return {
        name.removeprefix(f"{root}/"): system.cat_file(name)
        for name in system.find(root)
    }


def of_build(folder):
    """Files of a finished build on a disk, without those of its progress."""
    return {
        name: content
        for name, content in contents(folder).items()
        if not pathlib.PurePath(name).name.startswith(".")
    }


def build(corpus, output, *more):
    more = (f"--slice_megabytes={SLICE}", *more)
    return command_calls.call(*small_corpus.command(corpus, output, *more))


def read(records_dir, count=20, *, batch_size=2, config=WINDOWS, **arguments):
    arguments = arguments or {"index_tables": {"position_index": 32}}
    inputs = build_from(config, records_dir=records_dir, seed=1, **arguments)
    return take(inputs.train_dataset(batch_size), count)


def test_from_bucket_to_bucket_as_from_disk_to_disk(corpus, records, faults, url):
    put(corpus / "text", f"{url}-text")
    faults.every = 4
    done = build(corpus, url, f"--input={url}-text")
    assert done.returncode == 0, done.stderr
    assert all(faults.counts.values()), faults.counts
    assert f"windows of 32 positions in {url}" in done.stdout
    faults.every = 0
    assert in_bucket(url) == of_build(records)


def test_a_build_takes_the_place_of_another(corpus, fewer_records, url):
    assert build(corpus, url).returncode == 0
    assert len(in_bucket(url)) > len(of_build(fewer_records))
    larger = f"--slice_megabytes={LARGER_SLICE}"
    assert build(corpus, url, larger, "--overwrite").returncode == 0
    assert in_bucket(url) == of_build(fewer_records)


def test_a_killed_transfer_goes_on(corpus, records, url, monkeypatch):
    upload, sent = remote_files.upload, []

    def killed(path, name):
        if len(sent) == 9:
            raise KeyboardInterrupt
        sent.append(name)
        upload(path, name)

    with monkeypatch.context() as patch:
        patch.setattr(remote_files, "upload", killed)
        assert build(corpus, url).returncode
    assert not any(name.endswith("manifest.json") for name in in_bucket(url))
    assert build(corpus, url).returncode == 0
    assert in_bucket(url) == of_build(records)


def test_a_mirror_of_what_was_removed_is_no_build(corpus, records, url):
    assert build(corpus, url).returncode == 0
    next(mirrors.mirror_folder(url).glob("train-*.tfrecord")).unlink()
    fsspec.filesystem("s3").rm(url, recursive=True)
    assert build(corpus, url).returncode == 0
    assert in_bucket(url) == of_build(records)


@pytest.mark.parametrize(
    "config",
    [
        dataclasses.replace(WINDOWS, block_rows=8, blocks_at_once=3),
        PackedWindowInputsConfig(window_length=32, block_rows=4, blocks_at_once=2),
        texts.CONFIG,
    ],
    ids=["blocks", "packed windows", "texts"],
)
def test_batches_equal_those_of_a_disk(config, records, stored, faults, url, tmp_path):
    places, arguments = (records, stored), {"index_tables": {"position_index": 32}}
    if config is texts.CONFIG:
        (tmp_path / "texts").mkdir()
        places = texts.write(tmp_path / "texts"), url
        put(*places)
        config = dataclasses.replace(config, block_rows=2, blocks_at_once=2)
        arguments = texts.MODEL.inputs_arguments
    faults.every = 3
    expected, rows = (read(place, config=config, **arguments) for place in places)
    assert_same_rows(rows, expected)
    assert faults.counts["500"]
    assert faults.counts["cut off"]


def test_a_mirror_keeps_to_its_size(records, stored):
    manifest = Manifest.load(records)
    sizes = [shard.bytes for shard in manifest.splits["train"]]
    limit = 3 * max(sizes)
    folder = mirrors.local_records(stored, limit / 1e9)
    reader = shards.RecordReader(shard_paths(manifest, folder, "train"))
    on_disk = shards.RecordReader(shard_paths(manifest, records, "train"))
    assert len(reader) == len(on_disk)
    generator = np.random.default_rng(0)
    for number in generator.permutation(len(reader))[:40].tolist():
        assert reader[number] == on_disk[number]
        present = sum(path.stat().st_size for path in folder.glob("*.tfrecord"))
        assert present <= limit
    assert sum(sizes) > limit


def test_shards_of_the_next_group_are_fetched_ahead(records, stored, monkeypatch):
    class Noted(threading.Thread):
        def start(self):
            daemons.append(self.daemon or self._target.__name__ != "_prefetch")
            super().start()

    requested, daemons = [], []
    monkeypatch.setattr(threading, "Thread", Noted)
    prefetch = shards.RecordReader.prefetch

    def noted(reader, numbers):
        requested.extend(numbers.tolist())
        prefetch(reader, numbers)

    monkeypatch.setattr(shards.RecordReader, "prefetch", noted)
    config = dataclasses.replace(WINDOWS, block_rows=8, blocks_at_once=2)
    read(stored, 7, batch_size=7, config=config)
    num_records = Manifest.load(records).count("records", "train")
    _, order = sample_order.epochs_and_records(
        tf.range(num_records, dtype=tf.int64), num_records, 1, sample_order.Blocks(8, 2)
    )
    this_group, next_group = order.numpy()[:16], order.numpy()[16:23]
    assert set(requested) >= set(next_group.tolist())
    # A process that ends does not wait for what is fetched ahead.
    assert daemons
    assert all(daemons)
    assert not set(requested) & set(this_group.tolist())
    requested.clear()
    read(stored, 7, batch_size=7)
    assert not requested


@pytest.mark.parametrize(
    ("system", "name", "fault"),
    [
        ("s3", "manifest.json", "403"),
        ("s3", "manifest.json", "429"),
        ("s3", "vocab.txt", "reset"),
        ("http", "manifest.json", "403"),
        ("http", "vocab.txt", "500"),
        ("http", "manifest.json", "reset"),
    ],
)
def test_a_fault_of_the_server_is_no_missing_file(
    records, url, server, system, name, fault, caplog
):
    put(records, url)
    if system == "http":
        url = f"{server.url}/{url.removeprefix('s3://')}"
    server.rule = lambda path: fault if path.endswith(name) else None
    with pytest.raises(OSError, match=f"{url}/{name}: ") as caught:
        mirrors.local_records(url)
    assert not isinstance(caught.value, FileNotFoundError)
    if (fault, system) != ("403", "s3"):  # Which no attempt would change.
        assert "attempt 5 of 6 failed" in caplog.text
    # All is well when the server is.
    server.rule = lambda path: None
    folder = mirrors.local_records(url)
    manifest = Manifest.load(folder)
    assert text_preparation(manifest, folder) == text_preparation(manifest, records)


DAMAGES = {
    "cut off": lambda content: content[: len(content) // 2],
    "a bit": lambda content: bytes(
        byte ^ (place == len(content) // 2) for place, byte in enumerate(content)
    ),
    "other": lambda content: bytes(len(content)),
    "longer": lambda content: content + content,
    "empty": lambda content: b"",
}


def read_all(url):
    """Records and lengths of the train split."""
    folder = mirrors.local_records(url)
    manifest = Manifest.load(folder)
    windows = WindowRecords(
        manifest, folder, "train", window_length=32, index_tables={}, masking=None
    )
    groups = range(len(manifest.splits["train"]))
    reader = shards.RecordReader(shard_paths(manifest, folder, "train"))
    return (
        reader.read(range(len(reader))),
        [windows.lengths(groups).tolist()],
        [array.tolist() for array in windows.sentence_lengths(groups)],
        text_preparation(manifest, folder),
    )


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        *(("train-*.tfrecord", damage) for damage in DAMAGES),
        ("manifest.json", "a bit"),
        ("manifest.json", "cut off"),
        ("vocab.txt", "other"),
        ("sentence_parameters.json", "a bit"),
        ("train-*.offsets", "empty"),
        ("train-*.offsets", "a bit"),
        ("train-*.lengths", "other"),
        ("train-*.sentence_lengths", "longer"),
    ],
)
def test_a_damaged_mirror_is_fetched_again(records, stored, pattern, damage):
    expected = read_all(stored)
    folder = mirrors.local_records(stored)
    paths = list(folder.glob(pattern))
    assert paths
    for path in paths:
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    # Files of another size are fetched at once, damaged ones by the next run.
    for _ in range(1 + 2 * len(paths)):
        with contextlib.suppress(shards.DamagedShardError):
            assert read_all(stored) == expected
            break
    for path in paths:
        assert path.read_bytes() == (records / path.name).read_bytes()
