"""How often each length occurs, and what people want to know of that."""

import numpy as np


class LengthCounts:
    """Counts lengths, in memory that grows with the distinct ones alone."""

    def __init__(self):
        self._counts: dict[int, int] = {}

    def add(self, lengths: np.ndarray) -> None:
        """Counts some lengths, each at least 1."""
        values, counts = np.unique(lengths, return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            self._counts[value] = self._counts.get(value, 0) + count

    @property
    def number(self) -> int:
        """How many lengths were counted."""
        return sum(self._counts.values())

    @property
    def mean(self) -> float:
        total = sum(length * count for length, count in self._counts.items())
        return total / self.number

    @property
    def longest(self) -> int:
        return max(self._counts)

    def quantile(self, share: float) -> int:
        """The shortest length that at least such a share does not exceed."""
        lengths = np.array(sorted(self._counts))
        counts = np.array([self._counts[length] for length in lengths.tolist()])
        reached = np.cumsum(counts) >= share * counts.sum()
        return int(lengths[np.argmax(reached)])

    def binned(self) -> list[tuple[int, int, int]]:
        """Two bins a doubling: 1, 2, 3, 4 to 5, 6 to 7, 8 to 11, 12 to 15 and so on.

        Returns:
            First length, last length and count of each bin, from that of the shortest
            length to that of the longest.
        """
        firsts, power = [1], 2
        while firsts[-1] <= self.longest:
            firsts += [power, power + power // 2]
            power *= 2
        lengths = np.array(list(self._counts))
        counts = np.array(list(self._counts.values()))
        totals, _ = np.histogram(lengths, bins=firsts, weights=counts)
        bins = zip(firsts[:-1], np.array(firsts[1:]) - 1, totals, strict=True)
        return [
            (first, int(last), int(count))
            for first, last, count in bins
            if last >= min(self._counts) and first <= self.longest
        ]
