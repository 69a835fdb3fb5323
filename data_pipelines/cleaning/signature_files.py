"""Signatures of the documents of a corpus on disk, a few files for each slice.

Hashes lie in order, so that whoever compares the documents of a range of hashes reads
those alone.
"""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np

from data_pipelines.cleaning import buckets
from data_pipelines.cleaning.signatures import Signatures
from seg_tf import files

TEXT_COLUMN = 0
"""The column of the hashes of whole texts; that of band `b` is number `1 + b`."""

NUM_HASHES = 1 << 64
"""A hash is below this."""

# Signatures are compared by so many pairs at a time, 64 MB of them.
_PAIRS_AT_ONCE = 1 << 16


def save(
    folder: pathlib.Path, slice_number: int, first_id: int, found: Signatures
) -> None:
    """Writes the signatures of a slice.

    Args:
        folder: where to.
        slice_number: which slice.
        first_id: number of its first document.
        found: the signatures.
    """
    text_hashes = found.text_hashes.T
    hashes = np.concatenate([text_hashes[:1], found.band_hashes])
    order = np.argsort(hashes, axis=1, kind="stable")
    columns = {
        "places": (found.document_ids - first_id).astype(np.uint32),
        "signatures": found.signatures,
        "hashes": np.take_along_axis(hashes, order, axis=1),
        "rows": order.astype(np.uint32),
        "second_text_hashes": text_hashes[1],
    }
    for name, values in columns.items():
        with (
            files.written_aside(_path(folder, slice_number, name)) as aside,
            open(aside, "wb") as file,
        ):
            np.save(file, np.ascontiguousarray(values))


def _path(folder: pathlib.Path, slice_number: int, column: str) -> pathlib.Path:
    return folder / f"{column}-{slice_number:05d}.npy"


@dataclasses.dataclass(frozen=True)
class SignatureFiles:
    """The files of all slices; no more than what is asked for is held in memory.

    Args:
        folder: where `save` wrote them.
        first_ids: number of the first document of each slice, and at last that of the
            first document after the corpus; rising.
    """

    folder: pathlib.Path
    first_ids: Sequence[int]

    @property
    def num_documents(self) -> int:
        """Numbers of documents are below this."""
        return self.first_ids[-1]

    def num_columns(self) -> int:
        """Columns of hashes: that of texts, and one for each band."""
        return len(self._open(0, "hashes")) if len(self.first_ids) > 1 else 1

    def bucket_entries(
        self, column: int, first: int, last: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The documents of a range of buckets.

        Args:
            column: `TEXT_COLUMN` or that of a band.
            first: the lowest hash.
            last: the highest.

        Returns:
            uint64 array `(n,)` of hashes, or `(n, 2)` of texts, and int64 array
            `(n,)` of document numbers.
        """
        is_text = column == TEXT_COLUMN
        all_hashes = [np.zeros((0, 2) if is_text else 0, np.uint64)]
        all_ids = [np.zeros(0, np.int64)]
        for number, first_id in enumerate(self.first_ids[:-1]):
            in_order = self._open(number, "hashes")[column]
            begin = np.searchsorted(in_order, np.uint64(first))
            end = np.searchsorted(in_order, np.uint64(last), side="right")
            if begin == end:
                continue
            hashes = in_order[begin:end]
            rows = self._open(number, "rows")[column, begin:end]
            if is_text:
                second = self._open(number, "second_text_hashes")[rows]
                hashes = np.stack([hashes, second], axis=1)
            all_hashes.append(hashes)
            all_ids.append(first_id + self._open(number, "places")[rows].astype("i8"))
        return np.concatenate(all_hashes), np.concatenate(all_ids)

    def signatures(self, document_ids: np.ndarray) -> np.ndarray:
        """uint32 array `(m, 128)` of some documents, in any order."""
        slices = np.searchsorted(self.first_ids, document_ids, side="right") - 1
        width = self._open(0, "signatures").shape[1]
        found = np.empty((len(document_ids), width), np.uint32)
        for number in np.unique(slices):
            wanted = np.flatnonzero(slices == number)
            places = document_ids[wanted] - self.first_ids[number]
            rows = np.searchsorted(self._open(number, "places"), places)
            found[wanted] = self._open(number, "signatures")[rows]
        return found

    def _open(self, slice_number: int, column: str) -> np.ndarray:
        # Mapped, so that only what is wanted is read.
        return np.load(_path(self.folder, slice_number, column), mmap_mode="r")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Tells which pairs of documents are similar, by their numbers.

    Args:
        stored: their signatures.
        threshold: share of places in which similar ones agree.
    """

    stored: SignatureFiles
    threshold: float | None

    def __call__(self, later: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        """Bool array `(m,)`."""
        is_similar = np.zeros(len(later), bool)
        order = np.argsort(later)  # Neighbours lie in one file.
        for begin in range(0, len(later), _PAIRS_AT_ONCE):
            some = order[begin : begin + _PAIRS_AT_ONCE]
            is_similar[some] = buckets.are_similar(
                self.stored.signatures(later[some]),
                self.stored.signatures(earlier[some]),
                self.threshold,
            )
        return is_similar
