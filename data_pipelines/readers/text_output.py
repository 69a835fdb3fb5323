"""Writes documents of any format as text that other tools read.

Plain text: UTF-8, a paragraph a line, a blank line after each document. JSON lines: an
object a document, its paragraphs a line each in the field `text`, which
`--format=json_lines` reads again; so several corpora become one.
"""

import json
import pathlib
from collections.abc import Callable, Iterable, Sequence

from data_pipelines.readers.base import Document
from seg_tf import files

_JSON_LINES = ".jsonl"


def write(
    output: pathlib.Path,
    sources: Sequence[str],
    documents_of: Callable[[str], Iterable[Document]],
) -> None:
    """Writes the documents of all sources; no file is left half-written.

    Args:
        output: a file for all, of JSON lines if it is named so; or an existing folder
            for a file of plain text a source, which is named after the source.
        sources: names of what is read, relative POSIX paths.
        documents_of: the documents of a source.

    Raises:
        OSError: if a file cannot be written.
    """
    if not output.is_dir():
        is_json = output.suffix == _JSON_LINES
        to_text = _to_json if is_json else _to_plain_text
        _write(
            output, (one for source in sources for one in documents_of(source)), to_text
        )
        return
    for source in sources:
        path = output / f"{source}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, documents_of(source), _to_plain_text)


def _write(
    path: pathlib.Path,
    documents: Iterable[Document],
    to_text: Callable[[Document], str],
) -> None:
    with (
        files.written_aside(path) as aside,
        open(aside, "w", encoding="utf-8", newline="\n") as file,
    ):
        for document in documents:
            file.write(to_text(document))


def _to_plain_text(document: Document) -> str:
    return "".join(f"{paragraph}\n" for paragraph in document.paragraphs) + "\n"


def _to_json(document: Document) -> str:
    text = {"title": document.title, "text": "\n".join(document.paragraphs)}
    return json.dumps(text, ensure_ascii=False) + "\n"
