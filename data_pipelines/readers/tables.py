"""Tables, of which a row is a document: CSV and TSV, Parquet and Arrow."""

import collections
import contextlib
import csv
import dataclasses
import importlib
import io
import pathlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, ClassVar

from data_pipelines.readers import base, streams
from data_pipelines.readers.streams import DocumentError
from seg_tf import file_listing

_DELIMITERS = {"comma": ",", "pipe": "|", "semicolon": ";", "tab": "\t"}
_TAB_SUFFIXES = (".tsv", ".tab")
_QUOTES_HINT = "The option `quotes=false` takes quotation marks for text."
# The limit of Python's module is global; `max_document_megabytes` is this reader's.
csv.field_size_limit(sys.maxsize)
_BATCH_ROWS = 256
_BUFFER_BYTES = 1 << 20


def check_text_field(text_field: str, names: list[str], hint: str = "") -> None:
    """Raises a DocumentError unless exactly one column has the name `text_field`."""
    if text_field not in names:
        raise DocumentError(
            "missing_text_field",
            f"Expected a column {text_field!r}, found only {names}. The option "
            f"`text_field` names another{hint}.",
        )
    if names.count(text_field) > 1:
        raise DocumentError(
            "ambiguous_text_field",
            f"Expected one column {text_field!r}, found {names.count(text_field)} of "
            "that name.",
        )


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
        path = pathlib.PurePath(source.lower())
        if path.suffix in file_listing.COMPRESSION_SUFFIXES:
            path = path.with_suffix("")
        lines = _CsvLines(stream, self.encoding, self.max_document_bytes)
        rows = csv.reader(
            lines,
            delimiter=_DELIMITERS.get(self.delimiter, self.delimiter)
            or ("\t" if path.suffix in _TAB_SUFFIXES else ","),
            quoting=csv.QUOTE_MINIMAL if self.quotes else csv.QUOTE_NONE,
            strict=True,
        )
        names: list[str] = []
        while True:
            lines.begin_row()
            try:
                fields = next(rows, None)
                if lines.error is not None:
                    raise _RowError(lines.error.reason, lines.error.message)
                if fields is None:
                    return
                if not fields:
                    continue
                if not names:
                    names = [name.strip() for name in fields]
                    if not self.header:
                        names = [str(number + 1) for number in range(len(fields))]
                    hint = ", `delimiter` another separator"
                    check_text_field(self.text_field, names, hint)
                    if self.header:
                        continue
                if len(fields) != len(names):
                    raise _RowError(
                        "malformed_row",
                        f"Expected {len(names)} fields, as in the first row, found "
                        f"{len(fields)}.",
                    )
            except csv.Error as error:
                if lines.is_at_end:
                    raise _unclosed("the end of the file", lines.location) from error
                row_error = _RowError(
                    "malformed_row",
                    f"Expected a row of fields, found: {error}. {_QUOTES_HINT}",
                )
                yield base.reject(row_error, source, lines.location)
                continue
            except _RowError as error:
                yield base.reject(error, source, lines.location)
                continue
            row = dict(zip(reversed(names), reversed(fields), strict=True))
            paragraphs = streams.split_lines(row[self.text_field])
            title = " ".join(row.get(self.title_field, "").split())
            yield base.to_document(paragraphs, source, lines.location, title)


class _RowError(DocumentError):
    """A row is lost; the next one can be read."""


class _CsvLines:
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
        self._number = self._num_characters = 0
        self._first = 1

    @property
    def location(self) -> str:
        """The line or lines of the current row."""
        if self._number <= self._first:
            return f"line {self._first}"
        return f"lines {self._first} to {self._number}"

    def begin_row(self) -> None:
        """Starts a row with the next line."""
        self.error, self._first, self._num_characters = None, self._number + 1, 0

    def __iter__(self) -> "_CsvLines":
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


def _unclosed(found: str, location: str) -> DocumentError:
    return DocumentError(
        "unclosed_quote",
        f"Expected a quotation mark that ends the field, found {found}. {_QUOTES_HINT}",
        location,
    )


