"""Packing of windows into rows: best-fit decreasing over the histogram of lengths.

Rows that hold the same lengths are one pattern with a count, as in the histogram
packing of Krell et al., 2021 ("Efficient sequence packing without
cross-contamination", arXiv:2107.02027). So the work grows with the number of distinct
lengths, not with that of windows, and the result is as good as that of best-fit
decreasing window by window.
"""

import bisect
import dataclasses
from collections.abc import Iterator

import numpy as np

from seg_tf.data import randomness

# The lengths of a row's windows.
Pattern = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Packs:
    """Rows of windows (or texts), each in exactly one of them.

    Attributes:
        offsets: int64 array `(rows + 1,)`; row `r` holds
            `members[offsets[r]:offsets[r + 1]]`.
        members: int64 array of numbers.
    """

    offsets: np.ndarray
    members: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of_rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Members of some rows.

        Args:
            rows: int64 array `(B,)`.

        Returns:
            Two int64 arrays: the members, row by row, and how many each row has.
        """
        begins = self.offsets[rows]
        counts = self.offsets[rows + 1] - begins
        shifts = np.repeat(begins - (np.cumsum(counts) - counts), counts)
        return self.members[shifts + np.arange(len(shifts))], counts


def pack(lengths: np.ndarray, row_length: int, max_windows: int, *, seed: int) -> Packs:
    """Packs windows into few rows.

    Which of the windows of a length goes where is drawn by a hash of their numbers, so
    a row does not hold neighbours of the corpus.

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
    windows = np.empty(len(lengths), np.int64)
    windows[by_length] = _ordered_by_length(lengths, seed)
    return Packs(np.cumsum(np.concatenate(sizes)), windows)


def _ordered_by_length(lengths: np.ndarray, seed: int) -> np.ndarray:
    """Window numbers by length, those of one length in hashed order."""
    stream = randomness.key(seed, randomness.PACKING)
    hashed = np.argsort(randomness.uniform_integers(stream, len(lengths)))
    return hashed[np.argsort(lengths[hashed].astype(np.uint16), kind="stable")]


def _best_fit_decreasing(
    counts: np.ndarray, row_length: int, max_windows: int
) -> Iterator[tuple[Pattern, int]]:
    """Patterns of rows, and the number of rows of each.

    The longest window left goes where it leaves the least space, or into a new row.

    Args:
        counts: `counts[n]` windows take n positions.
        row_length: positions of a row.
        max_windows: the most windows of a row.
    """
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
