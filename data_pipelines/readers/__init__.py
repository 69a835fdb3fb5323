"""Readers of raw text: a file in one of many formats becomes documents."""

import dataclasses
import types
from collections.abc import Iterable
from typing import Any

from data_pipelines.readers.base import (
    COUNTED_REASONS,
    LEFT_OUT_REASONS,
    MAX_DOCUMENT_MEGABYTES,
    Document,
    FileReader,
    RejectedDocument,
    TextReader,
    UnparsedDocument,
)
from data_pipelines.readers.datasets import DatasetsReader, TfdsReader
from data_pipelines.readers.json_lines import JsonLinesReader
from data_pipelines.readers.markdown import MarkdownReader
from data_pipelines.readers.mediawiki import MediaWikiReader
from data_pipelines.readers.plain_text import PlainTextReader
from data_pipelines.readers.python_docs import PythonDocsReader
from data_pipelines.readers.tables import CsvReader, ParquetReader
from data_pipelines.readers.wikipedia import WikiExtractorReader, WikiTextReader
from seg_tf.text import splitters

__all__ = [
    "COUNTED_REASONS",
    "FORMATS",
    "LEFT_OUT_REASONS",
    "MAX_DOCUMENT_MEGABYTES",
    "Document",
    "FileReader",
    "RejectedDocument",
    "TextReader",
    "UnparsedDocument",
    "get_reader",
    "options_of",
    "parse_options",
]
_READERS: dict[str, type[FileReader]] = {
    "csv": CsvReader,
    "datasets": DatasetsReader,
    "json_lines": JsonLinesReader,
    "markdown": MarkdownReader,
    "mediawiki": MediaWikiReader,
    "parquet": ParquetReader,
    "plain_text": PlainTextReader,
    "python_docs": PythonDocsReader,
    "tfds": TfdsReader,
    "wikiextractor": WikiExtractorReader,
    "wikitext": WikiTextReader,
}
FORMATS = types.MappingProxyType(
    {
        name: (reader.__doc__ or "").partition("\n")[0]
        for name, reader in _READERS.items()
    }
)
"""Name of each format -> a line about it."""
_TRUTH_VALUES = dict.fromkeys(("true", "1", "yes"), True) | dict.fromkeys(
    ("false", "0", "no"), False
)


def get_reader(format: str, **options: Any) -> FileReader:
    """Returns the reader of a format.

    Args:
        format: a key of `FORMATS`; or `package.module:Reader`, the name of a subclass
            of `FileReader` that is a frozen dataclass.
        **options: the format's options, which are the fields of its reader. Strings,
            such as flags have, are converted to the option's type.

    Raises:
        ValueError: if there is no such format, option or value.
    """
    reader_class = _reader_class(format)
    fields = {field.name: field.type for field in dataclasses.fields(reader_class)}
    if unknown := set(options) - set(fields):
        raise ValueError(
            f"Format {format!r} has the options {sorted(fields)}. "
            f"Received: {sorted(unknown)}"
        )
    return reader_class(
        **{
            name: _converted(name, value, fields[name])
            for name, value in options.items()
        }
    )


def _reader_class(format: str) -> type[FileReader]:
    if format in _READERS:
        return _READERS[format]
    if ":" not in format:
        raise ValueError(
            f"`format` must be one of {sorted(_READERS)}, or `module:Reader` for your "
            f"own. Received: {format!r}"
        )
    reader_class: Any = splitters.load_function(format, "format")
    if not (
        isinstance(reader_class, type)
        and issubclass(reader_class, FileReader)
        and dataclasses.is_dataclass(reader_class)
    ):
        raise ValueError(
            "`format` must name a dataclass that is a subclass of "
            f"data_pipelines.readers.FileReader. Received: {format!r}"
        )
    return reader_class


def options_of(format: str) -> dict[str, str]:
    """Names and defaults of a format's options, in the form of flags."""
    return {
        field.name: str(field.default).lower()
        if isinstance(field.default, bool)
        else str(field.default)
        for field in dataclasses.fields(_reader_class(format))
        if field.name != "max_document_megabytes"  # A flag for every format.
    }


def parse_options(assignments: Iterable[str]) -> dict[str, str]:
    """Parses options in the form of flags: `["text_field=body"]`."""
    options = {}
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator or not name:
            raise ValueError(
                f"An option must have the form `name=value`. Received: {assignment!r}"
            )
        options[name.strip()] = value
    return options


def _converted(name: str, value: Any, kind: Any) -> Any:
    """The value of an option, whose type is a class or its name."""
    kind = getattr(kind, "__name__", kind)
    if kind == "bool" and not isinstance(value, bool):
        if str(value).lower() not in _TRUTH_VALUES:
            raise ValueError(f"`{name}` must be true or false. Received: {value!r}")
        return _TRUTH_VALUES[str(value).lower()]
    if kind == "int" and isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise ValueError(
                f"`{name}` must be an integer. Received: {value!r}"
            ) from None
    if kind == "float":
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not 0 < number < float("inf"):
            raise ValueError(f"`{name}` must be a positive number. Received: {value!r}")
        return number
    return value
