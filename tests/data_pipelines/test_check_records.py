"""Faults of records are found, and records are shown."""

import os
import re
import shutil

import pytest

from data_pipelines import check_records, inspect_records
from seg_tf.data import examples
from seg_tf.data.manifest import Manifest
from tests.command_calls import REPOSITORY
from tests.data_pipelines.builders import read_split
from tests.data_pipelines.small_corpus import copy_of

pytestmark = pytest.mark.slow


def test_sound_records_have_no_fault(built, cut_built):
    for folder in (built, cut_built, built / "documents"):
        assert list(check_records.check_folder(folder)) == []


def truncate(name, size):
    return lambda folder: os.truncate(folder / name, size)


def remove(name):
    return lambda folder: (folder / name).unlink()


def change_first_byte(name):
    def change(folder):
        content = bytearray((folder / name).read_bytes())
        content[0] = 99
        (folder / name).write_bytes(content)

    return change


def copy(source, target):
    return lambda folder: shutil.copy(folder / source, folder / target)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate("train-00002.tfrecord", 40), "00002.*expected sha256 .* found"),
        (remove("train-00001.tfrecord"), "No such file.*00001.tfrecord"),
        (
            copy("train-00000.tfrecord", "train-99999.tfrecord"),
            "99999.*not part of the manifest",
        ),
        (
            copy(REPOSITORY / "pyproject.toml", "vocab.txt"),
            "vocab.txt: not the vocabulary that the records were built with",
        ),
        (remove("train-00001.lengths"), "No such file.*00001.lengths"),
        (
            change_first_byte("train-00001.sentence_lengths"),
            "00001.sentence_lengths: expected the lengths of train-00001.tfrecord",
        ),
    ],
)
def test_damaged_records_are_found(built, tmp_path, damage, message):
    folder = copy_of(built, tmp_path)
    damage(folder)
    faults = "\n".join(check_records.check_folder(folder))
    assert re.search(message, faults), faults


def test_a_well_formed_record_with_wrong_content_is_found(built, tmp_path):
    folder = copy_of(built, tmp_path)
    manifest = Manifest.load(folder)
    path = folder / manifest.splits["train"][0].file
    items = list(examples.read_trees(path, manifest.number_widths))
    tree, document_id, permutation = items[0]
    size = manifest.vocabulary["size"]
    tree.token_ids[0] = size
    permutation[:] = 0
    items[0] = (tree, document_id, permutation)
    examples.write_trees(path, items[:-1], manifest.number_widths)
    faults = "\n".join(check_records.check_folder(folder))
    assert f"record 0: expected ids below {size}, found {size}" in faults
    assert "expected a permutation" in faults
    assert f"records, found {len(items) - 1}" in faults


def test_inspection_prints_the_tree_and_where_a_cap_applied(built):
    tokens = (built / "vocab.txt").read_text().splitlines()
    tree = next(t for t in read_split(built, "train") if t.first_index[0] > 0)
    caps = {"paragraph_index": 1, "sentence_index": 2, "token_index": 5}
    text = "\n".join(inspect_records.tree_lines(tree, tokens, caps))
    assert text.startswith(f"paragraph {tree.first_index[0]}\n")
    assert text.count("  sentence ") == len(tree.sentence_lengths)
    assert "have paragraph_index 1 or more" in text
    table = list(inspect_records.token_table(tree, tokens, caps))
    assert len(table) == len(tree.token_ids) + 3
    assert "*" in table[1]  # [CLS] has the first piece's capped paragraph.