def import_extra(name: str, package: str = "") -> ModuleType:
    """Imports a package of the extra `corpora`, late: other formats do without.

    Raises:
        ValueError: if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"This format needs the package {package or name}, which is not installed: "
            f"`make setup-corpora` installs it ({error})"
        ) from error


def damaged(error: Exception, kind: str, number: int) -> DocumentError:
    """The error of a file whose rows after row `number` are lost."""
    message = " ".join(str(error).split()).rstrip(".")[:300]
    return DocumentError(
        "damaged_table",
        f"Expected sound {kind}, found: {message}. What precedes was read.",
        f"after row {number}" if number else "",
    )


@dataclasses.dataclass(frozen=True)
class TableReader(base.FileReader):
    """Base class of readers of rows with typed columns."""

    text_field: str = "text"
    title_field: str = "title"

    def to_document(
        self, text: Any, title: Any, source: str, location: str
    ) -> base.Document | base.RejectedDocument:
        """The document of a row whose text is a string or bytes, or its rejection."""
        try:
            if not isinstance(text, bytes | str):
                found = "null" if text is None else type(text).__name__
                raise DocumentError(
                    "text_not_a_string",
                    f"Expected a string in {self.text_field!r}, found {found}.",
                )
            data, title_data = (
                value.encode("utf-8", "surrogatepass")
                if isinstance(value, str)
                else value
                for value in (text, title)
            )
            if len(data) > self.max_document_bytes:
                raise streams.too_long(self.max_document_bytes)
            text = streams.decode(data)
            title = streams.decode(title_data) if isinstance(title_data, bytes) else ""
        except DocumentError as error:
            return base.reject(error, source, location)
        title, paragraphs = self.title_and_paragraphs(" ".join(title.split()), text)
        return base.to_document(paragraphs, source, location, title)

    def title_and_paragraphs(self, title: str, text: str) -> tuple[str, list[str]]:
        """Splits a text into paragraphs."""
        return title, streams.split_lines(text)

    def check_text_field(self, names: list[str]) -> None:
        """Raises a DocumentError unless exactly one column is the text."""
        check_text_field(self.text_field, sorted(names))


@dataclasses.dataclass(frozen=True)
class ParquetReader(TableReader):
    """Parquet files and Arrow's (IPC, Feather): a row's text column is a document.

    The first bytes of a file decide its format. Row groups and batches are read in
    pieces. Columns may be strings, bytes that are UTF-8, or dictionaries of these. Line
    ends in the text separate paragraphs. Rows are counted from 1.

    Args:
        text_field: name of the column that holds the text.
        title_field: name of the column that holds the title, if there is one.
    """

    suffixes: ClassVar[tuple[str, ...]] = (
        *(".parquet", ".pq", ".arrow", ".feather", ".ipc"),
    )
    reads_in_order: ClassVar[bool] = False

    def files(
        self, input_path: str, passed_over: base.PassedOver | None = None
    ) -> list[file_listing.Path]:
        import_extra("pyarrow")
        return super().files(input_path, passed_over)

    def read_file(
        self, path: file_listing.Path, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        pa = import_extra("pyarrow")
        number = 0
        with streams.open_binary(path) as file:
            try:
                for batch in _batches(pa, file, (self.text_field, self.title_field)):
                    for text, title in self._rows(pa, batch):
                        number += 1
                        yield self.to_document(text, title, source, f"row {number}")
            except (OSError, pa.ArrowException) as error:
                # Errors of the disk or the network have a number or a class of their
                # own; those of pyarrow about the data do not.
                if isinstance(error, OSError) and (
                    type(error) is not OSError or error.errno
                ):
                    raise
                raise damaged(error, "Parquet or Arrow data", number) from error

    def _rows(self, pa: ModuleType, batch: Any) -> Iterator[tuple[Any, Any]]:
        names = batch.schema.names
        self.check_text_field(names)
        texts = _to_bytes(pa, batch.column(self.text_field))
        if texts is None:
            raise DocumentError(
                "text_not_a_string",
                f"Expected strings in the column {self.text_field!r}, found "
                f"{batch.schema.field(self.text_field).type}.",
            )
        titles = None
        if names.count(self.title_field) == 1:
            titles = _to_bytes(pa, batch.column(self.title_field))
        return zip(texts, titles or [None] * len(texts), strict=True)


def _batches(
    pa: ModuleType, file: io.BufferedReader, columns: tuple[str, ...]
) -> Iterator[Any]:
    """The batches of a file, with those columns that it has."""
    magic = file.read(8)
    file.seek(0)
    if not magic:
        raise DocumentError("empty_file", "Expected a table, found 0 bytes.")
    if magic.startswith(b"PAR1"):
        from pyarrow import parquet

        with parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES) as table:
            names = table.schema_arrow.names
            wanted = [name for name in columns if name in names]
            if columns[0] not in names:
                wanted = names  # The error lists them.
            yield from table.iter_batches(
                _BATCH_ROWS, columns=wanted, use_threads=False
            )
        return
    options = pa.ipc.IpcReadOptions(use_threads=False)
    if magic.startswith(b"ARROW1"):
        table = pa.ipc.open_file(file, options=options)
        batches = map(table.get_batch, range(table.num_record_batches))
    else:
        table = batches = pa.ipc.open_stream(file, options=options)
    with contextlib.closing(table) if table is batches else table:
        for batch in batches:
            for first in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch.slice(first, _BATCH_ROWS)


def _to_bytes(pa: ModuleType, column: Any) -> list[bytes | None] | None:
    """The values as bytes, which may be invalid UTF-8; None for other types."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    types, kind = pa.types, column.type
    if types.is_null(kind):
        return [None] * len(column)
    if types.is_string(kind) or types.is_string_view(kind):
        column = column.cast(pa.binary())
    elif types.is_large_string(kind):
        column = column.cast(pa.large_binary())
    elif not any(
        is_kind(kind)
        for is_kind in (types.is_binary, types.is_large_binary, types.is_binary_view)
    ):
        return None
    return column.to_pylist()
