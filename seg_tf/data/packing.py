"""Packing of windows into rows, and the plans of rows that are kept on the disk.

Packing is best-fit decreasing over the histogram of lengths. Rows that hold the same
lengths are one pattern with a count, as in the histogram packing of Krell et al., 2021
("Efficient sequence packing without cross-contamination", arXiv:2107.02027). So the
work grows with the number of distinct lengths, not with that of windows, and the result
is as good as that of best-fit decreasing window by window.

A split of one group of shards is planned in memory, in seconds. A larger one is planned
group by group, so that memory does not grow with it, and only once: the arrays lie
beside the manifest, and every rank and every later run maps them.
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

# A group is at least of so many windows, or sentences, if there are as many.
_ENOUGH_FOR_A_GROUP = 1 << 22
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
        """Members of rows `(B,)`, row by row, and how many each has: int64 arrays."""
        begins = self.offsets[rows]
        counts = self.offsets[rows + 1] - begins
        shifts = np.repeat(begins - (np.cumsum(counts) - counts), counts)
        return self.members[shifts + np.arange(len(shifts))], counts


def pack(lengths: np.ndarray, row_length: int, max_windows: int, *, seed: int) -> Packs:
    """Packs windows into few rows.

    Which window of a length goes where is hashed, so that rows mix the corpus.

    Args:
        lengths: int array, positions that each window takes.
        row_length: positions of a row, at most 65,535.
        max_windows: the most windows of a row.
        seed: names the draw.

    Raises:
        ValueError: if a window is empty or longer than a row.
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
    """Patterns of rows, and the number of rows of each."""
    rows = _Rows(row_length, max_windows)
    for length in range(row_length, 0, -1):
        left = int(counts[length])
        while left:
            pattern, available = rows.take_tightest(length) or ((), left)
            # Where one window fits best, the next of its length does too.
            space = row_length - sum(pattern)
            fitting = min(space // length, max_windows - len(pattern))
            full = min(available, left // fitting)
            rows.put(pattern + (length,) * fitting, full)
            available, left = available - full, left - full * fitting
            if available and left:  # too few for another such row
                rows.put(pattern + (length,) * left, 1)
                available, left = available - 1, 0
            if pattern:
                rows.put(pattern, available)
    yield from rows.patterns()


class _Rows:
    """Patterns of rows with a count, found by the space they have left."""

    def __init__(self, row_length: int, max_windows: int):
        self._row_length = row_length
        self._max_windows = max_windows
        self._spaces: list[int] = []  # rising
        self._by_space: dict[int, list[tuple[Pattern, int]]] = {}
        self._full: list[tuple[Pattern, int]] = []

    def put(self, pattern: Pattern, count: int) -> None:
        space = self._row_length - sum(pattern)
        if not count:
            return
        if not space or len(pattern) == self._max_windows:
            self._full.append((pattern, count))
            return
        if space not in self._by_space:
            bisect.insort(self._spaces, space)
            self._by_space[space] = []
        self._by_space[space].append((pattern, count))

    def take_tightest(self, length: int) -> tuple[Pattern, int] | None:
        """Removes rows with the least space that takes `length`; None if none does."""
        at = bisect.bisect_left(self._spaces, length)
        if at == len(self._spaces):
            return None
        space = self._spaces[at]
        found = self._by_space[space].pop()
        if not self._by_space[space]:
            del self._spaces[at], self._by_space[space]
        return found

    def patterns(self) -> Iterator[tuple[Pattern, int]]:
        yield from self._full
        for space in self._spaces:
            yield from self._by_space[space]


def groups_of_shards(manifest: Manifest, split: str, count: str) -> list[range]:
    """Consecutive shards of a split that are planned together; at least one group.

    What bounds a group is its `count` in the manifest, "records" or "sentences".
    """
    groups, first, size = [], 0, 0
    shards = manifest.splits[split]
    for number, shard in enumerate(shards):
        size += getattr(shard, count)
        if size >= _ENOUGH_FOR_A_GROUP:
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
    """The arrays of a plan, made now or by an earlier call.

    Args:
        windows: the windows of the split.
        groups: what it is made of.
        parts: makes the part of each group, one after the other; the arrays of all
            parts, one after the other, are the plan.
        settings: what else it depends on, as JSON has it.

    Raises:
        ValueError: if a plan that lies there is damaged.
    """
    if len(groups) == 1:
        return next(parts)
    shards = [vars(shard) for shard in windows.manifest.splits[windows.split]]
    content = json.dumps([settings, _ENOUGH_FOR_A_GROUP, shards], sort_keys=True)
    name = f"{windows.split}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    parent = _plans_folder(windows.records_dir)
    with files.locked(parent):  # Others wait, and find the plan made.
        if not (parent / name).exists():
            files.remove_leftovers(parent)
            _write(parent, name, groups, parts)
    return _map(parent / name)


def _plans_folder(records_dir: pathlib.Path) -> pathlib.Path:
    """A folder for plans: that of the records, or if it is read-only, the user's."""
    folder = records_dir / PLANS_FOLDER
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    folder = files.cache_dir() / PLANS_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(
    parent: pathlib.Path, name: str, groups: Sequence[range], parts: Iterator[Arrays]
) -> None:
    logging.info("Planning the rows of %s, once for all runs", parent / name)
    found: dict[str, dict[str, Any]] = {}
    with (
        files.folder_aside(parent) as folder,
        command_line.progress_bar(len(groups), "plan of rows", " groups") as bar,
    ):
        for part in parts:
            for array_name, values in part.items():
                described = found.setdefault(
                    array_name, {"dtype": values.dtype.str, "length": 0}
                )
                if values.dtype.str != described["dtype"]:
                    raise TypeError(f"{array_name}: {described}, then {values.dtype}")
                described["length"] += len(values)
                with open(folder / array_name, "ab") as file:
                    values.tofile(file)
            bar.update()
        files.write_json(folder / _DESCRIPTION, found)
        folder.replace(parent / name)


def _map(folder: pathlib.Path) -> Arrays:
    arrays = {}
    for name, described in files.read_json(folder / _DESCRIPTION).items():
        dtype, length = np.dtype(described["dtype"]), described["length"]
        expected, found = length * dtype.itemsize, (folder / name).stat().st_size
        if found != expected:
            raise ValueError(
                f"{folder / name}: expected {expected} bytes, found {found}. The file "
                f"was damaged; remove {folder}, and the plan is made again"
            )
        # A plain array that shares the map: items of a `memmap` are slow to take.
        arrays[name] = np.asarray(np.memmap(folder / name, dtype, mode="r"))
    return arrays
