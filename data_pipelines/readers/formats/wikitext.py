"""WikiText-2 and -103: tokenised Wikipedia articles, many to a file."""

import dataclasses
import io
import re
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from data_pipelines.readers import base
from data_pipelines.readers.errors import DocumentError, too_long
from data_pipelines.readers.io import byte_streams, decoding

# ` = Title = `; a section is ` = = Section = = `.
_TITLE = re.compile(rb"= (?!= ).*[^=] =$", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Reader(base.TextReader):
    """Reads `wiki.train.tokens` and its like.

    A line that is not blank is a paragraph, titles and headings (` = = … = = `)
    with their marks too; words stay as they are tokenised, `<unk>` included. A
    document begins at a line ` = Title = ` with a blank line (or the file's edge)
    on either side: without those, a line of a formula such as
    ` = 1 rad / s … = ` would pass for a title. Text before the first title
    is a document without one.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".tokens", ".raw", ".txt")

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        for article in _articles(stream, self.max_document_bytes):
            location = f"line {article.line}"
            try:
                if article.data is None:
                    raise too_long(self.max_document_bytes)
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
    """The lines of one article; `data` is None where they are too many to be held."""

    line: int
    offset: int
    has_title: bool
    data: bytes | None


def _articles(stream: io.BufferedReader, max_bytes: int) -> Iterator[_Article]:
    """Cuts a file into articles, holding one at a time and at most `max_bytes`."""
    offset = stream.tell()
    lines: list[bytes] = []
    line_number, first_offset, has_title, size = 1, offset, False, 0
    previous_is_blank = True

    def article() -> _Article:
        data = b"".join(lines) if size <= max_bytes else None
        return _Article(line_number, first_offset, has_title, data)

    for number, (line, next_is_blank) in enumerate(_with_next(stream, max_bytes), 1):
        num_bytes = len(line)
        if isinstance(line, byte_streams.LongLine):
            line, num_bytes = line
        stripped = line.strip()
        if previous_is_blank and next_is_blank and _TITLE.match(stripped):
            if has_title or size > max_bytes or any(map(bytes.strip, lines)):
                yield article()
            line_number, first_offset, has_title = number, offset, True
            lines, size = [], 0
        lines.append(line)
        size += num_bytes
        if size > max_bytes:
            lines.clear()
        previous_is_blank = not stripped
        offset += num_bytes
    yield article()


def _with_next(
    stream: io.BufferedReader, max_bytes: int
) -> Iterator[tuple[bytes | byte_streams.LongLine, bool]]:
    """Yields each line and whether the next one is blank, or there is none."""
    lines = byte_streams.lines(stream, max_bytes)
    line = next(lines, b"")
    while line:
        following = next(lines, b"")
        is_long = isinstance(following, byte_streams.LongLine)
        yield line, not is_long and not following.strip()
        line = following
