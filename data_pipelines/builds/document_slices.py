"""The documents of a corpus in slices, each of which becomes one shard of a split.

One process reads the sources, numbers the documents and cuts; what a slice takes from
the sources depends on nothing but their text.
"""

import dataclasses
from collections.abc import Iterator, Mapping

from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.losses import Losses, LossWatch
from data_pipelines.builds.sharded_build import SliceTask
from data_pipelines.builds.source_checksums import SourceLedger
from data_pipelines.readers import (
    COUNTED_REASONS,
    LEFT_OUT_REASONS,
    Document,
    FileReader,
    RejectedDocument,
    UnparsedDocument,
    get_reader,
)
from seg_tf import file_listing


@dataclasses.dataclass(frozen=True)
class Cursor:
    """Position to continue reading at: the next document of the sources."""

    file_number: int = 0
    items_read: int = 0
    document_id: int = 0


@dataclasses.dataclass
class Rejections:
    """Documents that were not read.

    Attributes:
        listed: those that users want to see, as dicts.
        counted: reason -> number of those that are as they should be.
        losses: those that are a loss.
    """

    listed: list[dict] = dataclasses.field(default_factory=list)
    counted: dict[str, int] = dataclasses.field(default_factory=dict)
    losses: Losses = dataclasses.field(default_factory=Losses)

    def add(self, item: RejectedDocument) -> None:
        """Lists a document or counts it."""
        self.losses.add(item)
        if item.reason in COUNTED_REASONS:
            self.counted[item.reason] = self.counted.get(item.reason, 0) + 1
        else:
            listed = dataclasses.asdict(item)
            del listed["lost_of_file"]
            self.listed.append(listed)

    def __bool__(self) -> bool:
        return bool(self.listed or self.counted)


@dataclasses.dataclass(frozen=True)
class Slice:
    """Consecutive documents of the corpus, made into one shard a split.

    Attributes:
        number: which slice.
        first_document_id: number of its first document; the others follow.
        documents: what a reader's `read_unparsed` yields.
        rejected: the documents that the reader rejected among them.
        next: where the next slice begins.
    """

    number: int
    first_document_id: int
    documents: list[Document | UnparsedDocument]
    rejected: Rejections
    next: Cursor

    def described(self) -> dict:
        """Facts on a finished slice that the next command needs, JSON-able."""
        return {"next": vars(self.next), "losses": self.rejected.losses.described()}


def resume_point(reports: Mapping[int, dict]) -> tuple[int, Cursor]:
    """The first slice without a report, and where in the sources it begins."""
    number = 0
    while number in reports:
        number += 1
    return number, Cursor(**reports[number - 1]["next"]) if number else Cursor()


def read_slices(
    options: DocumentOptions,
    sources: Mapping[str, file_listing.Path],
    start: Cursor,
    number: int,
    ledger: SourceLedger | None = None,
    watch: LossWatch | None = None,
) -> Iterator[SliceTask]:
    """Reads the sources from `start` and cuts them into slices.

    The file that `start` lies in is read from its beginning.

    Args:
        options: the build's options.
        sources: name -> path of every source file, in order (`list_sources`).
        start: where slice `number` begins.
        number: number of the first slice.
        ledger: takes the checksums of what is read; None keeps none.
        watch: is told of each document, and stops the reading if too many are lost.

    Yields:
        Tasks whose payload is a `Slice`.

    Raises:
        BuildError: with `options.strict`, at the first rejected document; if a file
            has changed since the ledger's checksum of it was taken; or what `watch`
            raises.
    """
    ledger = ledger or SourceLedger(sources)
    limit = options.slice_characters
    reader = get_reader(options.format, **options.reader_options)
    slice_begin = document_id = start.document_id
    documents, rejected, characters, progress = [], Rejections(), 0, 0
    for file_number, name in enumerate(sources):
        if file_number < start.file_number:
            continue
        skip = start.items_read if file_number == start.file_number else 0
        read = ledger.open(file_number)
        unreported = read.num_bytes
        for item_number, item in enumerate(read.items(reader, name), 1):
            if item_number <= skip:
                continue
            if isinstance(item, RejectedDocument):
                check_strict(options, item)
                rejected.add(item)
                if watch is not None:
                    watch.add_rejected(item)
                continue
            documents.append(item)
            document_id += 1
            if watch is not None:
                watch.add_document()
            size = item.num_characters
            characters += size
            # Characters stand for bytes within a file, corrected at its end.
            progress += min(size, unreported)
            unreported -= min(size, unreported)
            if characters >= limit:
                next_cursor = Cursor(file_number, item_number, document_id)
                ledger.note(file_number, read)
                ledger.save()
                yield _task(
                    number, slice_begin, documents, rejected, next_cursor, progress
                )
                number, slice_begin = number + 1, document_id
                documents, rejected = [], Rejections()
                characters = progress = 0
        ledger.note_whole(file_number, read.checksum.hexdigest())
        progress += unreported
    ledger.save()
    if documents or rejected:
        end = Cursor(len(sources), 0, document_id)
        yield _task(number, slice_begin, documents, rejected, end, progress)


def _task(
    number: int,
    first_document_id: int,
    documents: list[Document | UnparsedDocument],
    rejected: Rejections,
    next_cursor: Cursor,
    progress: int,
) -> SliceTask:
    payload = Slice(number, first_document_id, documents, rejected, next_cursor)
    return SliceTask(number, payload, progress)


def check_strict(options: DocumentOptions, item: RejectedDocument) -> None:
    """Raises BuildError at a rejected document, where `--strict` wants it."""
    if options.strict and item.reason not in LEFT_OUT_REASONS:
        raise BuildError(f"{item}. Stopped, as --strict wants")


def parsed_documents(
    options: DocumentOptions,
    reader: FileReader,
    payload: Slice,
    rejected: Rejections,
) -> Iterator[tuple[int, Document]]:
    """The documents of a slice, parsed, with their numbers.

    Args:
        options: the build's options.
        reader: the reader that they are from.
        payload: the slice.
        rejected: takes the documents that cannot be parsed.

    Raises:
        BuildError: with `options.strict`, at the first rejected document.
    """
    for document_id, item in enumerate(payload.documents, payload.first_document_id):
        if isinstance(item, UnparsedDocument):
            item = reader.parse(item)
        if isinstance(item, RejectedDocument):
            check_strict(options, item)
            rejected.add(item)
            continue
        yield document_id, item
