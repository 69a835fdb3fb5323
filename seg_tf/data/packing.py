"""Packs windows into rows, in groups of shards to limit memory.

Packing is best-fit decreasing over the histogram of lengths. Rows with the same lengths
are represented by one pattern with a count, as in the histogram packing of Krell et
al., 2021 ("Efficient sequence packing without cross-contamination", arXiv:2107.02027).
The search for patterns depends on the number of distinct lengths, not on the number of
windows, and rows are as full as if windows were packed one by one.
"""

import bisect
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np

from seg_tf.data import randomness
from seg_tf.data.manifest import Manifest

# Number of windows or sentences after which a group of shards ends.
_GROUP_SIZE = 1 << 22

# Lengths of the windows of a row.
Pattern = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Packs:
    """Rows of window or text indices. Row r is `members[offsets[r]:offsets[r + 1]]`."""

    offsets: np.ndarray
    members: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of_rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the concatenated members of rows `(n,)`, and row sizes, `(n,)`."""
        begins = self.offsets[rows]
        counts = self.offsets[rows + 1] - begins
        shifts = np.repeat(begins - (np.cumsum(counts) - counts), counts)
        return self.members[shifts + np.arange(len(shifts))], counts

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenates parts, renumbering the members of all but the first."""
        firsts = np.cumsum([0, *(len(part.members) for part in parts)])
        shifted = [
            (first + part.offsets[:-1], first + part.members)
            for first, part in zip(firsts, parts, strict=False)
        ]
        offsets, members = zip(*shifted, strict=True)
        return cls(np.concatenate([*offsets, firsts[-1:]]), np.concatenate(members))


def pack(lengths: np.ndarray, row_length: int, max_windows: int, *, seed: int) -> Packs:
    """Packs windows into few rows of at most `max_windows` windows each.

    `lengths`, int `(W,)`, are from 1 to `row_length`, itself at most 65,535. Windows of
    equal length are assigned to rows in an order drawn with `seed`, so that a row mixes
    documents. Returns rows of indices into `lengths`.
    """
    counts = np.bincount(lengths, minlength=row_length + 1)
    places, sizes = [np.zeros(0, np.uint16)], [np.zeros(1, np.int64)]
    for pattern, rows in _best_fit_decreasing(counts, row_length, max_windows):
        places.append(np.tile(np.array(pattern, np.uint16), rows))
        sizes.append(np.full(rows, len(pattern)))
    # Slot n for a length receives window n of that length.
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
    """Yields patterns with their numbers of rows, given window counts by length."""
    spaces: list[int] = []  # ascending
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
            # Where one window fits best, the next window of that length does too.
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
    """Returns ranges of consecutive shards to pack together, at least one range.

    A range ends when the sum of its `count`, "records" or "sentences", reaches a limit.
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
