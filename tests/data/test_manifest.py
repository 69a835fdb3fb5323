"""Manifests, offsets and lengths that were damaged: refused, naming the entry."""

import copy
import itertools
import json
import shutil

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from data_pipelines import build_windows, check_records
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.window_building import WindowOptions
from data_pipelines.report.page import write_report
from seg_tf.data import record_schema, shards
from seg_tf.data.manifest import (
    FILE_NAME,
    Manifest,
    shard_paths,
    vocabulary_path,
)
from seg_tf.data.record_schema import SENTENCES, WINDOWS
from tests.data_pipelines import builders
from tests.data_pipelines.builders import random_tree, read_split, write_windows

WINDOW_LENGTH = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two train shards and a validation shard of windows."""
    folder = tmp_path_factory.mktemp("windows")
    generator = np.random.default_rng(0)
    trees = [builders.random_tree(generator, 40, 50) for _ in range(6)]
    builders.write_windows(
        folder,
        {"train": [trees[:2], trees[2:4]], "validation": [trees[4:]]},
        window_length=WINDOW_LENGTH,
        vocab_size=50,
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


def list_twice(values):
    values["splits"]["validation"].append(values["splits"]["train"][0])


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (put("schema_version", 1), r"format 1; .* format 2 only\. Build them again"),
        (put("schema_version", 3), "`schema_version` must be 2. Found: 3"),
        (put("schema_version", True), "`schema_version` must be 2. Found: True"),
        (put("newer", 1), "`newer` is an entry that this version .* newer one"),
        (put("splits", "train", 0, "newer", 1), r"`splits.train\[0\].newer` is an"),
        (put("splits", {"train": []}), "`splits.validation` is missing"),
        (put("splits", "train", 3), "`splits.train` must be a list. Found: 3"),
        (put("splits", "train", 1, "file", "../x.tfrecord"),
         r"`splits.train\[1\].file` must be the name .* separators. Found: '\.\./x"),
        (put("splits", "train", 1, "file", "vocab.txt"), "a .tfrecord file"),
        (list_twice, r"`splits.validation\[1\].file` must be a shard .* listed once"),
        (put("splits", "train", 0, "records", -1), "`splits.* an integer from 0 .*-1"),
        (put("splits", "train", 0, "records", 1.0), "integer from 0 .* Found: 1.0"),
        (put("splits", "train", 0, "sha256", "x"), "64 hexadecimal digits. Found: 'x'"),
        (put("vocabulary", "special_ids", "mask", 50),
         "`vocabulary.special_ids.mask` must be an integer from 0 to 49. Found: 50"),
        (put("vocabulary", "special_ids", {}), "`vocabulary.special_ids.pad` is mis"),
        (put("vocabulary", "lower_case", None), "true or false. Found: None"),
        (put("vocabulary", []), "`vocabulary` must be an object. Found: a list of 0"),
        (put("vocabulary", "file", "a/b"), "`vocabulary.file` must be the name of a"),
        (put("window_length", None), "`window_length` must be an integer for windows"),
        (put("kind", "rows"), "`kind` must be one of documents, windows"),
        (put("number_widths", "token_ids", "uint32"),
         "`number_widths.token_ids` must be uint16"),
        (put("options", "window_length", 99), "`options.window_length` must be 16"),
        (put("options", "cut_sentences", "no"), "`options.cut_sentences` must be true"),
        (put("counts", "records", 7), "`counts` must be the totals of the shards"),
        (put("rejected", {"empty": "many"}), "`rejected.empty` must be an integer"),
        (put("cleaning", {}), "`cleaning.before` is missing"),
        (put("passed_over", {"hidden": {"count": 1}}),
         "`passed_over.hidden.first` is missing"),
        (put("broken_files", {"count": 1, "first": [], "bytes": -1, "of_bytes": 2}),
         "`broken_files.bytes` must be an integer from 0"),
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


def use(folder, tmp_path):
    """Everything that reads a manifest, as far as it goes without a model."""
    manifest = Manifest.load(folder)
    list(check_records.check_folder(folder))
    for split in ("train", "validation"):
        reader = shards.RecordReader(shard_paths(manifest, folder, split))
        list(map(reader.__getitem__, range(len(reader))))
        record_schema.read_sentence_lengths(manifest.splits[split], folder)
    vocabulary_path(manifest, folder)
    write_report(folder, tmp_path / "report.html")
    build_windows.build_windows(WindowOptions(window_length=16), folder, tmp_path / "w")


JSON = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.sampled_from([-1, 0, 1, 2**63, 10**400, 0.5, float("nan"), "", "a/b"])
    | strategies.text(max_size=3),
    lambda inner: (
        strategies.lists(inner, max_size=2)
        | strategies.dictionaries(strategies.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(values, path=()):
    """The paths of all entries."""
    inner = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in inner:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


@pytest.mark.slow
@hypothesis.given(data=strategies.data())
@hypothesis.settings(deadline=None, max_examples=200)
def test_no_edit_of_a_manifest_is_more_than_an_error(folder, tmp_path_factory, data):
    values = copy.deepcopy(manifest_of(folder))
    path = data.draw(strategies.sampled_from(list(places(values))))
    holder = values
    for key in path[:-1]:
        holder = holder[key]
    action = data.draw(strategies.sampled_from(["replace", "remove", "add"]))
    if action == "replace":
        holder[path[-1]] = data.draw(JSON)
    elif action == "remove":
        del holder[path[-1]]
    elif isinstance(holder, dict):
        holder[data.draw(strategies.text(max_size=3))] = data.draw(JSON)
    damaged = tmp_path_factory.mktemp("fuzzed")
    shutil.copytree(folder, damaged, dirs_exist_ok=True)
    (damaged / FILE_NAME).write_text(json.dumps(values))
    try:
        use(damaged, damaged)
    except (ValueError, BuildError, FileNotFoundError) as error:
        hypothesis.note(str(error))
    shutil.rmtree(damaged)


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
    with pytest.raises(shards.DamagedShardError, match=r"a\.offsets: expected .*again"):
        list(map(shards.RecordReader([path]).__getitem__, range(3)))


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
        ValueError, match=r"train-00002\.sentence_lengths: expected every window"
    ):
        record_schema.read_sentence_lengths(manifest.splits["train"], folder)
