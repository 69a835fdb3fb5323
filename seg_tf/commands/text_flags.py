"""Flags and readers of the commands that apply a model to texts."""

import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator

from absl import flags

from data_pipelines import readers

STDIN = "-"


def define_text_flags() -> None:
    """Defines `--format` and `--reader_options`."""
    flags.DEFINE_string(
        "format",
        None,
        f"Format of the texts: {', '.join(readers.FORMATS)}, or package.module:Reader. "
        "Default: as the name of a file says (CSV, JSON lines, Markdown, Parquet), "
        "else plain text: a line is a paragraph, and blank lines separate documents. "
        "If its lines look hard-wrapped, they are joined, with a warning.",
    )
    flags.DEFINE_list(
        "reader_options",
        [],
        "Options of the format, as name=value, comma-separated: encoding=cp1252. See "
        "docs/sources.md.",
    )


def read_documents(path: str | os.PathLike[str]) -> Iterator[tuple[str, ...]]:
    """Reads the documents of a file, each as its paragraphs.

    Args:
        path: the file, compressed or not; `-` is stdin.

    Raises:
        ValueError: if a document cannot be read, or there is no such format or option.
    """
    if str(path) == STDIN:
        # Readers detect and seek.
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder, "stdin")
            with open(copy, "wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            yield from read_documents(copy)
        return
    options = readers.parse_options(flags.FLAGS.reader_options)
    for document in readers.read_texts(path, flags.FLAGS.format, **options):
        yield document.paragraphs


def read_paragraphs(path: str | os.PathLike[str]) -> list[str]:
    """Reads the paragraphs of all documents of a file, as `read_documents` does."""
    return [text for paragraphs in read_documents(path) for text in paragraphs]
