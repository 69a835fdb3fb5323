"""Slices of a corpus, from the sizes of its documents alone.

An engine that spreads reading over machines measures each file first, and plans from
that. The slices are those that `document_slices.read_slices` cuts while it reads: every
engine makes the same shards.
"""

import dataclasses
from collections.abc import Iterable, Iterator

from data_pipelines.builds.document_slices import Cursor


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

    def range_in(self, file_number: int) -> tuple[int, int | None]:
        """Items of a file before the slice's first one, and up to its last one.

        Returns:
            The two numbers; None in place of the second for the end of the file.
        """
        begin, end = self.begin, self.end
        return (
            begin.items_read if begin.file_number == file_number else 0,
            end.items_read if end.file_number == file_number else None,
        )


def plan_slices(
    limit: int, sizes: Iterable[Iterable[int | None]]
) -> Iterator[PlannedSlice]:
    """Cuts a corpus into slices; holds one file's sizes at a time.

    Args:
        limit: characters that end a slice.
        sizes: for each file in order, characters of each document, or None of one that
            the reader rejected.
    """
    number, begin, characters, is_open = 0, Cursor(), 0, False
    file_number, document_id = -1, 0
    for file_number, of_file in enumerate(sizes):
        for item_number, size in enumerate(of_file, 1):
            is_open = True
            if size is None:
                continue
            document_id += 1
            characters += size
            if characters >= limit:
                end = Cursor(file_number, item_number, document_id)
                yield PlannedSlice(number, begin, end)
                number, begin, characters, is_open = number + 1, end, 0, False
    if is_open:
        yield PlannedSlice(number, begin, Cursor(file_number + 1, 0, document_id))


def slices_of_files(plan: Iterable[PlannedSlice]) -> dict[int, list[PlannedSlice]]:
    """Number of a file -> the slices that may take documents from it, in order."""
    slices: dict[int, list[PlannedSlice]] = {}
    for planned in plan:
        for number in range(planned.begin.file_number, planned.end.file_number + 1):
            slices.setdefault(number, []).append(planned)
    return slices
