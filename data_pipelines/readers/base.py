"""Defines documents, rejections and the base classes of readers."""

import dataclasses
import io
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from data_pipelines.readers import streams
from data_pipelines.readers.streams import DocumentError
from seg_tf import file_listing
from seg_tf.file_listing import PassOver, Path, ignore

WHOLE_FILE = "whole file"
COUNTED_REASONS = frozenset(("other_namespace", "redirect"))
"""Rejection reasons that a build only counts, because there may be very many."""
LEFT_OUT_REASONS = COUNTED_REASONS | {"empty_document", "empty_file"}
"""Rejection reasons that do not indicate lost text."""

_NUM_NAMES = 5
_REASONS_TO_PASS_OVER = {
    file_listing.HIDDEN: "hidden",
    file_listing.HIDDEN_FOLDER: "hidden folder(s)",
    file_listing.NOT_A_FILE: "pipe(s), device(s) or broken link(s)",
    file_listing.OTHER_NAME: "with a name that is not of the format",
}

PassedOver = dict[str, list[str]]
"""Input files that are not read: reason -> names, in order."""


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """A text as a sequence of paragraphs.

    Attributes:
        paragraphs: one or more non-blank single lines.
        source: the file, as a POSIX path relative to the input.
        location: position in the file, for example `"doc id=12, line 1"`.
        title: title of the text, or `""`.
    """

    paragraphs: tuple[str, ...]
    source: str
    location: str
    title: str = ""

    @property
    def num_characters(self) -> int:
        return sum(map(len, self.paragraphs))


@dataclasses.dataclass(frozen=True, slots=True)
class UnparsedDocument:
    """A document whose `markup` is not yet parsed, so that any process can parse it."""

    markup: str
    source: str
    location: str
    title: str = ""

    @property
    def num_characters(self) -> int:
        return len(self.markup)


@dataclasses.dataclass(frozen=True, slots=True)
class RejectedDocument:
    """A document, or the rest of a file, that was not read, and the reason.

    Attributes:
        source, location: see `Document`.
        reason: short machine-readable name such as `"not_utf8"`.
        message: sentence that states what was expected and what was found.
        ends_file: whether the rest of the file is lost too.
    """

    source: str
    location: str
    reason: str
    message: str
    ends_file: bool = False

    def __str__(self) -> str:
        return f"{self.source}, {self.location}: {self.message} [{self.reason}]"


Item = Document | UnparsedDocument | RejectedDocument


def describe_passed_over(names: PassedOver) -> dict[str, dict[str, Any]] | None:
    """Maps reasons to `count` and `first` (up to five names). Returns None if empty."""
    return {
        reason: {"count": len(some), "first": some[:_NUM_NAMES]}
        for reason, some in sorted(names.items())
    } or None


def passed_over_summary(described: Mapping[str, Mapping[str, Any]]) -> str:
    """Formats a result of `describe_passed_over` as one line."""
    parts = [
        f"{entry['count']:,} {_REASONS_TO_PASS_OVER.get(reason, reason)} "
        f"({names_and_more(entry)})"
        for reason, entry in described.items()
    ]
    return f"passed over: {'; '.join(parts)}"


