"""Parquet files and Arrow's (IPC, Feather): a row's text column is a document."""

import contextlib
import dataclasses
import io
from collections.abc import Iterator
from types import ModuleType
from typing import Any, ClassVar

from data_pipelines.readers import base
from data_pipelines.readers.errors import DocumentError, too_long
from data_pipelines.readers.io import byte_streams, decoding
from data_pipelines.readers.io.passed_over import PassedOver
from seg_tf import file_listing

_PARQUET_MAGIC = b"PAR1"
_ARROW_MAGIC = b"ARROW1"
_FEATHER1_MAGIC = b"FEA1"
# Rows that are decoded at a time.
_BATCH_ROWS = 256
_BUFFER_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Reader(base.FileReader):
    """Reads a document a row. Line ends in the text separate its paragraphs.

    Which of the formats a file is of is seen from its first bytes. Row groups and
    batches are read in pieces. Columns may be strings, bytes that are UTF-8, or
    dictionaries of these. Rows are counted from 1.

    Args:
        text_field: name of the column that holds the text.
        title_field: name of the column that holds the title, where there is one.
    """

    suffixes: ClassVar[tuple[str, ...]] = (
        *(".parquet", ".pq", ".arrow", ".feather", ".ipc"),
    )
    reads_in_order: ClassVar[bool] = False

    text_field: str = "text"
    title_field: str = "title"

    def files(
        self, input_path: str, passed_over: PassedOver | None = None
    ) -> list[file_listing.Path]:
        _pyarrow()
        return super().files(input_path, passed_over)

    def read_file(
        self, path: file_listing.Path, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        number = 0
        with byte_streams.open_unchanged(path) as file:
            _check_is_table(file)
            try:
                for batch in _batches(file, (self.text_field, self.title_field)):
                    for text, title in self._rows(batch):
                        number += 1
                        yield self._document(text, title, source, f"row {number}")
            except (OSError, _pyarrow().ArrowException) as error:
                # Errors of the disk or the network have a number or a class; those
                # of pyarrow about what it read have not.
                if isinstance(error, OSError) and type(error) is not OSError:
                    raise
                if isinstance(error, OSError) and error.errno:
                    raise
                raise DocumentError(
                    "damaged_table",
                    "Expected sound Parquet or Arrow data, found: "
                    f"{_one_line(error)}. What precedes was read.",
                    f"after row {number}" if number else "",
                ) from error

    def _rows(self, batch: Any) -> Iterator[tuple[Any, Any]]:
        names = batch.schema.names
        if self.text_field not in names:
            raise DocumentError(
                "missing_text_field",
                f"Expected a column {self.text_field!r}, found only {sorted(names)}. "
                "The option `text_field` names another.",
            )
        if names.count(self.text_field) > 1:
            raise DocumentError(
                "ambiguous_text_field",
                f"Expected one column {self.text_field!r}, found "
                f"{names.count(self.text_field)} of that name.",
            )
        texts = _as_bytes(batch.column(self.text_field))
        if texts is None:
            raise DocumentError(
                "text_not_a_string",
                f"Expected strings in the column {self.text_field!r}, found "
                f"{batch.schema.field(self.text_field).type}.",
            )
        titles = None
        if names.count(self.title_field) == 1:
            titles = _as_bytes(batch.column(self.title_field))
        if titles is None:
            titles = [None] * len(texts)
        return zip(texts, titles, strict=True)

    def _document(
        self, text: bytes | None, title: bytes | None, source: str, location: str
    ) -> base.Document | base.RejectedDocument:
        try:
            if text is None:
                raise DocumentError(
                    "text_not_a_string",
                    f"Expected a string in the column {self.text_field!r}, found null.",
                )
            if len(text) > self.max_document_bytes:
                raise too_long(self.max_document_bytes)
            paragraphs = decoding.split_lines(decoding.decode_utf8(text))
            title = "" if title is None else decoding.decode_utf8(title)
        except DocumentError as error:
            return base.reject(error, source, location)
        title = " ".join(title.split())
        return base.document_or_rejection(paragraphs, source, location, title)


def _pyarrow() -> ModuleType:
    # Imported late: it is an extra, and other formats do without.
    try:
        import pyarrow
    except ImportError as error:
        raise ValueError(
            "Parquet and Arrow files need the package pyarrow, which is not installed: "
            "`make setup-corpora` installs it"
        ) from error
    return pyarrow


def _check_is_table(file: io.BufferedReader) -> None:
    first_bytes = file.read(8)
    if not first_bytes:
        raise DocumentError("empty_file", "Expected a table, found 0 bytes.")
    if first_bytes.startswith(_FEATHER1_MAGIC):
        raise DocumentError(
            "old_feather",
            "Expected Parquet or Arrow, found Feather of version 1. Convert it with "
            "`pyarrow.feather`, which writes version 2.",
        )
    file.seek(0)


def _batches(file: io.BufferedReader, columns: tuple[str, ...]) -> Iterator[Any]:
    """The batches of a file, of those columns that it has."""
    pa = _pyarrow()
    magic = file.read(len(_ARROW_MAGIC))
    file.seek(0)
    if magic.startswith(_PARQUET_MAGIC):
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
    if magic == _ARROW_MAGIC:
        with pa.ipc.open_file(file, options=options) as table:
            for number in range(table.num_record_batches):
                yield from _cut(table.get_batch(number))
        return
    with contextlib.closing(pa.ipc.open_stream(file, options=options)) as table:
        for batch in table:
            yield from _cut(batch)


def _cut(batch: Any) -> Iterator[Any]:
    """Slices of a batch, so that few rows at a time become Python's."""
    for first in range(0, batch.num_rows, _BATCH_ROWS):
        yield batch.slice(first, _BATCH_ROWS)


def _as_bytes(column: Any) -> list[bytes | None] | None:
    """The values as bytes, which need not be valid UTF-8; None for other types."""
    pa = _pyarrow()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_null(kind):
        return [None] * len(column)
    if pa.types.is_string_view(kind) or pa.types.is_string(kind):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(kind):
        column = column.cast(pa.large_binary())
    elif not (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
    ):
        return None
    return column.to_pylist()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:300]
