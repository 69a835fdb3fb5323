"""Readers that convert raw text files in many formats into documents."""

import dataclasses
import itertools
import logging
import os
from collections.abc import Iterable, Iterator
from typing import Any

from data_pipelines.readers import plain_text, streams
from data_pipelines.readers.base import (
    COUNTED_REASONS,
    LEFT_OUT_REASONS,
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
from seg_tf import file_listing
from seg_tf.text import splitters

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
FORMATS = {
    name: (reader.__doc__ or "").partition("\n")[0] for name, reader in _READERS.items()
}
"""Format name -> one-line description."""
# Formats that are detected from file names.
_DETECTED = ("csv", "json_lines", "markdown", "parquet")
_DETECTION_LINES = 1000
# Files whose lines `read_texts` has joined.
_wrapped_files: set[file_listing.Path] = set()
_CONVERSIONS = {
    "bool": ("true or false", lambda text: {"true": True, "false": False}[text]),
    "int": ("an integer", int),
    "float": ("a number", float),
}


def get_reader(format: str, **options: Any) -> FileReader:
    """Returns the reader of a format. Raises ValueError if an argument is invalid.

    Args:
        format: a key of `FORMATS`, or `package.module:Reader`, where `Reader` is a
            frozen dataclass that inherits from `FileReader`.
        **options: options of the format, which are the fields of its reader. Strings,
            for example from flags, are converted to the option's type.
    """
    reader_class: Any = _READERS.get(format)
    if reader_class is None and ":" not in format:
        raise ValueError(
            f"`format` must be one of {sorted(_READERS)}, or `module:Reader` for your "
            f"own. Received: {format!r}"
        )
    reader_class = reader_class or splitters.load_function(format, "format")
    if not (
        isinstance(reader_class, type)
        and issubclass(reader_class, FileReader)
        and dataclasses.is_dataclass(reader_class)
    ):
        raise ValueError(
            "`format` must name a dataclass that is a subclass of "
            f"data_pipelines.readers.FileReader. Received: {format!r}"
        )
    fields = {field.name: field.type for field in dataclasses.fields(reader_class)}
    if unknown := set(options) - set(fields):
        raise ValueError(
            f"Format {format!r} has the options {sorted(fields)}. "
            f"Received: {sorted(unknown)}"
        )
    for name, value in options.items():
        kind = getattr(fields[name], "__name__", fields[name])
        if kind in _CONVERSIONS and isinstance(value, str):
            rule, convert = _CONVERSIONS[kind]
            try:
                options[name] = convert(value.lower())
            except (KeyError, ValueError) as error:
                raise ValueError(
                    f"`{name}` must be {rule}. Received: {value!r}"
                ) from error
    return reader_class(**options)


def read_texts(
    path: str | os.PathLike[str], format: str | None = None, **options: Any
) -> Iterator[Document]:
    """Reads the documents of one file, for commands that apply a model to texts.

    Raises ValueError if an option is invalid or a document cannot be read.

    Args:
        path: the file, compressed or not, or a URL.
        format: see `get_reader`. If None, it is detected from the file name: CSV, JSON
            lines, Markdown or Parquet. Other files are plain text with one paragraph
            per line and blank lines between documents. If the lines look hard-wrapped,
            the file is read as one document with blank lines between paragraphs. The
            first such file is named in a warning.
        **options: options of the format.
    """
    path = file_listing.to_path(path)
    if format is None:
        name = path.name.lower()
        for suffix in file_listing.COMPRESSION_SUFFIXES:
            name = name.removesuffix(suffix)
        detected = [key for key in _DETECTED if name.endswith(_READERS[key].suffixes)]
        format = detected[0] if detected else "plain_text"
        if not detected and options.keys().isdisjoint(("documents", "hard_wrapped")):
            options["documents"] = "blank_lines"
            if _has_wrapped_sentences(path, options.get("encoding", streams.UTF_8)):
                options.update(documents="file", hard_wrapped="yes")
                if not _wrapped_files:
                    logging.warning(
                        "%s: the lines look hard-wrapped. Here and in other files like "
                        "this, they are joined to paragraphs, separated by blank "
                        "lines. --reader_options=documents=blank_lines reads each line "
                        "as a paragraph",
                        path,
                    )
                _wrapped_files.add(path)
    for item in get_reader(format, **options).read(path):
        if isinstance(item, Document):
            yield item
        elif item.reason not in LEFT_OUT_REASONS:
            raise ValueError(f"{path}, {item.location}: {item.message}")


def _has_wrapped_sentences(path: file_listing.Path, encoding: str) -> bool:
    """Returns whether a file's lines are short and mostly end within a sentence."""
    try:
        with streams.open_text(path, streams.codec_name(encoding)) as stream:
            lines = itertools.islice(streams.lines(stream, 1 << 20), _DETECTION_LINES)
            text = [line.data.decode("utf-8", "replace").strip() for line in lines]
    except streams.DocumentError:
        return False  # Reading reports it.
    return plain_text.is_hard_wrapped(text) and plain_text.breaks_sentences(text)


def options_of(format: str) -> dict[str, str]:
    """Returns the names and defaults of a format's options, as strings for flags."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in vars(get_reader(format)).items()
    }


def parse_options(assignments: Iterable[str]) -> dict[str, str]:
    """Parses `name=value` options into a dict. Raises ValueError for other strings."""
    options = {}
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator or not name:
            raise ValueError(
                f"An option must have the form `name=value`. Received: {assignment!r}"
            )
        options[name.strip()] = value
    return options
