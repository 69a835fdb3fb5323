"""Verifies record shards against their manifest, down to the last record.

  seg-tf check-records --records_dir=records

Verifies checksums of the vocabulary, the shards and all records, and reports shards
that are not in the manifest. Records must be well-formed: sizes add up, ids are in the
vocabulary, permutations are valid, and <eos> ends each paragraph of words. The counts
in the manifest and the stored lengths must agree with the records. Prints every fault,
with its shard and record, and exits with status 1 if there is any.
"""

import pathlib
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from absl import flags

from data_pipelines import command_flags
from seg_tf import command_line, files
from seg_tf.data import examples, mirrors, record_schema, shards
from seg_tf.data.manifest import (
    COUNTS,
    NUM_SPECIAL_TOKENS,
    SPLITS,
    Manifest,
    Shard,
    vocabulary_path,
)
from seg_tf.text.tree import DocumentTree
from seg_tf.text.vocabulary import EOS


def check_folder(folder: pathlib.Path) -> Iterator[str]:
    """Checks a folder of documents or windows and yields one line per fault.

    Raises ValueError if the manifest is missing or invalid.
    """
    manifest = Manifest.load(folder)
    try:
        vocabulary_path(manifest, folder)
    except FileNotFoundError:
        yield f"{folder / manifest.vocabulary['file']}: the vocabulary is missing"
    except (OSError, ValueError) as error:
        yield str(error)
    listed = [shard for split in SPLITS for shard in manifest.splits[split]]
    total = sum(shard.bytes for shard in listed)
    with command_line.progress_bar(total, "checking") as bar:
        for shard in listed:
            yield from _check_shard(folder / shard.file, manifest, shard)
            bar.update(shard.bytes)
    names = {path.name for path in folder.glob("*.tfrecord")}
    for name in sorted(names - {shard.file for shard in listed}):
        yield f"{folder / name}: the shard is not part of the manifest"


def _check_shard(path: pathlib.Path, manifest: Manifest, shard: Shard) -> Iterator[str]:
    try:
        mirrors.fetch(path)
        checksum = files.checksum(path)
    except OSError as error:
        yield str(error)
        return
    if checksum != shard.sha256:
        yield f"{path}: expected sha256 {shard.sha256}, found {checksum}"
    try:
        reader = shards.RecordReader([path], in_order=True)
    except (OSError, shards.DamagedShardError) as error:
        yield str(error)
        return
    counts = dict.fromkeys(COUNTS, 0)
    document_ids = set()
    sentence_lengths = []
    for number in range(len(reader)):
        try:
            tree, document_id, permutation = examples.decode(
                reader[number], manifest.number_widths
            )
        except ValueError as error:
            is_named = isinstance(error, shards.DamagedShardError)
            yield str(error) if is_named else f"{path}: record {number}: {error}"
            continue
        for fault in _record_faults(tree, permutation, manifest):
            yield f"{path}: record {number}: {fault}"
        document_ids.add(document_id)
        counts["records"] += 1
        counts["paragraphs"] += len(tree.paragraph_lengths)
        counts["sentences"] += len(tree.sentence_lengths)
        counts["pieces"] += len(tree.token_ids)
        sentence_lengths.append(tree.sentence_lengths)
    counts["documents"] = len(document_ids)
    for name, count in counts.items():
        if count != getattr(shard, name):
            yield f"{path}: expected {getattr(shard, name)} {name}, found {count}"
    # If a record is unreadable, the lengths cannot be matched to the windows.
    if manifest.kind == "windows" and len(sentence_lengths) == len(reader):
        for kind in record_schema.LENGTHS:
            try:
                mirrors.fetch(kind.path(path))
                lengths = kind.read_shard(path)
            except (OSError, ValueError) as error:
                yield str(error)
            else:
                if not np.array_equal(lengths, kind.of_windows(sentence_lengths)):
                    yield f"{kind.path(path)}: expected the lengths of {path.name}"


def _record_faults(
    tree: DocumentTree, permutation: np.ndarray | None, manifest: Manifest
) -> Iterator[str]:
    vocab_size = manifest.vocabulary["size"]
    if not len(tree.token_ids):
        yield "expected at least one piece, found none"
        return
    if (largest := int(tree.token_ids.max())) >= vocab_size:
        yield f"expected ids below {vocab_size}, found {largest}"
    if min(tree.sentence_lengths.min(), tree.paragraph_lengths.min()) < 1:
        yield "expected no empty sentence or paragraph, found one"
    elif (paragraph_end := manifest.vocabulary["special_ids"].get("eos")) is not None:
        sentence_ends = np.cumsum(tree.sentence_lengths)
        expected = sentence_ends[np.cumsum(tree.paragraph_lengths) - 1] - 1
        if not np.array_equal(
            np.flatnonzero(tree.token_ids == paragraph_end), expected
        ):
            yield f"expected {EOS} at the end of each paragraph and nowhere else"
    if manifest.kind != "windows":
        return
    capacity = manifest.window_length - NUM_SPECIAL_TOKENS
    if len(tree.token_ids) > capacity:
        yield f"expected at most {capacity} pieces, found {len(tree.token_ids)}"
    num_sentences = len(tree.sentence_lengths)
    if permutation is None or sorted(permutation) != list(range(num_sentences)):
        yield f"expected a permutation of {num_sentences}, found {permutation}"


def define_flags() -> None:
    command_flags.define_records_flag()


def main(_: Sequence[str]) -> None:
    folder = mirrors.local_records(flags.FLAGS.records_dir)
    num_faults = 0
    for fault in check_folder(folder):
        print(fault)
        num_faults += 1
    if num_faults:
        sys.exit(f"error: {num_faults} faults in {folder}")
    manifest = Manifest.load(folder)
    print(
        f"{folder}: {manifest.count('records'):,} {manifest.kind} in "
        f"{sum(map(len, manifest.splits.values()))} shards, no fault"
    )
