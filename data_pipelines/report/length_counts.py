"""Counts of lengths, with their mean, quantiles and histogram."""

import itertools
from collections import Counter

import numpy as np


class LengthCounts:
    """Counts lengths, in memory that grows with the distinct ones alone."""

    def __init__(self):
        self._counts: Counter[int] = Counter()

    def add(self, lengths: np.ndarray) -> None:
        """Counts some lengths, each at least 1."""
        values, counts = np.unique(lengths, return_counts=True)
        self._counts.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))

    @property
    def number(self) -> int:
        """Number of lengths that were counted."""
        return self._counts.total()

    @property
    def mean(self) -> float:
        total = sum(length * count for length, count in self._counts.items())
        return total / self.number

    @property
    def longest(self) -> int:
        return max(self._counts)

    def quantile(self, share: float) -> int:
        """The shortest length that at least this share does not exceed."""
        lengths, counts = zip(*sorted(self._counts.items()), strict=True)
        reached = np.cumsum(counts) >= share * self.number
        return lengths[np.argmax(reached)]

    def binned(self) -> list[tuple[int, int, int]]:
        """Two bins a doubling: 1, 2, 3, 4 to 5, 6 to 7, 8 to 11, 12 to 15 and so on.

        Returns:
            First length, last length and count of each bin, from that of the shortest
            length to that of the longest.
        """
        firsts = [1]
        for power in range(1, self.longest.bit_length() + 1):
            firsts += [2**power, 3 * 2 ** (power - 1)]
        return [
            (
                *(first, after - 1),
                sum(n for length, n in self._counts.items() if first <= length < after),
            )
            for first, after in itertools.pairwise(firsts)
            if after > min(self._counts) and first <= self.longest
        ]
