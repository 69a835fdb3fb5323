"""Pairs of similar documents, found by ranges of hashes, and what to drop of them.

A range is work of its own: it reads the documents whose hashes lie in it, and writes
their similar pairs to a file. So neither finding pairs nor choosing among them needs
memory that grows with the corpus.
"""

import dataclasses
import pathlib
from collections.abc import Iterator

import numpy as np

from data_pipelines.cleaning import buckets
from data_pipelines.cleaning.signature_files import (
    NUM_HASHES,
    TEXT_COLUMN,
    Comparison,
    SignatureFiles,
)
from seg_tf import files

# Documents that a range has about, some 250 MB where they are compared.
_DOCUMENTS_OF_RANGE = 1 << 22
# Pairs of so many documents are sorted at a time; each has at most one a column.
_DOCUMENTS_AT_ONCE = 1 << 18


@dataclasses.dataclass(frozen=True)
class HashRange:
    """Buckets whose documents are compared together.

    Attributes:
        number: which of all ranges.
        column: which of the hashes of `SignatureFiles`.
        first: the lowest hash.
        last: the highest.
    """

    number: int
    column: int
    first: int
    last: int


def hash_ranges(stored: SignatureFiles) -> list[HashRange]:
    """The ranges of all columns, for a corpus of this size."""
    parts = max(1, -(-stored.num_documents // _DOCUMENTS_OF_RANGE))
    begins = [part * NUM_HASHES // parts for part in range(parts + 1)]
    return [
        HashRange(column * parts + part, column, begins[part], begins[part + 1] - 1)
        for column in range(stored.num_columns())
        for part in range(parts)
    ]


def write_pairs(of: HashRange, compare: Comparison, folder: pathlib.Path) -> int:
    """Finds the similar pairs of a range; returns how many were written."""
    hashes, document_ids = compare.stored.bucket_entries(of.column, of.first, of.last)
    if of.column == TEXT_COLUMN:
        places = buckets.pairs_in_buckets(hashes, document_ids)
        later, earlier = (document_ids[place] for place in places)
    else:
        later, earlier = buckets.similar_pairs(hashes, document_ids, compare)
    order = np.lexsort((earlier, later))
    with (
        files.written_aside(_path(folder, of.number)) as aside,
        open(aside, "wb") as file,
    ):
        np.save(file, np.stack([later[order], earlier[order]]))
    return len(order)


def _path(folder: pathlib.Path, number: int) -> pathlib.Path:
    return folder / f"pairs-{number:05d}.npy"


def write_duplicates(
    path: pathlib.Path, pairs_dir: pathlib.Path, num_ranges: int, compare: Comparison
) -> None:
    """Chooses which documents go, given the pairs of all ranges.

    Args:
        path: gets an int64 array `(2, n)`: rising numbers of documents that repeat an
            earlier one, and of those that they repeat, which stay.
        pairs_dir: where the pairs lie; a file of one number a document goes there.
        num_ranges: the number of ranges.
        compare: compares documents.
    """
    num_documents = compare.stored.num_documents
    repeats = _new_array(pairs_dir / "repeats.npy", (num_documents,))
    for begin in range(0, num_documents, _DOCUMENTS_AT_ONCE):
        repeats[begin : begin + _DOCUMENTS_AT_ONCE] = -1
    pairs = _sorted_pairs(pairs_dir, num_ranges, num_documents)
    num_dropped = buckets.choose_what_stays(pairs, compare, repeats)
    with files.written_aside(path) as aside:
        found, filled = _new_array(aside, (2, num_dropped)), 0
        for begin in range(0, num_documents, _DOCUMENTS_AT_ONCE):
            some = repeats[begin : begin + _DOCUMENTS_AT_ONCE]
            dropped = np.flatnonzero(some >= 0)
            end = filled + len(dropped)
            found[:, filled:end] = begin + dropped, some[dropped]
            filled = end
        found.flush()


def _new_array(path: pathlib.Path, shape: tuple[int, ...]) -> np.memmap:
    return np.lib.format.open_memmap(path, mode="w+", dtype=np.int64, shape=shape)


def _sorted_pairs(
    folder: pathlib.Path, num_ranges: int, num_documents: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The pairs of all ranges, each once, by the later and then the earlier one."""
    for begin in range(0, num_documents, _DOCUMENTS_AT_ONCE):
        limits = [begin, begin + _DOCUMENTS_AT_ONCE]
        parts = [np.zeros((0, 2), np.int64)]
        for number in range(num_ranges):
            pairs = np.load(_path(folder, number), mmap_mode="r")
            first, end = np.searchsorted(pairs[0], limits)
            parts.append(pairs[:, first:end].T)
        later, earlier = np.unique(np.concatenate(parts), axis=0).T
        yield later, earlier
