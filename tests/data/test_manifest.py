"""Manifests, offsets and lengths that were damaged: refused, naming the entry."""

import itertools
import json
import shutil

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from seg_tf.data import record_schema, shards
from seg_tf.data.manifest import FILE_NAME, Manifest
from seg_tf.data.record_schema import SENTENCES, WINDOWS
from tests.data_pipelines.builders import random_tree, read_split, write_windows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three train shards of windows, one of them empty, and a validation shard."""
    folder = tmp_path_factory.mktemp("windows")
    generator = np.random.default_rng(0)

    def documents(count):
        return [random_tree(generator, 90, 99) for _ in range(count)]

    write_windows(
        folder,
        {"train": [documents(5), [], documents(3)], "validation": [documents(2)]},
        window_length=32,
        vocab_size=99,
    )
    return folder


@pytest.fixture
def damaged(folder, tmp_path):
    """A copy to damage."""
    return shutil.copytree(folder, tmp_path / "records")


def manifest_of(folder):
    return json.loads((folder / FILE_NAME).read_text())


def load(folder, values):
    (folder / FILE_NAME).write_text(json.dumps(values))
    return Manifest.load(folder)


def put(*path_and_value):
    """An edit of a manifest: the entry at a path gets a value."""
    *path, last, value = path_and_value

    def edit(values):
        for key in path:
            values = values[key]
        values[last] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (put("schema_version", 1), r"format 1, .* format 2 only\. .* --overwrite"),
        (put("newer", 1), r"does not know: \['newer'\]"),
        (put("splits", {"train": []}), "splits.validation` must be list"),
        (put("splits", "train", 1, "file", "../x"), r"a name. Received: '\.\./x'"),
        (put("splits", "train", 0, "records", -1), "counts of `splits` must be at"),
        (put("splits", "train", 0, "records", 1.0), "records` must be int.*=1.0"),
        (put("vocabulary", "special_ids", "mask", 99), "must be ids of the vocabulary"),
        (put("vocabulary", "lower_case", None), "lower_case` must be bool"),
        (put("window_length", None), "windows with a `window_length`"),
        (put("number_widths", "token_ids", "int8"), "must be uint16 or uint32"),
    ],
)  # fmt: skip
def test_an_edited_manifest_is_refused_by_its_entry(damaged, edit, message):
    values = manifest_of(damaged)
    edit(values)
    with pytest.raises(ValueError, match=rf"manifest\.json: .*{message}"):
        load(damaged, values)


@pytest.mark.parametrize(
    "text", ["[1]", "null", '{"a": ' * 5000, "1" * 5000, '{"kind": "w', "\udcff"]
)
def test_what_is_no_manifest_at_all(damaged, text):
    path = damaged / FILE_NAME
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(ValueError, match=r"manifest\.json"):
        Manifest.load(damaged)


# --- Offsets --------------------------------------------------------------------


@hypothesis.given(data=strategies.data())
@hypothesis.settings(deadline=None, max_examples=200)
def test_every_damage_of_offsets_names_them(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "a.tfrecord"
    shards.write_shard(path, [b"first", b"", b"third"])
    offsets = path.with_suffix(".offsets")
    sound = offsets.read_bytes()
    damaged = bytearray(sound)
    kind = data.draw(strategies.sampled_from(["flip", "cut", "grow"]))
    if kind == "flip":
        bit = data.draw(strategies.integers(0, 8 * len(sound) - 1))
        damaged[bit // 8] ^= 1 << bit % 8
    elif kind == "cut":
        del damaged[data.draw(strategies.integers(0, len(sound) - 1)) :]
    else:
        damaged += data.draw(strategies.binary(min_size=1, max_size=20))
    offsets.write_bytes(damaged)
    with pytest.raises(shards.DamagedShardError, match=r"a\.offsets.*again"):
        list(map(shards.RecordReader([path]).__getitem__, range(3)))


def test_lengths_are_those_of_the_records_in_their_order(folder):
    manifest = Manifest.load(folder)
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


@pytest.mark.parametrize("kind", [WINDOWS, SENTENCES])
@pytest.mark.parametrize("damage", ["shorter", "other"])
def test_lengths_that_contradict_the_manifest_are_refused(damaged, kind, damage):
    manifest = Manifest.load(damaged)
    path = damaged / "train-00000.tfrecord"
    lengths = kind.read_shard(path).copy()
    if damage == "other":
        lengths[2] += 1
    else:
        lengths = lengths[:-1]
    kind.write(path, lengths)
    with pytest.raises(
        ValueError, match=rf"train-00000\{kind.suffix}: expected .* found"
    ):
        kind.read(manifest.splits["train"], damaged)


def test_sentences_over_the_end_of_a_window_are_refused(damaged):
    manifest = Manifest.load(damaged)
    path = damaged / "train-00002.tfrecord"
    lengths = SENTENCES.read_shard(path)
    # As many, and of the same sum.
    assert len(set(lengths)) > 2
    SENTENCES.write(path, lengths[::-1])
    with pytest.raises(
        ValueError, match=r"train-00002\.sentence_lengths: expected every window"
    ):
        record_schema.read_sentence_lengths(manifest.splits["train"], damaged)
