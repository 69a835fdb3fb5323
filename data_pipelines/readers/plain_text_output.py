"""Writes documents as plain text that any tool reads.

UTF-8, a paragraph a line, a blank line after each document.
"""

import pathlib
from collections.abc import Callable, Iterable, Sequence

from data_pipelines.readers.base import Document
from seg_tf import files


def write(
    output: pathlib.Path,
    sources: Sequence[str],
    documents_of: Callable[[str], Iterable[Document]],
) -> None:
    """Writes the documents of all sources; no file stands half-written.

    Args:
        output: a file for all, or an existing folder for a file a source, which is
            named after the source.
        sources: names of what is read, relative POSIX paths.
        documents_of: the documents of a source.

    Raises:
        OSError: if a file cannot be written.
    """
    if not output.is_dir():
        with files.written_aside(output) as aside:
            write_documents(
                aside, (one for source in sources for one in documents_of(source))
            )
        return
    for source in sources:
        path = output / f"{source}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.written_aside(path) as aside:
            write_documents(aside, documents_of(source))


def write_documents(path: pathlib.Path, documents: Iterable[Document]) -> None:
    """Writes documents to one file."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for document in documents:
            for paragraph in document.paragraphs:
                file.write(paragraph + "\n")
            file.write("\n")
