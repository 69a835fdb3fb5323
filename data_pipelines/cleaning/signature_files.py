"""Signatures of all slices of a corpus on disk, and the duplicates among them."""

import dataclasses
import pathlib

import numpy as np

from data_pipelines.cleaning import buckets
from data_pipelines.cleaning.cleaning_options import NEAR, CleaningOptions
from data_pipelines.cleaning.signatures import Signatures
from seg_tf import files

# Signatures are compared by so many pairs at a time, 64 MB of them.
_PAIRS_AT_ONCE = 1 << 16
_COLUMNS = tuple(field.name for field in dataclasses.fields(Signatures))


def save(folder: pathlib.Path, slice_number: int, found: Signatures) -> None:
    """Writes the signatures of a slice."""
    for name in _COLUMNS:
        with (
            files.written_aside(_path(folder, slice_number, name)) as aside,
            open(aside, "wb") as file,
        ):
            np.save(file, np.ascontiguousarray(getattr(found, name)))


def _path(folder: pathlib.Path, slice_number: int, column: str) -> pathlib.Path:
    return folder / f"{column}-{slice_number:05d}.npy"


class SignatureFiles:
    """The files of all slices, read a column or a few rows at a time.

    Rows are documents, counted through all slices.

    Args:
        folder: where `save` wrote them.
        num_slices: how many slices there are.
    """

    def __init__(self, folder: pathlib.Path, num_slices: int):
        self._folder = folder
        self._num_slices = num_slices
        sizes = [len(ids) for ids in map(self._open_ids, range(num_slices))]
        self._firsts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])

    def document_ids(self) -> np.ndarray:
        """int64 array `(n,)`, rising."""
        parts = map(self._open_ids, self._numbers)
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def text_hashes(self) -> np.ndarray:
        """uint64 array `(n, 2)`."""
        parts = [self._open(number, "text_hashes") for number in self._numbers]
        return np.concatenate([np.zeros((0, 2), np.uint64), *parts])

    def num_bands(self) -> int:
        """The bands of each document."""
        return len(self._open(0, "band_hashes")) if self._num_slices else 0

    def band(self, band: int) -> np.ndarray:
        """uint64 array `(n,)`."""
        parts = [self._open(number, "band_hashes")[band] for number in self._numbers]
        return np.concatenate([np.zeros(0, np.uint64), *parts])

    def signatures(self, rows: np.ndarray) -> np.ndarray:
        """uint32 array `(m, 128)` of some rows, in any order."""
        slices = np.searchsorted(self._firsts, rows, side="right") - 1
        found = np.empty((len(rows), self._open(0, "signatures").shape[1]), np.uint32)
        for number in np.unique(slices):
            places = np.flatnonzero(slices == number)
            local_rows = rows[places] - self._firsts[number]
            found[places] = self._open(int(number), "signatures")[local_rows]
        return found

    @property
    def _numbers(self) -> range:
        return range(self._num_slices)

    def _open(self, slice_number: int, column: str) -> np.ndarray:
        # Mapped, so that of signatures only the rows that are wanted are read.
        return np.load(_path(self._folder, slice_number, column), mmap_mode="r")

    def _open_ids(self, slice_number: int) -> np.ndarray:
        return np.load(_path(self._folder, slice_number, "document_ids"))


def find_duplicates(
    stored: SignatureFiles, options: CleaningOptions
) -> tuple[np.ndarray, np.ndarray]:
    """The documents to drop, in memory of some numbers a document.

    Returns:
        Two int64 arrays: rising numbers of documents that repeat an earlier one, and of
        those that they repeat, which stay.
    """
    document_ids = stored.document_ids()
    rows = np.arange(len(document_ids))
    pairs = [buckets.pairs_in_buckets(stored.text_hashes(), rows)]
    compare = _Comparison(stored, options.duplicate_threshold)
    if options.duplicates == NEAR:
        for band in range(stored.num_bands()):
            pairs += buckets.similar_pairs(stored.band(band), rows, compare)
    later, earlier = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    dropped = buckets.without_what_stays(later, earlier, compare)
    return (
        document_ids[np.array(list(dropped), np.int64)],
        document_ids[np.array(list(dropped.values()), np.int64)],
    )


class _Comparison:
    """Tells which pairs of documents are similar, by their rows.

    Args:
        stored: their signatures.
        threshold: share of places in which similar ones agree.
    """

    def __init__(self, stored: SignatureFiles, threshold: float | None):
        self._stored = stored
        self._threshold = threshold

    def __call__(self, later: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        """Bool array `(m,)`."""
        is_similar = np.zeros(len(later), bool)
        order = np.argsort(later)  # Neighbours lie in one file.
        for begin in range(0, len(later), _PAIRS_AT_ONCE):
            some = order[begin : begin + _PAIRS_AT_ONCE]
            is_similar[some] = buckets.are_similar(
                self._stored.signatures(later[some]),
                self._stored.signatures(earlier[some]),
                self._threshold,
            )
        return is_similar
