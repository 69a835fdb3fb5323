"""Documents and rejections that readers yield, and the readers' base classes."""

import dataclasses
import io
import os
from collections.abc import Iterable, Iterator
from typing import ClassVar

from data_pipelines.readers.errors import DocumentError
from data_pipelines.readers.io import byte_streams, transcoding
from data_pipelines.readers.io.passed_over import PassedOver
from seg_tf import file_listing

WHOLE_FILE = "whole file"
MAX_DOCUMENT_MEGABYTES = 256.0
COUNTED_REASONS = frozenset(("other_namespace", "redirect"))
"""Of these there may be as many as documents: a build counts them and lists none."""
LEFT_OUT_REASONS = COUNTED_REASONS | {"empty_document"}
"""Reasons of rejections that are no fault of a document: not what was asked for."""


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """One text: its paragraphs in order.

    Attributes:
        paragraphs: each a single line with text in it; never empty.
        source: the file, as a POSIX path relative to the input's root, so that
            it is the same on every machine.
        location: where in the file, for example `"doc id=12, line 1"`.
        title: the text's title where the format has one, else `""`.
    """

    paragraphs: tuple[str, ...]
    source: str
    location: str
    title: str = ""

    @property
    def num_characters(self) -> int:
        """Characters of all paragraphs, without separators."""
        return sum(map(len, self.paragraphs))


@dataclasses.dataclass(frozen=True, slots=True)
class UnparsedDocument:
    """A text as its file has it, where making paragraphs of it takes long.

    Reading a file is one process's work; parsing what it yields is spread over all.

    Attributes:
        markup: the text with its markup.
        source: as in `Document`.
        location: as in `Document`.
        title: as in `Document`.
    """

    markup: str
    source: str
    location: str
    title: str = ""

    @property
    def num_characters(self) -> int:
        """Characters, those of the markup included."""
        return len(self.markup)


