"""Tables of rows with a text: Parquet, Arrow, Hugging Face and TensorFlow Datasets."""

import contextlib
import dataclasses
import importlib
import io
from collections.abc import Iterator
from types import ModuleType
from typing import Any, ClassVar

from data_pipelines.readers import base, streams
from data_pipelines.readers.streams import DocumentError
from seg_tf import file_listing

_BATCH_ROWS = 256
_BUFFER_BYTES = 1 << 20


def import_extra(name: str, package: str) -> ModuleType:
    """Imports a package of the extra `corpora`, late: other formats do without.

    Raises:
        ValueError: if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"This format needs the package {package}, which is not installed: "
            f"`make setup-corpora` installs it ({error})"
        ) from error


@dataclasses.dataclass(frozen=True)
class TableReader(base.FileReader):
    """Base class of readers of rows with a text and perhaps a title."""

    text_field: str = "text"
    title_field: str = "title"

    def _document(
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
            text, title = _to_text(text), _to_text(title)
            if len(text.encode()) > self.max_document_bytes:
                raise streams.too_long(self.max_document_bytes)
        except DocumentError as error:
            return base.reject(error, source, location)
        title, paragraphs = self._title_and_paragraphs(" ".join(title.split()), text)
        return base.to_document(paragraphs, source, location, title)

    def _title_and_paragraphs(self, title: str, text: str) -> tuple[str, list[str]]:
        return title, streams.split_lines(text)

    def _check_text_field(self, names: list[str]) -> None:
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


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    return streams.decode(value) if isinstance(value, bytes) else ""


def damaged(error: Exception, kind: str, number: int) -> DocumentError:
    message = " ".join(str(error).split()).rstrip(".")[:300]
    return DocumentError(
        "damaged_table",
        f"Expected sound {kind}, found: {message}. What precedes was read.",
        f"after row {number}" if number else "",
    )


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
        import_extra("pyarrow", "pyarrow")
        return super().files(input_path, passed_over)

    def read_file(
        self, path: file_listing.Path, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        pa = import_extra("pyarrow", "pyarrow")
        number = 0
        with streams.open_binary(path) as file:
            try:
                for batch in _batches(pa, file, (self.text_field, self.title_field)):
                    for text, title in self._rows(pa, batch):
                        number += 1
                        yield self._document(text, title, source, f"row {number}")
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
        self._check_text_field(names)
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
    if magic.startswith(b"FEA1"):
        raise DocumentError(
            "old_feather",
            "Expected Parquet or Arrow, found Feather of version 1. Convert it with "
            "`pyarrow.feather`, which writes version 2.",
        )
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
    kind, types = column.type, pa.types
    if types.is_null(kind):
        return [None] * len(column)
    if types.is_string_view(kind) or types.is_string(kind):
        column = column.cast(pa.binary())
    elif types.is_large_string(kind):
        column = column.cast(pa.large_binary())
    elif not any(
        is_kind(kind)
        for is_kind in (types.is_binary, types.is_large_binary, types.is_binary_view)
    ):
        return None
    return column.to_pylist()
