"""Tables, of which a row is a document: CSV and TSV, Parquet and Arrow."""

import collections
import contextlib
import csv
import dataclasses
import importlib
import io
import pathlib
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, ClassVar

from data_pipelines.readers import base, json_lines, streams
from data_pipelines.readers.streams import DocumentError
from seg_tf import file_listing

_DELIMITERS = {"comma": ",", "pipe": "|", "semicolon": ";", "tab": "\t"}
_TAB_SUFFIXES = (".tsv", ".tab")
_QUOTES_HINT = "The option `quotes=false` treats quotation marks as text."
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
        is_tabbed = any(
            suffix in _TAB_SUFFIXES
            for suffix in pathlib.PurePath(source.lower()).suffixes[-2:]
        )
        lines = _CsvLines(stream, self.encoding, self.max_document_bytes)
        rows = csv.reader(
            lines,
            delimiter=_DELIMITERS.get(self.delimiter, self.delimiter)
            or ("\t" if is_tabbed else ","),
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
        self._max_bytes, self._encoding = max_bytes, encoding
        # Decoding reveals the line ends of old Macs, `\r`.
        self._ready: collections.deque[str] = collections.deque()
        self._first, self._number, self._num_characters = 1, 0, 0

    @property
    def location(self) -> str:
        """The line or lines of the current row."""
        if self._number <= self._first:
            return f"line {self._first}"
        return f"lines {self._first} to {self._number}"

    def begin_row(self) -> None:
        self.error, self._first, self._num_characters = None, self._number + 1, 0

    def __iter__(self) -> "_CsvLines":
        return self

    def __next__(self) -> str:
        if not self._ready:
            self._read_line()
        self._number += 1
        text = self._ready.popleft()
        self._num_characters += len(text)
        if self._num_characters > self._max_bytes:
            size = f"a row of more than {self._max_bytes / 1e6:,g} MB"
            raise _unclosed(size, self.location)
        return text

    def _read_line(self) -> None:
        line = next(self._lines, None)
        if line is None:
            self.is_at_end = True
            raise StopIteration
        number = self._number + 1
        if line.is_long:
            self._number = number
            error = streams.too_long(self._max_bytes)
            raise _RowError(error.reason, error.message)
        try:
            text = streams.decode(line.data, number, line.offset, self._encoding)
        except DocumentError as error:
            # The row is rejected once its end is found.
            self.error = self.error or error
            text = streams.unify_line_ends(line.data.decode("utf-8", "replace"))
        self._ready.extend(f"{part}\n" for part in text.removesuffix("\n").split("\n"))


def _unclosed(excerpt: str, location: str) -> DocumentError:
    return DocumentError(
        "unclosed_quote",
        f"Expected a quotation mark that ends the field, found {excerpt}. "
        f"{_QUOTES_HINT}",
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
        self, row: Mapping[str, Any], source: str, location: str
    ) -> base.Document | base.RejectedDocument:
        """The document of a row, or its rejection."""
        fields = self.text_field, self.title_field, self.max_document_bytes
        try:
            text, title = json_lines.text_and_title(row, *fields)
        except DocumentError as error:
            return base.reject(error, source, location)
        title, paragraphs = self.title_and_paragraphs(title, text)
        return base.to_document(paragraphs, source, location, title)

    def title_and_paragraphs(self, title: str, text: str) -> tuple[str, list[str]]:
        """Splits a text into paragraphs."""
        return title, streams.split_lines(text)


@dataclasses.dataclass(frozen=True)
class ParquetReader(TableReader):
    """Parquet files and Arrow's (IPC, Feather): a row's text column is a document.

    The first bytes of a file decide its format. Row groups and batches are read in
    pieces. As in JSON lines, dots name a field of a nested column, `content.text`, and
    the text may be a list of paragraphs. Strings may be stored as such, as bytes that
    are UTF-8, or as dictionaries of these. Line ends in the text separate paragraphs.
    Rows are counted from 1.

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
                        row = {self.title_field: title, self.text_field: text}
                        yield self.to_document(row, source, f"row {number}")
            except (OSError, pa.ArrowException) as error:
                # Errors of the disk or the network have a number or a class of their
                # own; those of pyarrow about the data do not.
                if isinstance(error, OSError) and (
                    type(error) is not OSError or error.errno
                ):
                    raise
                raise damaged(error, "Parquet or Arrow data", number) from error

    def _rows(self, pa: ModuleType, batch: Any) -> Iterator[tuple[Any, Any]]:
        column = _column(pa, batch, self.text_field)
        if column is None:
            check_text_field(self.text_field, sorted(batch.schema.names))
        texts = _to_bytes(pa, column)
        if texts is None:
            raise DocumentError(
                "text_not_a_string",
                "Expected strings, or lists of strings, in the column "
                f"{self.text_field!r}, found {column.type}.",
            )
        titles = _column(pa, batch, self.title_field)
        titles = None if titles is None else _to_bytes(pa, titles)
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
            text, title = (
                [n for n in names if f"{c}.".startswith(f"{n}.")] for c in columns
            )
            # The error about a missing text lists all names.
            wanted = [*text, *title] if text else names
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


def _column(pa: ModuleType, batch: Any, name: str) -> Any:
    """The only column of a name, or field of a nested column; None without one."""
    if batch.schema.names.count(name) == 1:
        return batch.column(name)
    parts = name.split(".")
    for end in range(1, len(parts)):
        outer = ".".join(parts[:end])
        if batch.schema.names.count(outer) == 1:
            column = batch.column(outer)
            if pa.types.is_struct(column.type):
                fields = pa.RecordBatch.from_arrays(
                    column.flatten(), [field.name for field in column.type]
                )
                inner = _column(pa, fields, ".".join(parts[end:]))
                if inner is not None:
                    return inner
    return None


def _to_bytes(pa: ModuleType, column: Any) -> list | None:
    """The values as (lists of) bytes, which may be invalid UTF-8; or None."""
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_null(column.type):
        return [None] * len(column)
    is_list = types.is_list(column.type) or types.is_large_list(column.type)
    kind = column.type.value_type if is_list else column.type
    if any(
        is_kind(kind)
        for is_kind in (types.is_string, types.is_large_string, types.is_string_view)
    ):
        kind = pa.large_binary()
    elif not any(
        is_kind(kind)
        for is_kind in (types.is_binary, types.is_large_binary, types.is_binary_view)
    ):
        return None
    return column.cast(pa.large_list(kind) if is_list else kind).to_pylist()
