"""Corpora and records in a bucket: the same bytes and batches as on a disk."""

import dataclasses
import pathlib

import fsspec
import numpy as np
import pytest

from data_pipelines.records import mirrors, remote_files, shards
from data_pipelines.records.manifest import Manifest, shard_paths
from seg_tf import configuration
from seg_tf.training import record_sources
from tests import command_calls
from tests.data_pipelines import object_server, random_corpus
from tests.data_pipelines.loading import test_reat_inputs as texts
from tests.data_pipelines.loading.test_window_inputs import assert_same_rows, take
from tests.data_pipelines.object_server import BUCKET
from tests.data_pipelines.small_corpus import contents

pytestmark = pytest.mark.slow

RECORDS = f"{BUCKET}/records"


@pytest.fixture
def faults(monkeypatch, tmp_path):
    """A server with a bucket, an empty cache, and no long pauses."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with object_server.running(monkeypatch) as faults:
        yield faults


def put(folder, url):
    fsspec.filesystem("s3").put(f"{folder}/", f"{url}/", recursive=True)


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
    return command_calls.call(*random_corpus.command(corpus, output, *more))


def read(records_dir, count=60, **settings):
    config = configuration.WindowInputsConfig(
        window_length=32,
        masking=configuration.MaskingConfig(max_predictions=6),
        **settings,
    )
    inputs = configuration.build(
        config, records_dir=records_dir, index_tables={"position_index": 32}, seed=1
    )
    return take(inputs.train_dataset(7), count)


def test_from_bucket_to_bucket_as_from_disk_to_disk(corpus, built, faults):
    put(corpus / "text", f"{BUCKET}/text")
    faults.every = 4
    done = build(corpus, RECORDS, f"--input={BUCKET}/text")
    assert done.returncode == 0, done.stderr
    assert all(faults.counts.values()), faults.counts
    assert f"windows of 32 positions in {RECORDS}" in done.stdout
    faults.every = 0
    assert in_bucket(RECORDS) == of_build(built)


def test_a_finished_build_is_left_as_it_is_on_any_machine(
    corpus, built, faults, tmp_path, monkeypatch
):
    put(built, RECORDS)
    before = in_bucket(RECORDS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other_machine"))
    assert build(corpus, RECORDS).returncode == 0
    assert in_bucket(RECORDS) == before
    other = build(corpus, RECORDS, "--window_length=16")
    assert other.returncode == 1
    assert "a finished build with another `options.window_length`" in other.stderr


def test_a_build_takes_the_place_of_another(corpus, built, faults):
    assert build(corpus, RECORDS, "--slice_megabytes=0.002").returncode == 0
    assert len(in_bucket(RECORDS)) > len(of_build(built))
    assert build(corpus, RECORDS, "--overwrite").returncode == 0
    assert in_bucket(RECORDS) == of_build(built)


def test_a_killed_transfer_goes_on(corpus, built, faults, monkeypatch):
    upload, sent = remote_files.upload, []

    def killed(path, url):
        if len(sent) == 9:
            raise KeyboardInterrupt
        sent.append(url)
        upload(path, url)

    with monkeypatch.context() as patch:
        patch.setattr(remote_files, "upload", killed)
        assert build(corpus, RECORDS).returncode
    assert not any(name.endswith("manifest.json") for name in in_bucket(RECORDS))
    again = []
    monkeypatch.setattr(
        remote_files, "upload", lambda path, url: (again.append(url), upload(path, url))
    )
    assert build(corpus, RECORDS).returncode == 0
    assert not set(again) & set(sent)
    assert in_bucket(RECORDS) == of_build(built)


def test_windows_are_cut_from_documents_of_a_bucket(built, faults, tmp_path):
    put(built / "documents", f"{BUCKET}/documents")
    done = command_calls.call(
        "data_pipelines.build_windows",
        f"--documents_dir={BUCKET}/documents",
        f"--output_dir={tmp_path / 'windows'}",
        "--window_length=32",
    )
    assert done.returncode == 0, done.stderr
    expected = {n: c for n, c in of_build(built).items() if "/" not in n}
    assert of_build(tmp_path / "windows") == expected
    checked = command_calls.call(
        "data_pipelines.check_records", f"--records_dir={BUCKET}/documents"
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    "settings", [{}, {"block_rows": 8, "blocks_at_once": 3}], ids=["all", "blocks"]
)
def test_batches_are_those_of_a_disk(built, faults, settings):
    expected = read(built, **settings)
    put(built, RECORDS)
    faults.every = 3
    assert_same_rows(read(RECORDS, **settings), expected)
    assert faults.counts["500"]
    assert faults.counts["cut off"]


@pytest.mark.parametrize(
    "config",
    [
        configuration.PackedWindowInputsConfig(
            window_length=32, block_rows=4, blocks_at_once=2
        ),
        texts.CONFIG,
    ],
    ids=["packed windows", "texts"],
)
def test_rows_of_several_parts_are_those_of_a_disk(config, built, faults, tmp_path):
    records_dir, arguments = built, {"index_tables": {"position_index": 32}}
    if config is texts.CONFIG:
        (tmp_path / "texts").mkdir()
        records_dir = texts.write(tmp_path / "texts")
        config = dataclasses.replace(config, block_rows=2, blocks_at_once=2)
        arguments = texts.MODEL.inputs_arguments
    put(records_dir, RECORDS)
    expected, found = (
        take(
            configuration.build(
                config, records_dir=place, seed=1, **arguments
            ).train_dataset(2),
            8,
        )
        for place in (records_dir, RECORDS)
    )
    assert_same_rows(found, expected)


def test_a_mirror_keeps_to_its_size(built, faults):
    put(built, RECORDS)
    manifest = Manifest.load(built)
    sizes = [shard.bytes for shard in manifest.splits["train"]]
    limit = 3 * max(sizes)
    folder = mirrors.local_records(RECORDS, limit / 1e9)
    reader = shards.RecordReader(shard_paths(manifest, folder, "train"))
    on_disk = shards.RecordReader(shard_paths(manifest, built, "train"))
    assert len(reader) == len(on_disk)
    generator = np.random.default_rng(0)
    for number in generator.permutation(len(reader))[:40].tolist():
        assert reader[number] == on_disk[number]
        present = sum(path.stat().st_size for path in folder.glob("*.tfrecord"))
        assert present <= limit
    assert sum(sizes) > limit


def test_shards_of_the_next_group_are_fetched_ahead(built, faults, monkeypatch):
    put(built, RECORDS)
    asked = []
    prefetch = mirrors.Mirror.prefetch

    def noted(mirror, paths):
        paths = list(paths)
        asked.extend(path.name for path in paths)
        prefetch(mirror, paths)

    monkeypatch.setattr(mirrors.Mirror, "prefetch", noted)
    read(RECORDS, count=7, block_rows=8, blocks_at_once=2)
    assert asked
    asked.clear()
    read(RECORDS, count=7)
    assert not asked


def test_records_that_change_are_fetched_anew(corpus, built, faults, tmp_path):
    put(built, RECORDS)
    read(RECORDS)
    random_corpus.build(corpus, tmp_path / "new", slice_megabytes=0.01)
    put(tmp_path / "new", RECORDS)
    assert_same_rows(read(RECORDS), read(tmp_path / "new"))


def test_a_shard_that_is_damaged_in_the_bucket_is_named(built, faults):
    put(built, RECORDS)
    shard = Manifest.load(built).splits["train"][0]
    other = bytes(shard.bytes)
    fsspec.filesystem("s3").pipe_file(f"{RECORDS}/{shard.file}", other)
    folder = mirrors.local_records(RECORDS)
    message = rf"{RECORDS}/{shard.file}: expected the sha256 {shard.sha256}, found"
    with pytest.raises(OSError, match=message):
        mirrors.fetch(folder / shard.file)
    assert not list(folder.glob("*.tfrecord"))


def test_what_is_not_there_is_not_asked_for_again(faults, caplog):
    with pytest.raises(ValueError, match=rf"{RECORDS}: there is no manifest.json"):
        mirrors.local_records(RECORDS)
    assert "attempt" not in caplog.text


def test_a_server_that_is_gone_is_an_error_after_some_attempts(
    faults, monkeypatch, caplog
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    fsspec.filesystem("s3").clear_instance_cache()
    with pytest.raises(OSError, match=r"manifest.json: "):
        mirrors.local_records(RECORDS)
    assert "attempt 5 of 6 failed" in caplog.text


def test_a_mixture_of_a_bucket_and_a_disk(built, cut_built, faults):
    put(built, RECORDS)
    sources = record_sources.parse(f"{RECORDS}:3,{cut_built}:1")
    assert sorted(source.weight for source in sources.values()) == [1, 3]
    (alone,) = record_sources.parse(RECORDS).values()
    assert alone.folder in [source.folder for source in sources.values()]
    assert alone.weight == 1


def test_a_mirror_that_is_too_small_is_said(built, faults, caplog):
    put(built, RECORDS)
    mirrors.local_records(RECORDS, 1e-5)
    read(RECORDS, count=7)
    assert "Raise --cache_gigabytes" in caplog.text
    caplog.clear()
    read(RECORDS, count=7, block_rows=1, blocks_at_once=2)
    assert "Raise" not in caplog.text


def test_two_mirrors_of_one_name_are_apart():
    urls = [f"s3://{bucket}/records" for bucket in ("a", "b")]
    one, other = map(mirrors.mirror_folder, urls)
    assert one != other
    assert one.name.startswith("records-")
