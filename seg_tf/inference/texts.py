"""Plain text as the commands read it, and the sentences in it.

UTF-8, a paragraph a line, a blank line ends a document. `python -m
data_pipelines.readers --output=…` writes any other format so.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from seg_tf import file_listing

if TYPE_CHECKING:
    from seg_tf.text.punkt import Splitter


@dataclasses.dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and where it stands.

    Attributes:
        text: the sentence.
        file: name of the file, or of another source.
        document: number of the document in the file, from 1.
        line: number of the line, from 1.
        paragraph: number of the paragraph in the document, from 0.
    """

    text: str
    file: str
    document: int = 1
    line: int = 1
    paragraph: int = 0


def check_texts(texts: Iterable[str], argument: str) -> list[str]:
    """The texts of an argument as a list.

    Args:
        texts: what was given.
        argument: its name, for messages.

    Raises:
        ValueError: if there is none, it is a string itself, or one of them is none.
    """
    if isinstance(texts, str):
        raise ValueError(
            f"`{argument}` must be a sequence of texts. Received: the string "
            f"{texts[:50]!r}"
        )
    found = list(texts)
    if not found:
        raise ValueError(f"`{argument}` must hold at least one text. Received: none")
    for number, one in enumerate(found):
        if not isinstance(one, str):
            raise ValueError(
                f"`{argument}` must hold texts. Received: {argument}[{number}]={one!r}"
            )
    return found


def list_files(paths: Sequence[str]) -> dict[str, pathlib.Path]:
    """The files that paths stand for, by name.

    Args:
        paths: files, and folders, which are searched recursively without hidden files.

    Returns:
        Name -> file, in the order of the paths and by name in a folder. Names are
        relative to the folder, so that they are the same wherever it lies.

    Raises:
        ValueError: if a path does not exist, there is no file, or two have one name.
    """
    found = {}
    for text in paths:
        path = pathlib.Path(text).expanduser()
        if not (path.is_file() or path.is_dir()):
            raise ValueError(
                f"There must be such a file or folder. Received: {text!r}, which is "
                "neither"
            )
        named = {
            file_listing.relative_name(one, path): one
            for one in file_listing.walk(path)
        }
        for name, one in sorted(named.items()):
            if name in found:
                raise ValueError(
                    f"Files must have names of their own. Received: {found[name]} and "
                    f"{one}; give the folder that both lie in"
                )
            found[name] = one
    if not found:
        raise ValueError(
            f"There must be at least one file. Received: {', '.join(paths) or 'none'}"
        )
    return found


def read_sentences(
    sources: Mapping[str, pathlib.Path], splitter: Splitter
) -> Iterator[Sentence]:
    """The sentences of files, one after the other; no file is held in memory.

    Args:
        sources: name -> file.
        splitter: what makes sentences of a line.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if one is not UTF-8, naming it and the line.
    """
    for name, path in sources.items():
        with open(path, "rb") as file:
            yield from split_lines(decoded(file, str(path)), name, splitter)


def split_lines(
    lines: Iterable[str], name: str, splitter: Splitter
) -> Iterator[Sentence]:
    """The sentences of lines, each of which is a paragraph; blank ones part documents.

    Args:
        lines: of one file.
        name: that of the file.
        splitter: what makes sentences of a line.
    """
    document, paragraph = 1, 0
    for number, line in enumerate(lines, start=1):
        sentences = splitter.split(line)
        if not sentences:
            if paragraph:
                document, paragraph = document + 1, 0
            continue
        for text in sentences:
            yield Sentence(text, name, document, number, paragraph)
        paragraph += 1


def sentences_of(text: str, splitter: Splitter) -> list[Sentence]:
    """The sentences of one text, whose lines are paragraphs; blank ones do not count.

    Args:
        text: the text.
        splitter: what makes sentences of a line.
    """
    lines = filter(str.strip, text.split("\n"))
    return list(split_lines(lines, "", splitter))


def in_context(
    sentences: Iterable[Sentence], context_sentences: int
) -> Iterator[tuple[Sentence, ...]]:
    """Each sentence, last, behind those before it in its document.

    Args:
        sentences: in order.
        context_sentences: how many before it there are at most.
    """
    window = collections.deque(maxlen=context_sentences + 1)
    document = None
    for sentence in sentences:
        if (sentence.file, sentence.document) != document:
            window.clear()
            document = (sentence.file, sentence.document)
        window.append(sentence)
        yield tuple(window)


def indices(sentences: Sequence[Sentence]) -> tuple[list[int], list[int]]:
    """Paragraph and sentence index of consecutive sentences, from 0 at the first."""
    paragraphs, numbers = [], []
    for sentence in sentences:
        paragraph = sentence.paragraph - sentences[0].paragraph
        is_same = bool(paragraphs) and paragraphs[-1] == paragraph
        numbers.append(numbers[-1] + 1 if is_same else 0)
        paragraphs.append(paragraph)
    return paragraphs, numbers


def decoded(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of a file as text, without the byte order mark there may be.

    Args:
        lines: of the whole file, from the first on.
        name: what the file is called in a message.

    Raises:
        ValueError: if a line is not UTF-8, naming file and line.
    """
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name}:{number}: expected UTF-8, found byte "
                f"0x{line[error.start]:02X} ({error.reason})"
            ) from error
