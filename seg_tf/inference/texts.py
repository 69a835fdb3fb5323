"""Lists text files, and splits documents into sentences with their context."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from seg_tf import file_listing

if TYPE_CHECKING:
    from seg_tf.text.punkt import Splitter


@dataclasses.dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its location in a file."""

    text: str
    file: str = ""  # name of the file, or of another source
    document: int = 1  # number in the file, from 1
    paragraph: int = 0  # number in the document, from 0


def check_texts(texts: Iterable[str], argument: str) -> list[str]:
    """Converts `texts` to a nonempty list of strings, or raises a ValueError."""
    if isinstance(texts, str):
        raise ValueError(
            f"`{argument}` must be a sequence of texts. Received: the string "
            f"{texts[:50]!r}"
        )
    checked = list(texts)
    if not checked:
        raise ValueError(f"`{argument}` must hold at least one text. Received: none")
    for number, text in enumerate(checked):
        if not isinstance(text, str):
            raise ValueError(
                f"`{argument}` must hold texts. Received: {argument}[{number}]={text!r}"
            )
    return checked


def list_files(paths: Sequence[str]) -> dict[str, pathlib.Path]:
    """Maps names to the files that `paths` (files, folders or globs) contain.

    Names are those of `file_listing.relative_name`. Raises a ValueError if two are
    equal or there are no files, and an OSError if a path does not exist.
    """
    sources: dict[str, pathlib.Path] = {}
    for path in paths:
        for file in file_listing.list_files(path):
            name = file_listing.relative_name(file, path)
            if name in sources:
                raise ValueError(
                    f"Names of files must be unique. Received: {sources[name]} and "
                    f"{file}; give the folder that contains both"
                )
            sources[name] = file
    if not sources:
        raise ValueError(f"There must be a file of text (--text). Received: {paths}")
    return sources


def split_documents(
    documents: Iterable[Iterable[str]], name: str, splitter: Splitter
) -> Iterator[Sentence]:
    """Yields the sentences of a file's documents, which are lists of paragraphs."""
    for document, paragraphs in enumerate(documents, start=1):
        split = filter(None, map(splitter.split, paragraphs))
        for paragraph, sentences in enumerate(split):
            for text in sentences:
                yield Sentence(text, name, document, paragraph)


def split_text(text: str, splitter: Splitter) -> list[Sentence]:
    """Splits a document into sentences. Each nonblank line is a paragraph."""
    return list(split_documents([text.split("\n")], "", splitter))


def in_context(sentences: Iterable[Sentence]) -> Iterator[tuple[Sentence, ...]]:
    """Yields `(previous, sentence)`, or `(sentence,)` at the start of a document."""
    previous = None
    for sentence in sentences:
        is_first = previous is None or (
            (previous.file, previous.document) != (sentence.file, sentence.document)
        )
        yield (sentence,) if is_first else (previous, sentence)
        previous = sentence
