"""Splits a corpus into slices, each of which becomes one shard per split.

The sources are read in order and their documents numbered. The slices depend only on
the text and the slice size.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from data_pipelines import readers
from data_pipelines.builds.losses import LossWatch, Rejections
from data_pipelines.builds.sources import SourceLedger

if TYPE_CHECKING:
    from data_pipelines.builds.documents import DocumentOptions


@dataclasses.dataclass(frozen=True)
class Cursor:
    """A position in the sources: the next item to read and the next document's id."""

    file_number: int = 0
    items_read: int = 0
    document_id: int = 0


@dataclasses.dataclass(frozen=True)
class Slice:
    """Consecutive documents of the corpus.

    Attributes:
        number: number of the slice, which names its shards and report.
        first_document_id: id of its first document.
        documents: the documents, as yielded by the reader's `read_unparsed`.
        rejected: documents in the same part of the corpus that the reader rejected.
        next: start of the next slice.
        num_bytes: approximate size in the sources, for progress bars.
    """

    number: int
    first_document_id: int
    documents: list[readers.Document | readers.UnparsedDocument]
    rejected: Rejections
    next: Cursor
    num_bytes: int = dataclasses.field(default=0, compare=False)

    def report(self, rejected: Rejections) -> dict[str, Any]:
        """Returns the slice's report. `rejected` includes rejections by `parse`."""
        return {
            "next": vars(self.next),
            "rejected": [dataclasses.asdict(item) for item in rejected.listed],
            "num_rejected_when_read": len(self.rejected.listed),
            "counted": rejected.counted,
        }


@dataclasses.dataclass(frozen=True)
class PlannedSlice:
    """The start and end of a slice in the sources."""

    number: int
    begin: Cursor
    end: Cursor

    def range_in(self, file_number: int) -> tuple[int, int | None]:
        """Returns start and stop of its items in a file. A stop of None is the end."""
        begin, end = self.begin, self.end
        return (
            begin.items_read if begin.file_number == file_number else 0,
            end.items_read if end.file_number == file_number else None,
        )


def plan_slices(
    limit: int,
    sizes: Iterable[Iterable[int | None]],
    begin: Cursor = Cursor(),
    number: int = 0,
) -> Iterator[PlannedSlice]:
    """Splits a corpus into slices of at least `limit` characters, except the last.

    The first slice is numbered `number` and starts at `begin`. `sizes` contains, for
    each file from there, document sizes in characters, or None for rejected documents.
    """
    characters, is_open = 0, False
    file_number, items_read, document_id = dataclasses.astuple(begin)
    for file_sizes in sizes:
        for size in file_sizes:
            items_read, is_open = items_read + 1, True
            if size is None:
                continue
            document_id += 1
            characters += size
            if characters >= limit:
                end = Cursor(file_number, items_read, document_id)
                yield PlannedSlice(number, begin, end)
                number, begin, characters, is_open = number + 1, end, 0, False
        file_number, items_read = file_number + 1, 0
    if is_open:
        yield PlannedSlice(number, begin, Cursor(file_number, 0, document_id))


def slices_by_file(plan: Iterable[PlannedSlice]) -> dict[int, list[PlannedSlice]]:
    """Maps each file number to the slices that may contain its documents, in order."""
    slices: dict[int, list[PlannedSlice]] = {}
    for planned in plan:
        for number in range(planned.begin.file_number, planned.end.file_number + 1):
            slices.setdefault(number, []).append(planned)
    return slices


def read_slices(
    options: DocumentOptions,
    ledger: SourceLedger,
    begin: Cursor = Cursor(),
    number: int = 0,
    watch: LossWatch | None = None,
) -> Iterator[Slice]:
    """Reads the sources from `begin` and yields slices, numbered from `number` on.

    Raises BuildError if a file has changed or `watch` finds too many lost documents.
    """
    watch = watch or LossWatch(options.max_rejected_share)
    reader = readers.get_reader(options.format, **options.reader_options)
    names = list(ledger.paths)
    documents: list[readers.Document | readers.UnparsedDocument] = []
    rejected, num_bytes = Rejections(), 0

    def item_sizes(file_number: int) -> Iterator[int | None]:
        nonlocal num_bytes
        name = names[file_number]
        skip = begin.items_read if file_number == begin.file_number else 0
        items = reader.read_unparsed(ledger.paths[name], name)
        unreported = ledger.sizes[name]
        for item in itertools.islice(items, skip, None):
            if isinstance(item, readers.RejectedDocument):
                rejected.add(item)
                watch.add(item)
                yield None
            else:
                documents.append(item)
                watch.add()
                # Characters approximate bytes. The remainder is added at the end.
                part = min(item.num_characters, unreported)
                num_bytes += part
                unreported -= part
                yield item.num_characters
        num_bytes += unreported

    sizes = map(item_sizes, range(begin.file_number, len(names)))
    for planned in plan_slices(options.slice_characters, sizes, begin, number):
        first, last = planned.begin.file_number, planned.end.file_number
        ledger.check_unchanged(names[first : last + 1])
        first_id, end = planned.begin.document_id, planned.end
        yield Slice(planned.number, first_id, documents, rejected, end, num_bytes)
        documents, rejected, num_bytes = [], Rejections(), 0


def parsed_documents(
    reader: readers.FileReader, payload: Slice, rejected: Rejections
) -> Iterator[tuple[int, readers.Document]]:
    """Yields the ids and parsed documents of a slice. Adds rejections to `rejected`."""
    for document_id, item in enumerate(payload.documents, payload.first_document_id):
        if isinstance(item, readers.UnparsedDocument):
            item = reader.parse(item)
        if isinstance(item, readers.RejectedDocument):
            rejected.add(item)
        else:
            yield document_id, item
