"""Where the slices of a corpus begin and end, from the sizes of its documents alone.

An engine that spreads reading over machines measures each file first, with 8 bytes a
document as the result, and plans from that. The slices are those that
`document_slices.read_slices` cuts while it reads: every engine makes the same shards.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

import numpy as np

from data_pipelines.builds.document_slices import Cursor

REJECTED = -1
"""Stands for the size of a document that the reader rejected, as lower numbers do."""


@dataclasses.dataclass(frozen=True)
class PlannedSlice:
    """One slice: the documents from one place in the sources up to another.

    Attributes:
        number: which slice.
        begin: where it begins.
        end: where the next one begins.
    """

    number: int
    begin: Cursor
    end: Cursor


@dataclasses.dataclass(frozen=True)
class FilePart:
    """What a slice takes from one file.

    Attributes:
        slice: the slice.
        first: items of the file before its first one.
        last: items of the file up to its last one, this one included.
    """

    slice: PlannedSlice
    first: int
    last: int


def plan_slices(limit: int, sizes: Iterable[np.ndarray]) -> Iterator[PlannedSlice]:
    """Cuts a corpus into slices; holds one file's sizes at a time.

    Args:
        limit: characters that end a slice.
        sizes: for each file in order, characters of each document, or `REJECTED`
            or a lower number.
    """
    limit = max(limit, 1)
    number, begin, characters, num_items = 0, Cursor(), 0, 0
    document_id = num_files = 0
    for file_number, of_file in enumerate(sizes):
        num_files += 1
        is_document = of_file > REJECTED
        totals = np.cumsum(np.where(is_document, of_file, 0), dtype=np.int64)
        ranks = np.cumsum(is_document)
        # Characters of this slice are `characters` and those since `position`.
        position = before = 0
        while True:
            # The first document with which the slice is full.
            last = int(np.searchsorted(totals, before + limit - characters))
            if last == len(totals):
                break
            position = last + 1
            end = Cursor(file_number, position, document_id + int(ranks[last]))
            yield PlannedSlice(number, begin, end)
            number, begin, characters, num_items = number + 1, end, 0, 0
            before = int(totals[last])
        num_items += len(of_file) - position
        if len(of_file):
            characters += int(totals[-1]) - before
            document_id += int(ranks[-1])
    if num_items:
        yield PlannedSlice(number, begin, Cursor(num_files, 0, document_id))


def parts_of_files(
    slices: Iterable[PlannedSlice], num_items: Sequence[int], done: Set[int]
) -> Mapping[int, list[FilePart]]:
    """What has to be read of each file, in order.

    Args:
        slices: the plan.
        num_items: documents of each file, rejected ones included.
        done: numbers of the slices that are not wanted any more.

    Returns:
        Number of a file -> its parts; files of which nothing is wanted are left out.
    """
    parts: dict[int, list[FilePart]] = {}
    for planned in slices:
        if planned.number in done:
            continue
        begin, end = planned.begin, planned.end
        for file_number in range(begin.file_number, end.file_number + 1):
            if file_number == len(num_items):
                continue  # The end of the corpus.
            is_first = file_number == begin.file_number
            is_last = file_number == end.file_number
            first = begin.items_read if is_first else 0
            last = end.items_read if is_last else num_items[file_number]
            if first < last:
                parts.setdefault(file_number, []).append(FilePart(planned, first, last))
    return parts