@dataclasses.dataclass(frozen=True, slots=True)
class RejectedDocument:
    """A text that could not be read. The reader carries on after it.

    Attributes:
        source: as in `Document`.
        location: as in `Document`.
        reason: short machine-readable name such as `"not_utf8"`.
        message: a sentence that says what was expected and what was found.
        lost_of_file: `"rest"` if what follows in the file could not be read either,
            `"whole"` if nothing of the file could be read, else `""`.
    """

    source: str
    location: str
    reason: str
    message: str
    lost_of_file: str = ""

    def __str__(self) -> str:
        return f"{self.source}, {self.location}: {self.message} [{self.reason}]"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileReader:
    """Turns the files of one format into documents, in a fixed order.

    A format is a module of this package with a subclass named `Reader`: a frozen
    dataclass whose fields are the format's options. It implements `read_stream` or
    `read_file`; the rest is the same for all formats. A reader keeps no state, so
    files can be read in any order, again, or by different processes.

    Args:
        max_document_megabytes: size of the largest document, in millions of bytes as
            its file holds it (decompressed, with markup). A larger one is rejected as
            `too_long_document` and never held in memory.

    Example:
        >>> from data_pipelines import readers
        >>> reader = readers.get_reader("wikiextractor")
        >>> for item in reader.read_input("enwiki/text"):  # doctest: +SKIP
        ...     if isinstance(item, readers.RejectedDocument):
        ...         print(item)
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    """File names that a folder is searched for; empty takes every file."""
    reads_in_order: ClassVar[bool] = True
    """Whether files are read from the first byte to the last, without seeking."""

    max_document_megabytes: float = MAX_DOCUMENT_MEGABYTES

    @property
    def max_document_bytes(self) -> int:
        """Bytes of the largest document."""
        return int(self.max_document_megabytes * 1e6)

    def files(
        self, input_path: str | os.PathLike[str], passed_over: PassedOver | None = None
    ) -> list[file_listing.Path]:
        """Lists the files to read, in an order that is the same on every machine.

        Args:
            input_path: a file, a folder (searched recursively; hidden files are
                left out, and so is what does not end in `suffixes`) or a glob; or a
                URL of one of these, such as `gs://bucket/folder`.
            passed_over: is told of each file of a folder that is not read.

        Raises:
            FileNotFoundError: if there is no such file or folder.
            ValueError: if no file matches, or all files that match are empty.
        """
        passed_over = PassedOver() if passed_over is None else passed_over
        return file_listing.list_files(
            input_path,
            self.suffixes,
            lambda reason, path: passed_over.add(
                reason, self.source_name(path, input_path)
            ),
        )

    def source_name(
        self, path: file_listing.Path, input_path: str | os.PathLike[str]
    ) -> str:
        """The `Document.source` of one of `files(input_path)`."""
        return file_listing.relative_name(path, input_path)

    def sources(
        self, inputs: str | os.PathLike[str], passed_over: PassedOver | None = None
    ) -> dict[str, file_listing.Path]:
        """The files of one input, or of several, by names that differ.

        Args:
            inputs: what `files` takes, or several of these with commas between them.
                What is there as a whole, commas and all, is one. Of several, names
                begin with that of the input, as short as tells it from the others.
            passed_over: is told of each file of a folder that is not read.

        Returns:
            `Document.source` -> path, the inputs in the order in which they are given.

        Raises:
            FileNotFoundError: if there is no such file or folder.
            ValueError: if no file of an input matches, all that match are empty, or two
                inputs hold the same file.
        """
        given = file_listing.split_inputs(inputs)
        prefixes = [""]
        if len(given) > 1:
            prefixes = [f"{name}/" for name in file_listing.short_names(given)]
        found: dict[str, file_listing.Path] = {}
        input_of: dict[file_listing.Path, str | os.PathLike[str]] = {}
        for one, prefix in zip(given, prefixes, strict=True):
            not_read = PassedOver()
            for path in self.files(one, not_read):
                found[prefix + self.source_name(path, one)] = path
                first = input_of.setdefault(path.resolve(), one)
                if first != one:
                    raise ValueError(
                        "The inputs must hold each file once. Received: "
                        f"{str(path)!r} in both {first!r} and {one!r}"
                    )
            if passed_over is not None:
                passed_over.extend(not_read, prefix)
        return found

    def read(
        self, path: str | os.PathLike[str], source: str | None = None
    ) -> Iterator[Document | RejectedDocument]:
        """Reads one file; never raises on account of what is in it.

        Args:
            path: the file: plain, gzip, bzip2 or Zstandard; or its URL.
            source: the `source` of what is yielded; None takes the file's name.

        Raises:
            raw_files.UnreachableError: if a remote file cannot be reached any more.
        """
        for item in self.read_unparsed(path, source):
            yield self.parse(item) if isinstance(item, UnparsedDocument) else item

    def read_unparsed(
        self, path: str | os.PathLike[str], source: str | None = None
    ) -> Iterator["Document | UnparsedDocument | RejectedDocument"]:
        """`read` without the expensive part, `parse`, which other processes can do.

        An engine numbers what this yields, rejected documents aside.
        """
        path = file_listing.to_path(path)
        source = path.name if source is None else source
        lost_of_file = "whole"
        try:
            for item in self.read_file(path, source):
                if not isinstance(item, RejectedDocument):
                    lost_of_file = "rest"
                yield item
        except DocumentError as error:
            yield dataclasses.replace(reject(error, source), lost_of_file=lost_of_file)

    def read_input(
        self, inputs: str | os.PathLike[str]
    ) -> Iterator[Document | RejectedDocument]:
        """Reads all of `sources(inputs)` one after the other."""
        for source, path in self.sources(inputs).items():
            yield from self.read(path, source)

    def parse(self, item: "UnparsedDocument") -> Document | RejectedDocument:
        """Parses an unparsed document.

        Formats whose `read_stream` yields documents do not need it.
        """
        raise NotImplementedError(f"{type(self).__name__} yields parsed documents")

    def read_file(
        self, path: file_listing.Path, source: str
    ) -> Iterator["Document | UnparsedDocument | RejectedDocument"]:
        """Reads a file; formats that are no stream of bytes have their own way.

        Raises:
            DocumentError: if the rest of the file cannot be read.
        """
        with byte_streams.open_bytes(path) as stream:
            yield from self.read_stream(stream, source)

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator["Document | UnparsedDocument | RejectedDocument"]:
        """Reads a file's bytes, decompressed and without byte order mark.

        Raises:
            DocumentError: if the rest of the file cannot be read.
        """
        raise NotImplementedError(f"{type(self).__name__} reads no streams")


@dataclasses.dataclass(frozen=True)
class TextReader(FileReader):
    """Reads files of text, which may be in another encoding than UTF-8.

    Args:
        encoding: name of the files' encoding among Python's codecs, such as `cp1252`.
    """

    encoding: str = transcoding.UTF_8

    def __post_init__(self):
        name = transcoding.codec_name(self.encoding)
        object.__setattr__(self, "encoding", name)

    def read_file(
        self, path: file_listing.Path, source: str
    ) -> Iterator["Document | UnparsedDocument | RejectedDocument"]:
        with byte_streams.open_bytes(path, self.encoding) as stream:
            yield from self.read_stream(stream, source)


def document_or_rejection(
    paragraphs: Iterable[str], source: str, location: str, title: str = ""
) -> Document | RejectedDocument:
    """A document; or, where it has no paragraph, its rejection."""
    paragraphs = tuple(paragraphs)
    if paragraphs:
        return Document(paragraphs, source, location, title)
    return RejectedDocument(
        source,
        location,
        "empty_document",
        "Expected at least one paragraph of text, found none.",
    )


def reject(
    error: DocumentError, source: str, location: str = WHOLE_FILE
) -> RejectedDocument:
    """The rejection for `error`; the error's location takes precedence."""
    return RejectedDocument(
        source, error.location or location, error.reason, error.message
    )
