"""Beside each shard of windows: the number of word pieces of each of them.

Packing windows into rows needs all lengths of a split at once; the records, some
hundred times as large, need not be read for it.
"""

import pathlib
from collections.abc import Iterable

import numpy as np

from data_pipelines.manifest import Manifest
from seg_tf import files

LENGTHS_SUFFIX = ".lengths"
# A window has at most 65,535 positions.
_DTYPE = np.dtype("<u2")


def write(shard_path: pathlib.Path, lengths: Iterable[int]) -> None:
    """Writes the pieces of each window of a shard, in the order of its records."""
    with files.written_aside(lengths_path(shard_path)) as aside:
        np.fromiter(lengths, _DTYPE).tofile(aside)


def read_shard(shard_path: pathlib.Path) -> np.ndarray:
    """The pieces of each window of a shard: uint16 array.

    Raises:
        ValueError: if the file is missing, saying what to do.
    """
    path = lengths_path(shard_path)
    if not path.is_file():
        raise ValueError(
            f"{path}: the file is missing. The windows were built by an earlier "
            "version: run the same `python -m data_pipelines.build_windows` (or "
            "build_records) again, which adds it and leaves the rest as it is"
        )
    return np.fromfile(path, _DTYPE)


def read(manifest: Manifest, folder: pathlib.Path, split: str) -> np.ndarray:
    """The pieces of each window of a split: uint16 array.

    Raises:
        ValueError: if a file is missing or contradicts the manifest.
    """
    parts = [np.zeros(0, _DTYPE)]
    for shard in manifest.splits[split]:
        lengths = read_shard(folder / shard.file)
        found = (len(lengths), int(lengths.sum(dtype=np.int64)))
        if found != (shard.records, shard.pieces):
            raise ValueError(
                f"{lengths_path(folder / shard.file)}: expected {shard.records} "
                f"windows of {shard.pieces} pieces together, as the manifest says, "
                f"found {found[0]} of {found[1]}. The file was replaced or damaged; "
                "remove it and run `python -m data_pipelines.build_windows` again"
            )
        parts.append(lengths)
    return np.concatenate(parts)


def add_missing(manifest: Manifest, folder: pathlib.Path) -> None:
    """Writes the lengths of shards that an earlier version left without them."""
    for shards in manifest.splits.values():
        for shard in shards:
            path = folder / shard.file
            if not lengths_path(path).is_file():
                from data_pipelines import tree_shards

                trees = tree_shards.read_trees(path, manifest.number_widths)
                write(path, (len(tree.token_ids) for tree, _, _ in trees))


def lengths_path(shard_path: pathlib.Path) -> pathlib.Path:
    """The file of lengths beside a shard."""
    return shard_path.with_suffix(LENGTHS_SUFFIX)
