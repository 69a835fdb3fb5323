"""Reads tables whose rows are documents: CSV, TSV and Parquet."""

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
from seg_tf.file_listing import PassOver, Path, ignore

# The limit of Python's module is global. `max_document_megabytes` limits each reader.
csv.field_size_limit(sys.maxsize)
_QUOTES_HINT = "The option `quotes=false` treats quotation marks as text."
_BATCH_ROWS = 256
_BUFFER_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class CsvReader(base.TextReader):
    """CSV and TSV with one document per row, its text in a column named in the header.

    Line ends in the text separate paragraphs. Quoted fields may contain line ends, and
    `""` in them is a quotation mark. Rows with malformed quotes or the wrong number of
    fields are rejected. An unclosed quote rejects the rest of the file.

    Args:
        text_field: str. Name of the text column.
        title_field: str. Name of the title column, if there is one.
        delimiter: str. A character or `tab`. If empty, a tab in files named `.tsv` and
            a comma in other files.
        quotes: bool. Whether quotation marks enclose fields. If False, they are text.
        encoding: str. See `base.TextReader`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv")

    text_field: str = "text"
    title_field: str = "title"
    delimiter: str = ""
    quotes: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.delimiter != "tab" and len(self.delimiter) > 1:
            raise ValueError(
                f"`delimiter` must be a character, or tab. Received: {self.delimiter!r}"
            )

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        max_bytes, num_bytes = self.max_document_bytes, 0
        errors: list[DocumentError] = []

        def lines() -> Iterator[str]:
            nonlocal num_bytes
            for line in streams.lines(stream, max_bytes):
                num_bytes += len(line.data)
                if num_bytes > max_bytes:
                    raise streams.too_long(max_bytes, f"line {first}. {_QUOTES_HINT}")
                try:
                    text = streams.decode(line.data, rows.line_num + 1)
                except DocumentError as error:
                    # The row is rejected once its end is found.
                    errors.append(error)
                    text = line.data.decode("utf-8", "replace").replace("\r", "\n")
                # Decoding may reveal `\r` line ends of old Macs.
                yield from (f"{part}\n" for part in text.removesuffix("\n").split("\n"))

        is_tabbed = ".tsv" in pathlib.PurePath(source.lower()).suffixes[-2:]
        delimiter = self.delimiter or ("tab" if is_tabbed else ",")
        rows = csv.reader(
            lines(),
            delimiter={"tab": "\t"}.get(delimiter, delimiter),
            quoting=csv.QUOTE_MINIMAL if self.quotes else csv.QUOTE_NONE,
            strict=True,
        )
        names: list[str] = []
        while True:
            first, num_bytes = rows.line_num + 1, 0
            errors.clear()
            fields: list[str] | None = []
            try:
                fields = next(rows, None)
            except csv.Error as error:
                message = f"Expected a row of fields, found: {error}. {_QUOTES_HINT}"
                if "end of data" in str(error):
                    where = f"line {first}"
                    raise DocumentError("unclosed_quote", message, where) from error
                errors.append(DocumentError("malformed_row", message))
            if fields is None:
                return
            if names and fields and len(fields) != len(names):
                message = f"Expected {len(names)} fields, as in the first row, found "
                message += f"{len(fields)}."
                errors.append(DocumentError("malformed_row", message))
            location = f"line {first}"
            if rows.line_num > first:
                location = f"lines {first} to {rows.line_num}"
            if errors:
                yield base.reject(errors[0], source, location)
            elif names and fields:
                row = dict(zip(names, fields, strict=True))
                paragraphs = streams.split_lines(row[self.text_field])
                title = " ".join(row.get(self.title_field, "").split())
                yield base.to_document(paragraphs, source, location, title)
            elif fields:
                names = [name.strip() for name in fields]
                if names.count(self.text_field) != 1:
                    raise DocumentError(
                        "missing_text_field",
                        f"Expected a column {self.text_field!r}, found {names}. The "
                        "option `text_field` names another, `delimiter` another "
                        "separator.",
                    )


def import_extra(name: str, package: str = "") -> ModuleType:
    """Imports a package of the `corpora` extra. Raises ValueError if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"This format needs the package {package or name}, which is not installed: "
            f"`make setup-corpora` installs it ({error})"
        ) from error


@dataclasses.dataclass(frozen=True)
class TableReader(base.FileReader):
    """Base class of readers of tables with typed columns. Subclasses define `rows`."""

    text_field: str = "text"
    title_field: str = "title"

    def rows(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """Yields the rows of a file. May raise any exception of the library used."""
        raise NotImplementedError

    def read_file(
        self, path: Path, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        number = 0
        try:
            for number, row in enumerate(self.rows(path), 1):
                if number == 1:  # A missing column is missing in all rows.
                    json_lines.find_text(row, self.text_field)
                yield self._to_document(row, source, f"row {number}")
        except (DocumentError, streams.UnreachableError):
            raise
        except Exception as error:
            if not isinstance(path, pathlib.Path) and not isinstance(error, ValueError):
                raise streams.UnreachableError(
                    f"{path}: cannot be read: {type(error).__name__}: {error}"
                ) from error
            message = " ".join(str(error).split()).rstrip(".")[:300]
            raise DocumentError(
                "damaged_table",
                f"Expected valid rows, found: {message}. The rows before were read.",
                f"after row {number}" if number else "",
            ) from error

    def _to_document(
        self, row: Mapping[str, Any], source: str, location: str
    ) -> base.Document | base.RejectedDocument:
        fields = self.text_field, self.title_field, self.max_document_bytes
        try:
            text, title = json_lines.text_and_title(row, *fields)
        except DocumentError as error:
            return base.reject(error, source, location)
        title, paragraphs = self.title_and_paragraphs(title, text)
        return base.to_document(paragraphs, source, location, title)

    def title_and_paragraphs(self, title: str, text: str) -> tuple[str, list[str]]:
        """Returns the title and, as paragraphs, the non-blank lines of the text."""
        return title, streams.split_lines(text)


@dataclasses.dataclass(frozen=True)
class ParquetReader(TableReader):
    """Parquet with one document per row, its text in one column.

    Row groups are read in batches. As for JSON lines, dots select a field of a nested
    column, as in `content.text`, and the text may be a list of paragraphs. Text may be
    stored as strings or UTF-8 bytes, dictionary-encoded or not. Line ends in the
    text separate paragraphs. Row numbers start at 1.

    Args:
        text_field: str. Name of the text column.
        title_field: str. Name of the title column, if there is one.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    def files(self, input_path: str, pass_over: PassOver = ignore) -> list[Path]:
        import_extra("pyarrow")
        return super().files(input_path, pass_over)

    def rows(self, path: Path) -> Iterator[Mapping[str, Any]]:
        parquet = import_extra("pyarrow.parquet")
        with (
            streams.open_binary(path) as file,
            parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES) as table,
        ):
            text, title = (
                [n for n in table.schema_arrow.names if f"{field}.".startswith(f"{n}.")]
                for field in (self.text_field, self.title_field)
            )
            # Read all columns for the error message about a missing text column.
            columns = [*text, *title] if text else None
            for batch in table.iter_batches(
                _BATCH_ROWS, columns=columns, use_threads=False
            ):
                yield from batch.to_pylist()
