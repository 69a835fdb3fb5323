"""Says whether two folders hold the same records, in whatever shards and order.

  python -m data_pipelines.compare_records --records_dir=records --other_dir=other

Of builds with the same options every file is equal, whichever engine built them; this
command also compares builds that cut the corpus into other shards (another
--slice_megabytes) or that copies were made of. It prints what differs in the manifests,
but for that, and which documents have other records, and exits with 1 if there is a
difference. It takes 8 bytes of memory a document.
"""

import dataclasses
import hashlib
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import flags

from data_pipelines.records import examples, mirrors, shards
from data_pipelines.records.manifest import COUNTS, SPLITS, Manifest, shard_paths
from seg_tf import command_line

_SHOWN_DOCUMENTS = 10
_FIRST_SIZE = 1 << 16
# Options that say into which shards records go, not what they are; the manifest of the
# documents lists their shards.
_OPTIONS_OF_SHARDS = frozenset({"slice_megabytes", "documents_manifest_sha256"})


def differences(folder: pathlib.Path, other: pathlib.Path) -> Iterator[str]:
    """Compares two sets of records.

    Args:
        folder: what a build made.
        other: what another build made.

    Yields:
        One line for each difference.

    Raises:
        ValueError: if a folder has no readable manifest, or a shard is damaged.
    """
    manifests = Manifest.load(folder), Manifest.load(other)
    for field in dataclasses.fields(Manifest):
        if field.name == "splits":
            continue  # Compared by their counts and records.
        found, expected = (_compared(manifest, field.name) for manifest in manifests)
        if found != expected:
            yield f"manifest, {field.name}: {found!r} and {expected!r}"
    for split in SPLITS:
        for name in COUNTS:
            counts = [manifest.count(name, split) for manifest in manifests]
            if counts[0] != counts[1]:
                yield f"{split}: {counts[0]:,} and {counts[1]:,} {name}"
        of_folder = _sums_of_documents(manifests[0], folder, split)
        of_other = _sums_of_documents(manifests[1], other, split)
        yield from _different_documents(split, of_folder, of_other)


def _compared(manifest: Manifest, field: str) -> Any:
    """The part of a manifest's field that must agree between equal records."""
    value = getattr(manifest, field)
    if field != "options":
        return value
    return {name: value[name] for name in value if name not in _OPTIONS_OF_SHARDS}


def _different_documents(
    split: str, of_folder: np.ndarray, of_other: np.ndarray
) -> Iterator[str]:
    size = max(len(of_folder), len(of_other))
    of_folder, of_other = _padded(of_folder, size), _padded(of_other, size)
    different = np.flatnonzero(of_folder != of_other)
    if not len(different):
        return
    shown = ", ".join(map(str, different[:_SHOWN_DOCUMENTS]))
    more = ", …" if len(different) > _SHOWN_DOCUMENTS else ""
    yield f"{split}: {len(different):,} documents have other records: {shown}{more}"


def _sums_of_documents(
    manifest: Manifest, folder: pathlib.Path, split: str
) -> np.ndarray:
    """For each document a number that any change of its records changes.

    It is the sum of hashes of its records, which does not depend on their order; 0
    for a document that has none.
    """
    sums = np.zeros(_FIRST_SIZE, np.uint64)
    for path in shard_paths(manifest, folder, split):
        for record in shards.RecordReader([path], in_order=True):
            _, document_id, _ = examples.decode(record, manifest.number_widths)
            if document_id >= len(sums):
                sums = _padded(sums, max(2 * len(sums), document_id + 1))
            digest = hashlib.blake2b(record, digest_size=8).digest()
            total = int(sums[document_id]) + int.from_bytes(digest, "little")
            sums[document_id] = total % (1 << 64)
    return sums


def _padded(sums: np.ndarray, size: int) -> np.ndarray:
    return np.pad(sums, (0, size - len(sums)))


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    folder, other = map(mirrors.local_records, (values.records_dir, values.other_dir))
    num_differences = 0
    for line in differences(folder, other):
        print(line)
        num_differences += 1
    if num_differences:
        sys.exit(f"error: {num_differences} differences between {folder} and {other}")
    manifest = Manifest.load(folder)
    counts = ", ".join(
        f"{manifest.count('records', split):,} of {split}" for split in SPLITS
    )
    print(f"{folder} and {other} hold the same records: {counts}")


if __name__ == "__main__":
    flags.DEFINE_string(
        "records_dir", None, "Folder with manifest.json.", required=True
    )
    flags.DEFINE_string("other_dir", None, "Another one.", required=True)
    sys.exit(command_line.run(main))
