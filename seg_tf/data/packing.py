"""Packing of windows into rows, and the plans of rows on the disk.

Packing is best-fit decreasing over the histogram of lengths. Rows with the same lengths
are one pattern with a count, as in the histogram packing of Krell et al., 2021
("Efficient sequence packing without cross-contamination", arXiv:2107.02027). So the
work grows with the number of distinct lengths, not of windows, and the result is as
good as that of best-fit decreasing window by window.

A split with one group of shards is planned in memory, in seconds. A larger one is
planned group by group, in bounded memory, and only once: the arrays are stored next to
the manifest, and every rank and every later run maps them.
"""

import bisect
import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from seg_tf import command_line, files
from seg_tf.data import randomness
from seg_tf.data.manifest import PLANS_FOLDER, Manifest
from seg_tf.data.window_records import WindowRecords

# Windows, or sentences, after which a group of shards ends.
_GROUP_SIZE = 1 << 22
_DESCRIPTION = "plan.json"

Arrays = Mapping[str, np.ndarray]

# The lengths of a row's windows.
Pattern = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Packs:
    """Rows of windows or texts: row r is `members[offsets[r]:offsets[r + 1]]`."""

    offsets: np.ndarray
    members: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of_rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Members of rows `(B,)`, row by row, and their number: int64 arrays."""
        begins = self.offsets[rows]
        counts = self.offsets[rows + 1] - begins
        shifts = np.repeat(begins - (np.cumsum(counts) - counts), counts)
        return self.members[shifts + np.arange(len(shifts))], counts


def pack(lengths: np.ndarray, row_length: int, max_windows: int, *, seed: int) -> Packs:
    """Packs windows of `lengths` positions into few rows.

    `row_length` is at most 65,535. The seed's hash decides which window of a length
    goes where, so that rows mix the corpus. Raises a ValueError if a window is empty or
    longer than a row.
    """
    if len(lengths) and not 1 <= lengths.min() <= lengths.max() <= row_length:
        raise ValueError(
            f"`lengths` must lie between 1 and `row_length`={row_length}. Received: "
            f"{lengths.min()} to {lengths.max()}"
        )
    counts = np.bincount(lengths, minlength=row_length + 1)
    places, sizes = [np.zeros(0, np.uint16)], [np.zeros(1, np.int64)]
    for pattern, rows in _best_fit_decreasing(counts, row_length, max_windows):
        places.append(np.tile(np.array(pattern, np.uint16), rows))
        sizes.append(np.full(rows, len(pattern)))
    # The n-th place of a length takes the n-th window of that length.
    by_length = np.argsort(np.concatenate(places), kind="stable")
    stream = randomness.key(seed, randomness.PACKING)
    hashed = np.argsort(randomness.uniform_integers(stream, len(lengths)))
    windows = np.empty(len(lengths), np.int64)
    windows[by_length] = hashed[
        np.argsort(lengths[hashed].astype(np.uint16), kind="stable")
    ]
    return Packs(np.cumsum(np.concatenate(sizes)), windows)


def _best_fit_decreasing(
    counts: np.ndarray, row_length: int, max_windows: int
) -> Iterator[tuple[Pattern, int]]:
    """Yields patterns of rows with the number of rows of each."""
    spaces: list[int] = []  # rising
    by_space: dict[int, list[tuple[Pattern, int]]] = {}
    full_rows: list[tuple[Pattern, int]] = []

    def put(pattern: Pattern, count: int) -> None:
        space = row_length - sum(pattern)
        if not count:
            return
        if not space or len(pattern) == max_windows:
            full_rows.append((pattern, count))
            return
        if space not in by_space:
            bisect.insort(spaces, space)
            by_space[space] = []
        by_space[space].append((pattern, count))

    for length in range(row_length, 0, -1):
        left = int(counts[length])
        while left:
            pattern: Pattern = ()
            available = left
            tightest = bisect.bisect_left(spaces, length)
            if tightest < len(spaces):
                space = spaces[tightest]
                pattern, available = by_space[space].pop()
                if not by_space[space]:
                    del spaces[tightest], by_space[space]
            # Where one window fits best, the next of its length does too.
            space = row_length - sum(pattern)
            fitting = min(space // length, max_windows - len(pattern))
            full = min(available, left // fitting)
            put(pattern + (length,) * fitting, full)
            available, left = available - full, left - full * fitting
            if available and left:  # too few for another such row
                put(pattern + (length,) * left, 1)
                available, left = available - 1, 0
            if pattern:
                put(pattern, available)
    yield from full_rows
    for space in spaces:
        yield from by_space[space]


def groups_of_shards(manifest: Manifest, split: str, count: str) -> list[range]:
    """Consecutive shards of a split that are planned together; at least one group.

    A group is bounded by its `count` in the manifest, "records" or "sentences".
    """
    groups, first, size = [], 0, 0
    shards = manifest.splits[split]
    for number, shard in enumerate(shards):
        size += getattr(shard, count)
        if size >= _GROUP_SIZE:
            groups.append(range(first, number + 1))
            first, size = number + 1, 0
    if first < len(shards) or not groups:
        groups.append(range(first, len(shards)))
    return groups


def planned(
    windows: WindowRecords,
    groups: Sequence[range],
    parts: Iterator[Arrays],
    settings: Mapping[str, Any],
) -> Arrays:
    """The arrays of a plan, computed now or by an earlier call.

    The plan concatenates the arrays of all `parts`, one for each group of shards.
    `settings` are all other settings that determine it, as JSON.
    """
    if len(groups) == 1:
        return next(parts)
    shards = [vars(shard) for shard in windows.manifest.splits[windows.split]]
    content = json.dumps([settings, _GROUP_SIZE, shards], sort_keys=True)
    name = f"{windows.split}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    parent = windows.records_dir / PLANS_FOLDER
    with contextlib.suppress(OSError):
        parent.mkdir(exist_ok=True)
    if not os.access(parent, os.W_OK):
        parent = files.cache_dir() / PLANS_FOLDER
        parent.mkdir(parents=True, exist_ok=True)
    with files.locked(parent):  # Other ranks wait, and find the finished plan.
        if not (parent / name).exists():
            files.remove_leftovers(parent)
            _write(parent, name, groups, parts)
    return _map(parent / name)


def _write(
    parent: pathlib.Path, name: str, groups: Sequence[range], parts: Iterator[Arrays]
) -> None:
    logging.info("Planning the rows of %s, once for all runs", parent / name)
    description: dict[str, dict[str, Any]] = {}
    with (
        files.folder_aside(parent) as folder,
        command_line.progress_bar(len(groups), "plan of rows", " groups") as bar,
    ):
        for part in parts:
            for array_name, values in part.items():
                entry = {"dtype": values.dtype.str, "length": 0}
                description.setdefault(array_name, entry)["length"] += len(values)
                with open(folder / array_name, "ab") as file:
                    values.tofile(file)
            bar.update()
        files.write_json(folder / _DESCRIPTION, description)
        folder.replace(parent / name)


def _map(folder: pathlib.Path) -> Arrays:
    arrays = {}
    for name, entry in files.read_json(folder / _DESCRIPTION).items():
        dtype, length = np.dtype(entry["dtype"]), entry["length"]
        expected, size = length * dtype.itemsize, (folder / name).stat().st_size
        if size != expected:
            raise ValueError(
                f"{folder / name}: expected {expected} bytes, found {size}. The file "
                f"was damaged; remove {folder}, and the plan is computed again"
            )
        # A plain array that shares the map: items of a `memmap` are slow to read.
        arrays[name] = np.asarray(np.memmap(folder / name, dtype, mode="r"))
    return arrays
