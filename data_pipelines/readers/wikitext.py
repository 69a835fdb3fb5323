"""WikiText-2 and -103: tokenised Wikipedia articles, many to a file."""

import dataclasses
import io
import re
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from data_pipelines.readers import base, decoding
from data_pipelines.readers.errors import DocumentError

# ` = Title = `; a section is ` = = Section = = `.
_TITLE = re.compile(rb"= (?!= ).*[^=] =$", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Reader(base.TextReader):
    """Reads `wiki.train.tokens` and its like.

    A line that is not blank is a paragraph, titles and headings (` = = … = = `)
    with their marks too; words stay as they are tokenised, `<unk>` included. A
    document begins at a line ` = Title = ` with a blank line (or the file's edge)
    on either side: without those, a line of a formula such as
    ` = 1 rad / s … = ` would pass for a title. What stands before the first title
    is a document without one.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".tokens", ".raw", ".txt")

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        for article in _articles(stream):
            location = f"line {article.line}"
            try:
                text = decoding.decode_utf8(
                    article.data, article.line, article.offset, self.encoding
                )
            except DocumentError as error:
                yield base.reject(error, source, location)
                continue
            paragraphs = decoding.split_lines(text)
            title = paragraphs[0].strip("= ") if article.has_title else ""
            if article.has_title and len(paragraphs) == 1:
                paragraphs = []
            yield base.document_or_rejection(paragraphs, source, location, title)


class _Article(NamedTuple):
    """The lines of one article."""

    line: int
    offset: int
    has_title: bool
    data: bytes


def _articles(stream: io.BufferedReader) -> Iterator[_Article]:
    """Cuts a file into articles, holding one at a time."""
    offset = stream.tell()
    lines: list[bytes] = []
    line_number, first_offset, has_title = 1, offset, False
    previous_is_blank = True
    for number, (line, next_is_blank) in enumerate(_with_next(stream), start=1):
        stripped = line.strip()
        if previous_is_blank and next_is_blank and _TITLE.match(stripped):
            if has_title or any(map(bytes.strip, lines)):
                yield _Article(line_number, first_offset, has_title, b"".join(lines))
            line_number, first_offset, has_title, lines = number, offset, True, []
        lines.append(line)
        previous_is_blank = not stripped
        offset += len(line)
    yield _Article(line_number, first_offset, has_title, b"".join(lines))


def _with_next(stream: io.BufferedReader) -> Iterator[tuple[bytes, bool]]:
    """Yields each line and whether the next one is blank, or there is none."""
    line = stream.readline()
    while line:
        following = stream.readline()
        yield line, not following.strip()
        line = following
