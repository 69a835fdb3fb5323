"""WikiExtractor's output: Wikipedia articles as `<doc>` blocks or as JSON lines."""

import dataclasses
import io
import re
from collections.abc import Iterator
from typing import NamedTuple

from data_pipelines.readers import base
from data_pipelines.readers.errors import DocumentError, too_long
from data_pipelines.readers.formats import json_lines
from data_pipelines.readers.io import byte_streams, decoding

_ID = re.compile(rb'<doc id="([^"]*)"')
# Titles with quotation marks are written as they are: title=""Heroes"".
_TITLE = re.compile(r'\stitle="(.*)"\s*>\s*$')
_SHOWN_BYTES = 40

# Tags that WikiExtractor's versions leave in. Other tags may belong to the text: an
# article on HTML has every right to its `<title>`.
_LINE_BREAK = re.compile(r"</?br\b[^<>\n]*>", re.IGNORECASE)
_STRAY_TAG = re.compile(
    r"</?(?:dd|dfn|div|dl|dt|gallery|includeonly|li|math|noinclude|nowiki|ol"
    r"|onlyinclude|poem|ref|references|score|small|span|sub|sup|table|td|th|tr|ul)"
    r"\b[^<>\n]*>",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class Reader(base.TextReader):
    """Reads `<doc id= url= title=>` blocks, or the JSON lines of `--json`.

    Which of the two a file holds is seen from its first line. Every line that is
    not blank is a paragraph, headings too. Entities such as `&amp;` are replaced,
    tags that WikiExtractor leaves in (`<br>`, `</dl>`) removed. An article
    without a line of text is rejected, even if it has a title.

    Args:
        drop_title: whether to leave out the title, which is the first paragraph
            otherwise.
    """

    drop_title: bool = False

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        if stream.peek(1).lstrip().startswith(b"{"):
            return json_lines.read_json_lines(
                stream,
                source,
                text_field="text",
                title_field="title",
                to_paragraphs=self._to_paragraphs,
                encoding=self.encoding,
                max_bytes=self.max_document_bytes,
            )
        return self._read_blocks(stream, source)

    def _read_blocks(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        for block in _blocks(stream, self.max_document_bytes):
            if isinstance(block, DocumentError):
                yield base.reject(block, source)
                continue
            location = _location(block.data, block.line)
            try:
                text = decoding.decode_utf8(
                    block.data, block.line, block.offset, self.encoding
                )
            except DocumentError as error:
                yield base.reject(error, source, location)
                continue
            header, _, text = text.partition("\n")
            match = _TITLE.search(header)
            title = decoding.unescape_entities(match[1]) if match else ""
            title = " ".join(title.split())
            paragraphs = self._to_paragraphs(text, title)
            yield base.document_or_rejection(paragraphs, source, location, title)

    def _to_paragraphs(self, text: str, title: str) -> list[str]:
        paragraphs = decoding.split_lines(_clean(text))
        # Blocks repeat the title as their first line, JSON does not.
        if title and paragraphs and " ".join(paragraphs[0].split()) == title:
            del paragraphs[0]
        if paragraphs and title and not self.drop_title:
            paragraphs.insert(0, title)
        return paragraphs


class _DocBlock(NamedTuple):
    """The lines from a `<doc>` to before its `</doc>`."""

    line: int
    offset: int
    data: bytes


def _blocks(
    stream: io.BufferedReader, max_bytes: int
) -> Iterator[_DocBlock | DocumentError]:
    """Cuts a file into blocks, and what is none into errors; holds one at a time.

    Of a block that is longer than `max_bytes` only the first line is held.

    Raises:
        DocumentError: if the file does not begin with a block.
    """
    offset = stream.tell()
    first_line, first_offset, lines, size = 0, 0, None, 0
    is_reported = False
    for number, line in enumerate(byte_streams.lines(stream, max_bytes), start=1):
        num_bytes = len(line)
        if isinstance(line, byte_streams.LongLine):
            line, num_bytes = line
        if lines is not None and not line.startswith((b"<doc ", b"</doc>")):
            lines.append(line)
            size += num_bytes
            if size > max_bytes:
                del lines[1:]
        elif line.startswith(b"<doc "):
            if lines is not None:
                yield _truncated(lines[0], first_line, f"`<doc` in line {number}")
            first_line, first_offset = number, offset
            lines, size = [line], num_bytes
            is_reported = False
        elif lines is not None and size > max_bytes:
            yield too_long(max_bytes, _location(lines[0], first_line))
            lines = None
        elif lines is not None:
            yield _DocBlock(first_line, first_offset, b"".join(lines))
            lines = None
        elif not line.isspace():
            if not first_line:
                raise _outside("not_wikiextractor", line, number)
            if not is_reported:
                # Once for all lines up to the next block.
                yield _outside("text_outside_document", line, number)
                is_reported = True
        offset += num_bytes
    if lines is not None:
        yield _truncated(lines[0], first_line, "the end of the file")


def _truncated(header: bytes, line: int, found: str) -> DocumentError:
    return DocumentError(
        "truncated_document",
        f"Expected `</doc>` after the document's text, found {found}.",
        _location(header, line),
    )


def _outside(reason: str, line: bytes, number: int) -> DocumentError:
    found = line.strip()[:_SHOWN_BYTES].decode("utf-8", "replace")
    return DocumentError(
        reason,
        f"Expected `<doc id=…>` (or one JSON object a line), found {found!r}.",
        f"line {number}",
    )


def _location(block: bytes, line: int) -> str:
    match = _ID.match(block)
    if match is None:
        return f"line {line}"
    return f"doc id={match[1].decode('utf-8', 'replace')}, line {line}"


def _clean(text: str) -> str:
    text = decoding.unescape_entities(text)
    if "<" in text:
        text = _STRAY_TAG.sub("", _LINE_BREAK.sub(" ", text))
    return text