def names_and_more(entry: Mapping[str, Any]) -> str:
    """Joins the `first` names of an entry and adds the number of remaining files."""
    more = entry["count"] - len(entry["first"])
    return ", ".join(entry["first"]) + (f" and {more:,} more" if more else "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileReader:
    """Reads files of one format as documents, in a fixed order.

    Each format is a subclass that is a frozen dataclass, with the options of the format
    as fields. It implements `read_stream` or `read_file`. Readers are stateless, so
    files can be read in any order, repeatedly and by different processes.

    Args:
        max_document_megabytes: float. Maximum size of a document, in millions of bytes
            of its decompressed file, including markup. A larger document is rejected as
            `too_long_document` without being loaded into memory.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    """Suffixes of the files to read in a folder. If empty, all files are read."""

    encoding: ClassVar[str] = streams.UTF_8
    max_document_megabytes: float = 256.0

    def __post_init__(self):
        if not 0 < self.max_document_megabytes < math.inf:
            raise ValueError(
                "`max_document_megabytes` must be a positive number. Received: "
                f"{self.max_document_megabytes}"
            )

    @property
    def max_document_bytes(self) -> int:
        return int(self.max_document_megabytes * 1e6)

    def files(
        self, input_path: str | os.PathLike[str], pass_over: PassOver = ignore
    ) -> list[Path]:
        """Lists the files to read in a fixed order. See `file_listing.list_files`."""
        return file_listing.list_files(input_path, self.suffixes, pass_over)

    def source_name(self, path: Path, input_path: str | os.PathLike[str]) -> str:
        """Returns the `Document.source` of one of `files(input_path)`."""
        return file_listing.relative_name(path, input_path)

    def sources(
        self,
        inputs: str | os.PathLike[str],
        passed_over: PassedOver | None = None,
        prefix: str = "",
    ) -> dict[str, Path]:
        """Maps the `Document.source` of each input file to its path.

        `inputs` is one input, or several separated by commas. A source consists of
        `prefix`, the shortest unambiguous name of its input if there are several, and
        the file's name in it. `passed_over` collects the names of skipped files. Raises
        ValueError if two inputs contain the same file.
        """
        input_paths = file_listing.split_inputs(inputs)
        prefixes: Sequence[str] = [prefix]
        if len(input_paths) > 1:
            short_names = file_listing.short_names(input_paths)
            prefixes = [f"{prefix}{name}/" for name in short_names]
        sources: dict[str, Path] = {}
        input_of_file: dict[Path, str] = {}
        not_read: list[tuple[str, Path]] = []
        for input_path, begin in zip(input_paths, prefixes, strict=True):
            not_read.clear()
            for path in self.files(input_path, lambda *entry: not_read.append(entry)):
                sources[begin + self.source_name(path, input_path)] = path
                first = input_of_file.setdefault(path.resolve(), input_path)
                if first != input_path:
                    raise ValueError(
                        "The inputs must contain each file once. Received: "
                        f"{str(path)!r} in both {first!r} and {input_path!r}"
                    )
            for reason, path in not_read if passed_over is not None else ():
                name = begin + self.source_name(path, input_path)
                passed_over.setdefault(reason, []).append(name)
        return sources

    def read(
        self, path: str | os.PathLike[str], source: str | None = None
    ) -> Iterator[Document | RejectedDocument]:
        """Yields the documents of one file. Invalid content is yielded as rejections.

        `path` is a file, plain or compressed (gzip, bzip2, xz, Zstandard), or a URL.
        `source` is the `source` of the items, by default the file name. Raises
        `streams.UnreachableError` if a remote file cannot be read.
        """
        for item in self.read_unparsed(path, source):
            yield self.parse(item) if isinstance(item, UnparsedDocument) else item

    def read_unparsed(
        self, path: str | os.PathLike[str], source: str | None = None
    ) -> Iterator[Item]:
        """Reads one file like `read` but leaves `parse` to the caller."""
        path = file_listing.to_path(path)
        source = path.name if source is None else source
        try:
            yield from self.read_file(path, source)
        except DocumentError as error:
            yield dataclasses.replace(reject(error, source), ends_file=True)

    def read_input(
        self, inputs: str | os.PathLike[str]
    ) -> Iterator[Document | RejectedDocument]:
        """Reads all files of `sources(inputs)` in order."""
        for source, path in self.sources(inputs).items():
            yield from self.read(path, source)

    def parse(self, item: UnparsedDocument) -> Document | RejectedDocument:
        """Parses a document. Implemented by formats that yield unparsed documents."""
        raise NotImplementedError(f"{type(self).__name__} yields parsed documents")

    def read_file(self, path: Path, source: str) -> Iterator[Item]:
        """Yields the items of a file. Override this for formats that are not text."""
        with streams.open_text(path, self.encoding) as stream:
            yield from self.read_stream(stream, source)

    def read_stream(self, stream: io.BufferedReader, source: str) -> Iterator[Item]:
        """Yields items of UTF-8 text. A DocumentError rejects the rest of the file."""
        raise NotImplementedError(f"{type(self).__name__} reads no streams")


@dataclasses.dataclass(frozen=True)
class TextReader(FileReader):
    """Base class of readers of text files in any of Python's encodings.

    Args:
        encoding: str. Name of the files' encoding in Python, such as `cp1252`.
    """

    encoding: str = streams.UTF_8  # type: ignore[misc]

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "encoding", streams.codec_name(self.encoding))


def to_document(
    paragraphs: Iterable[str], source: str, location: str, title: str = ""
) -> Document | RejectedDocument:
    """Returns a document, or its rejection if there are no paragraphs."""
    if paragraphs := tuple(paragraphs):
        return Document(paragraphs, source, location, title)
    message = "Expected at least one paragraph of text, found none."
    return RejectedDocument(source, location, "empty_document", message)


def reject(
    error: DocumentError, source: str, location: str = WHOLE_FILE
) -> RejectedDocument:
    """Converts an error to a rejection. The error's own location takes precedence."""
    location = error.location or location
    return RejectedDocument(source, location, error.reason, error.message)
