"""CSV and TSV: a row is a document, its text in a column that the header names."""

import collections
import csv
import dataclasses
import io
import pathlib
import sys
from collections.abc import Iterator
from typing import ClassVar

from data_pipelines.readers import base, streams
from data_pipelines.readers.streams import DocumentError
from seg_tf import file_listing

_DELIMITERS = {"comma": ",", "pipe": "|", "semicolon": ";", "tab": "\t"}
_TAB_SUFFIXES = (".tsv", ".tab")
_QUOTES_HINT = "The option `quotes=false` takes quotation marks for text."
# The limit of Python's module is global; `max_document_megabytes` is this reader's.
csv.field_size_limit(sys.maxsize)


@dataclasses.dataclass(frozen=True)
class CsvReader(base.TextReader):
    """CSV and TSV: a row is a document, its text in a column that the header names.

    Line ends in the text separate paragraphs. Fields may be quoted, with line ends in
    them and `""` for a quotation mark. A row whose number of fields differs from the
    header's, or whose quotation marks do not match, is rejected with its line number.

    Args:
        text_field: name of the column that holds the text.
        title_field: name of the column that holds the title, if there is one.
        delimiter: a character, or comma, pipe, semicolon or tab by name; empty is a tab
            in files named `.tsv` or `.tab`, and a comma in others.
        header: whether the first row names the columns; without, their names are their
            numbers, from `1`.
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
        lines = _Lines(stream, self.encoding, self.max_document_bytes)
        rows = csv.reader(
            lines,
            delimiter=_DELIMITERS.get(self.delimiter, self.delimiter)
            or _delimiter_of(source),
            quoting=csv.QUOTE_MINIMAL if self.quotes else csv.QUOTE_NONE,
            strict=True,
        )
        names: list[str] = []
        while True:
            try:
                fields = self._next_row(rows, lines)
                if fields is None:
                    return
                if not fields:
                    continue
            except _RowError as error:
                yield base.reject(error, source, lines.location)
                continue
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
                yield base.reject(error, source, lines.location)
                continue
            paragraphs = streams.split_lines(fields[names.index(self.text_field)])
            title = ""
            if self.title_field in names:
                title = " ".join(fields[names.index(self.title_field)].split())
            yield base.to_document(paragraphs, source, lines.location, title)

    def _next_row(self, rows: Iterator[list[str]], lines: "_Lines") -> list[str] | None:
        """The fields of the next row; none for a blank line, None at the end.

        Raises:
            _RowError: if only this row is lost.
            DocumentError: if the rest of the file is.
        """
        lines.begin_row()
        try:
            fields = next(rows, None)
        except csv.Error as error:
            if lines.is_at_end:
                raise _unclosed("the end of the file", lines.location) from error
            raise _RowError(
                "malformed_row",
                f"Expected a row of fields, found: {error}. {_QUOTES_HINT}",
            ) from error
        if lines.error is not None:
            raise _RowError(lines.error.reason, lines.error.message)
        return fields

    def _names(self, fields: list[str]) -> list[str]:
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


class _RowError(DocumentError):
    """A row is lost; the next one can be read."""


class _Lines:
    """The decoded lines of a file, for `csv.reader`.

    Attributes:
        error: why a line of the current row cannot be decoded.
        is_at_end: whether there are no more lines.
    """

    def __init__(self, stream: io.BufferedReader, encoding: str, max_bytes: int):
        self.error: DocumentError | None = None
        self.is_at_end = False
        self._lines = streams.lines(stream, max_bytes)
        self._max_bytes = max_bytes
        self._encoding = encoding
        # Decoding reveals the line ends of old Macs, `\r`.
        self._ready: collections.deque[str] = collections.deque()
        self._number = 0
        self._first = 1
        self._num_characters = 0

    @property
    def location(self) -> str:
        """The line or lines of the current row."""
        if self._number <= self._first:
            return f"line {self._first}"
        return f"lines {self._first} to {self._number}"

    def begin_row(self) -> None:
        """Starts a row with the next line."""
        self.error, self._first, self._num_characters = None, self._number + 1, 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        if not self._ready:
            line = next(self._lines, None)
            if line is None:
                self.is_at_end = True
                raise StopIteration
            if line.is_long:
                self._number += 1
                error = streams.too_long(self._max_bytes)
                raise _RowError(error.reason, error.message)
            self._ready.extend(self._decode(line))
        self._number += 1
        text = self._ready.popleft()
        self._num_characters += len(text)
        if self._num_characters > self._max_bytes:
            found = f"a row of more than {self._max_bytes / 1e6:,g} MB"
            raise _unclosed(found, self.location)
        return text

    def _decode(self, line: streams.Line) -> list[str]:
        number = self._number + 1
        try:
            text = streams.decode(line.data, number, line.offset, self._encoding)
        except DocumentError as error:
            # The row is rejected once its end is found.
            self.error = self.error or error
            text = streams.unify_line_ends(line.data.decode("utf-8", "replace"))
        parts = [f"{part}\n" for part in text.split("\n")]
        return parts[:-1] if parts[-1] == "\n" else parts


def _delimiter_of(source: str) -> str:
    path = pathlib.PurePath(source.lower())
    if path.suffix in file_listing.COMPRESSION_SUFFIXES:
        path = path.with_suffix("")
    return "\t" if path.suffix in _TAB_SUFFIXES else ","


def _unclosed(found: str, location: str) -> DocumentError:
    return DocumentError(
        "unclosed_quote",
        f"Expected a quotation mark that ends the field, found {found}. {_QUOTES_HINT}",
        location,
    )
