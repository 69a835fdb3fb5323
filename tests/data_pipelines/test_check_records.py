"""Faults of records are found, and what is in them is shown."""

import os
import re
import shutil

import pytest

from data_pipelines import (
    check_records,
    inspect_records,
)
from seg_tf.data import examples
from seg_tf.data.manifest import Manifest
from tests.data_pipelines.builders import read_split
from tests.data_pipelines.random_corpus import (
    REPOSITORY,
    copy_of,
)

pytestmark = pytest.mark.slow


def test_sound_records_have_no_fault(built, cut_built):
    assert list(check_records.check_folder(built)) == []
    assert list(check_records.check_folder(cut_built)) == []
    assert list(check_records.check_folder(built / "documents")) == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: os.truncate(f / "train-00002.tfrecord", 40),
         "00002.*expected .* found 40"),
        (lambda f: (f / "train-00001.tfrecord").unlink(),
         "00001.tfrecord: the file is m"),
        (lambda f: shutil.copy(f / "train-00000.tfrecord", f / "train-99999.tfrecord"),
         "99999.*not part of the manifest"),
        (lambda f: shutil.copy(REPOSITORY / "pyproject.toml", f / "vocab.txt"),
         "vocab.txt: not the vocabulary that the records were built with"),
        (lambda f: (f / "train-00001.lengths").unlink(),
         "00001.lengths: the file is missing.*build_windows"),
        (lambda f: os.truncate(f / "train-00001.lengths", 4),
         "00001.lengths: expected .* lengths, found 2"),
        (lambda f: (f / "train-00001.lengths").write_bytes(
            bytes([9]) + (f / "train-00001.lengths").read_bytes()[1:]),
         r"00001.lengths: record 0: expected \d+, found 9"),
        (lambda f: (f / "train-00001.sentence_lengths").unlink(),
         "00001.sentence_lengths: the file is missing.*build_windows"),
        (lambda f: os.truncate(f / "train-00001.sentence_lengths", 4),
         "00001.sentence_lengths: expected .* lengths, found 2"),
        (lambda f: (f / "train-00001.sentence_lengths").write_bytes(
            bytes([99]) + (f / "train-00001.sentence_lengths").read_bytes()[1:]),
         r"00001.sentence_lengths: record 0: expected \d+.*, found 99"),
    ],
)  # fmt: skip
def test_damaged_records_are_found(built, tmp_path, damage, message):
    folder = copy_of(built, tmp_path)
    damage(folder)
    faults = "\n".join(check_records.check_folder(folder))
    assert re.search(message, faults), faults


def test_a_flipped_bit_is_found_with_its_record(built, tmp_path):
    folder = copy_of(built, tmp_path)
    shard = folder / "train-00003.tfrecord"
    damaged = bytearray(shard.read_bytes())
    damaged[-20] ^= 1
    shard.write_bytes(damaged)
    faults = list(check_records.check_folder(folder))
    num_records = Manifest.load(folder).splits["train"][3].records
    assert any(f"record {num_records - 1} " in fault for fault in faults)


def test_a_well_formed_record_with_wrong_content_is_found(built, tmp_path):
    folder = copy_of(built, tmp_path)
    manifest = Manifest.load(folder)
    path = folder / manifest.splits["train"][0].file
    items = list(examples.read_trees(path, manifest.number_widths))
    tree, document_id, permutation = items[0]
    tree.token_ids[0] = manifest.vocabulary["size"]
    permutation[:] = 0
    items[0] = (tree, document_id, permutation)
    examples.write_trees(path, items[:-1], manifest.number_widths)
    faults = "\n".join(check_records.check_folder(folder))
    size = manifest.vocabulary["size"]
    assert f"record 0: expected ids below {size}, found {size}" in faults
    assert "expected a permutation" in faults
    assert f"records, found {len(items) - 1}" in faults


def test_inspection_prints_the_tree_and_where_a_cap_applied(built):
    manifest = Manifest.load(built)
    tokens = (built / "vocab.txt").read_text().splitlines()
    tree = next(t for t in read_split(built, "train") if t.first_index[0] > 0)
    caps = {"paragraph_index": 1, "sentence_index": 2, "token_index": 5}
    text = "\n".join(inspect_records.tree_lines(tree, tokens, caps))
    assert text.startswith(f"paragraph {tree.first_index[0]}\n")
    assert text.count("  sentence ") == len(tree.sentence_lengths)
    assert "have paragraph_index 1 or more" in text
    table = list(inspect_records.token_table(tree, tokens, caps))
    assert len(table) == len(tree.token_ids) + 3
    assert "*" in table[1]  # [CLS] takes the first piece's, capped, paragraph.
    assert manifest.kind == "windows"
