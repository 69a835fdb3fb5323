"""CSV and TSV: a row is a document, its text in a column that the header names."""

import collections
import csv
import dataclasses
import io
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import ClassVar

from data_pipelines.readers import base
from data_pipelines.readers.errors import DocumentError, too_long
from data_pipelines.readers.io import byte_streams, decoding
from seg_tf import file_listing

_DELIMITERS = {"comma": ",", "pipe": "|", "semicolon": ";", "tab": "\t"}
_TAB_SUFFIXES = (".tsv", ".tab")
# Python's own limit, for all its tables; `max_document_megabytes` is this reader's.
csv.field_size_limit(sys.maxsize)


@dataclasses.dataclass(frozen=True)
class Reader(base.TextReader):
    """Reads tables such as spreadsheets export. Line ends in the text part paragraphs.

    Fields may be in quotation marks, with line ends in them, and `""` for a mark. A row
    with another number of fields than the header, or with quotation marks that do not
    fit together, is rejected with the number of its line.

    Args:
        text_field: name of the column that holds the text.
        title_field: name of the column that holds the title, where there is one.
        delimiter: a character, or comma, pipe, semicolon or tab by name; empty is a tab
            in files named `.tsv` or `.tab`, and a comma in others.
        header: whether the first row names the columns; without, they are named by
            their numbers, from `1`.
        quotes: whether quotation marks quote; without, they are text.
        encoding: see `base.TextReader`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".csv", *_TAB_SUFFIXES)

    text_field: str = "text"
    title_field: str = "title"
    delimiter: str = ""
    header: bool = True
    quotes: bool = True

    def __post_init__(self):
        super().__post_init__()
        character = _DELIMITERS.get(self.delimiter, self.delimiter)
        if len(character) > 1 or character in ("\n", "\r", "\0", '"', " "):
            raise ValueError(
                f"`delimiter` must be a character or one of {sorted(_DELIMITERS)}. "
                f"Received: {self.delimiter!r}"
            )

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        names: list[str] = []
        for row in self._rows(stream, source):
            if isinstance(row, DocumentError):
                yield base.reject(row, source)
                continue
            location, fields = row
            if not names:
                names = self._names(fields)
                if self.header:
                    continue
            if len(fields) != len(names):
                error = DocumentError(
                    "malformed_row",
                    f"Expected {len(names)} fields, as in the first row, found "
                    f"{len(fields)}.",
                )
                yield base.reject(error, source, location)
                continue
            paragraphs = decoding.split_lines(fields[names.index(self.text_field)])
            title = ""
            if self.title_field in names:
                title = " ".join(fields[names.index(self.title_field)].split())
            yield base.document_or_rejection(paragraphs, source, location, title)

    def _rows(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[tuple[str, list[str]] | DocumentError]:
        """Yields place and fields of each row that is not blank, or its error."""
        lines = _Lines(stream, self.encoding, self.max_document_bytes)
        rows = csv.reader(
            lines,
            delimiter=_DELIMITERS.get(self.delimiter, self.delimiter)
            or _delimiter_of(source),
            quoting=csv.QUOTE_MINIMAL if self.quotes else csv.QUOTE_NONE,
            strict=True,
        )
        while True:
            lines.begin_row()
            try:
                fields = next(rows)
            except StopIteration:
                return
            except _TooLongError:
                yield too_long(self.max_document_bytes, lines.location)
                continue
            except csv.Error as error:
                if lines.is_at_end:
                    raise _unclosed("the end of the file", lines.location) from error
                yield DocumentError(
                    "malformed_row",
                    f"Expected a row of fields, found: {error}. The option "
                    "`quotes=false` takes quotation marks for text.",
                    lines.location,
                )
                continue
            if lines.error is not None:
                error = lines.error
                yield DocumentError(error.reason, error.message, lines.location)
            elif fields:
                yield lines.location, fields

    def _names(self, fields: Sequence[str]) -> list[str]:
        """The names of the columns."""
        names = [name.strip() for name in fields]
        if not self.header:
            names = [str(number) for number in range(1, len(fields) + 1)]
        if self.text_field not in names:
            without = "" if self.header else ", numbers, since header=false was given"
            raise DocumentError(
                "missing_text_field",
                f"Expected a column {self.text_field!r}, found only {names}{without}. "
                "The option `text_field` names another, `delimiter` parts them "
                "otherwise.",
            )
        if names.count(self.text_field) > 1:
            raise DocumentError(
                "ambiguous_text_field",
                f"Expected one column {self.text_field!r}, found "
                f"{names.count(self.text_field)} of that name.",
            )
        return names


class _TooLongError(Exception):
    """A single line is larger than a document may be."""


class _Lines:
    """The lines of a file, decoded, as `csv.reader` takes them.

    Args:
        stream: the file's bytes.
        encoding: the reader's option.
        max_bytes: size of the largest row.

    Attributes:
        error: why a line of the current row cannot be decoded.
        is_at_end: whether there is no further line.
    """

    def __init__(self, stream: io.BufferedReader, encoding: str, max_bytes: int):
        self.error: DocumentError | None = None
        self.is_at_end = False
        self._lines = byte_streams.lines(stream, max_bytes)
        self._max_bytes = max_bytes
        self._encoding = encoding
        self._offset = stream.tell()
        # Of line ends that only decoding shows, those of old Macs.
        self._ready: collections.deque[str] = collections.deque()
        self._number = 0
        self._first = 1
        self._characters = 0

    @property
    def location(self) -> str:
        """The line or lines of the current row."""
        if self._number <= self._first:
            return f"line {self._first}"
        return f"lines {self._first} to {self._number}"

    def begin_row(self) -> None:
        """Says that the next line begins a row."""
        self.error, self._first, self._characters = None, self._number + 1, 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        if not self._ready:
            line = next(self._lines, None)
            if line is None:
                self.is_at_end = True
                raise StopIteration
            if isinstance(line, byte_streams.LongLine):
                self._number += 1
                self._offset += line.num_bytes
                raise _TooLongError
            self._ready.extend(self._decode(line))
        self._number += 1
        line = self._ready.popleft()
        self._characters += len(line)
        if self._characters > self._max_bytes:
            found = f"a row of more than {self._max_bytes / 1e6:,g} MB"
            raise _unclosed(found, self.location)
        return line

    def _decode(self, line: bytes) -> list[str]:
        try:
            text = decoding.decode_utf8(
                line, self._number + 1, self._offset, self._encoding
            )
        except DocumentError as error:
            # The row is rejected when its end is found.
            self.error = self.error or error
            text = decoding.unify_line_ends(line.decode("utf-8", "replace"))
        self._offset += len(line)
        lines = [f"{part}\n" for part in text.split("\n")]
        # What follows the last line end is a line if there is something in it.
        return lines[:-1] if lines[-1] == "\n" else lines


def _delimiter_of(source: str) -> str:
    path = pathlib.PurePath(source.lower())
    if path.suffix in file_listing.COMPRESSION_SUFFIXES:
        path = path.with_suffix("")
    return "\t" if path.suffix in _TAB_SUFFIXES else ","


def _unclosed(found: str, location: str) -> DocumentError:
    return DocumentError(
        "unclosed_quote",
        f"Expected a quotation mark that ends the field, found {found}. The option "
        "`quotes=false` takes quotation marks for text.",
        location,
    )
