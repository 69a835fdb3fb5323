"""Reads extracted Wikipedia articles: the output of WikiExtractor, and WikiText."""

import dataclasses
import io
import itertools
import re
from collections.abc import Iterator
from typing import ClassVar

from data_pipelines.readers import base, json_lines, streams, wiki_markup
from data_pipelines.readers.streams import DocumentError

_ID = re.compile(rb'<doc id="([^"]*)"')
# Quotation marks in titles are not escaped: title=""Heroes"".
_TITLE = re.compile(r'\stitle="(.*)"\s*>\s*$')
# Tags that some versions of WikiExtractor keep. Other tags may be text, for example in
# an article on HTML.
_LINE_BREAK = re.compile(r"</?br\b[^<>\n]*>", re.IGNORECASE)
_STRAY_TAG = re.compile(
    r"</a>|<a\s+href=[^<>\n]*>|</?(?:chem|dd|dfn|div|dl|dt|gallery|includeonly|ins|li"
    r"|math|noinclude|nowiki|ol|onlyinclude|poem|q|ref|references|score|section|small"
    r"|span|sub|sup|table|td|templatestyles|th|tr|ul)\b[^<>\n]*>",
    re.IGNORECASE,
)
# Older versions mark list items and headings, and add a period to headings.
_SECTION = re.compile(r"^Section::::(.*?)\.?$", re.MULTILINE)
_BULLET = re.compile(r"^BULLET::::(?:-|\d+\.)?[ \t]*", re.MULTILINE)
# Remains of brackets whose content was removed, unlike `main()`, and of a sentence in
# brackets with its period. The second expression is slow because it tries every space
# of a text.
_BRACKETS = re.compile(r"\([ \t,;:]*+\)")
_EMPTY_BRACKETS = re.compile(
    rf"(?<=[.!?])[ \t]++{_BRACKETS.pattern}\.(?!\.)"
    rf"|(?:(?<![ \t])[ \t]++|^){_BRACKETS.pattern}",
    re.MULTILINE,
)
# ` = Title = `; a section is ` = = Section = = `.
_WIKITEXT_TITLE = re.compile(rb"= (?!= ).*[^=] =$", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class WikiExtractorReader(json_lines.JsonLinesReader):
    """WikiExtractor's output: Wikipedia articles as `<doc>` blocks or as JSON lines.

    The format of a file is detected from its first line. The title is the first
    paragraph, and every non-blank line is a paragraph, including headings. Entities
    such as `&amp;` are replaced. Leftover markup is removed: tags (`<br>`, `</dl>`,
    `<a href=…>`), switches (`__NOTOC__`), the marks `Section::::` and `BULLET::::`, and
    empty brackets. An article without text is rejected, even if it has a title.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        if stream.peek(1).lstrip().startswith(b"{"):
            yield from super().read_stream(stream, source)
            return
        for block in _blocks(stream, self.max_document_bytes):
            if isinstance(block, DocumentError):
                yield base.reject(block, source)
                continue
            location = _location(block.first)
            try:
                text = block.decode()
            except DocumentError as error:
                yield base.reject(error, source, location)
                continue
            header, _, text = text.partition("\n")
            match = _TITLE.search(header)
            title = match[1] if match else ""
            paragraphs = self.to_paragraphs(text, title)
            title = " ".join(streams.unescape_entities(title).split())
            yield base.to_document(paragraphs, source, location, title)

    def to_paragraphs(self, text: str, title: str) -> list[str]:
        text, title = map(streams.unescape_entities, (text, title))
        title = " ".join(title.split())  # An entity may be a line feed.
        if "<" in text:
            text = _STRAY_TAG.sub("", _LINE_BREAK.sub(" ", text))
        if "__" in text:
            text = wiki_markup.SWITCH.sub("", text)
        if "::::" in text:
            text = _BULLET.sub("", _SECTION.sub(r"\1", text))
        if _BRACKETS.search(text):
            text = _EMPTY_BRACKETS.sub("", text)
        paragraphs = streams.split_lines(text)
        # Blocks repeat the title in their first line, but JSON does not.
        if title and paragraphs and " ".join(paragraphs[0].split()) == title:
            del paragraphs[0]
        return [title, *paragraphs] if paragraphs and title else paragraphs


def _blocks(
    stream: io.BufferedReader, max_bytes: int
) -> Iterator[streams.Block | DocumentError]:
    """Yields `<doc …>` blocks, and errors for truncated blocks and text outside."""
    block, has_blocks, is_reported = None, False, False

    def truncated(end: str) -> DocumentError:
        message = f"Expected `</doc>` after the document's text, found {end}."
        return DocumentError("truncated_document", message, _location(block.first))

    for line in streams.lines(stream, max_bytes):
        if line.data.startswith(b"<doc "):
            if block is not None:
                yield truncated(f"`<doc` in line {line.number}")
            block = streams.Block(line, max_bytes)
            has_blocks, is_reported = True, False
        elif block is not None and line.data.startswith(b"</doc>"):
            yield block
            block = None
        elif block is not None:
            block.add(line)
        elif not line.data.isspace():
            excerpt = line.data.strip()[:40].decode("utf-8", "replace")
            error = DocumentError(
                "text_outside_document" if has_blocks else "not_wikiextractor",
                "Expected `<doc id=…>` (or one JSON object a line), found "
                f"{excerpt!r}.",
                f"line {line.number}",
            )
            if not has_blocks:
                raise error
            if not is_reported:
                yield error  # Once for all lines up to the next block.
                is_reported = True
    if block is not None:
        yield truncated("the end of the file")


def _location(header: streams.Line) -> str:
    match = _ID.match(header.data)
    document = f"doc id={match[1].decode('utf-8', 'replace')}, " if match else ""
    return f"{document}line {header.number}"


@dataclasses.dataclass(frozen=True)
class WikiTextReader(base.TextReader):
    """WikiText-2 and WikiText-103, tokenized Wikipedia articles with many per file.

    Each non-blank line is a paragraph. Titles and headings (` = = … = = `) keep their
    marks. Words stay tokenized, including `<unk>`. A document begins at a title line,
    ` = Title = `. Because lines of formulas may look the same (` = 1 rad / s … = `), a
    title line must be between blank lines, or at an edge of the file. Text before the
    first title is a document without a title.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".tokens", ".raw", ".txt")

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        for article, has_title in self._articles(stream):
            location = f"line {article.first.number}"
            try:
                paragraphs = streams.split_lines(article.decode())
            except DocumentError as error:
                yield base.reject(error, source, location)
                continue
            title = paragraphs[0].strip("= ") if has_title else ""
            if has_title and len(paragraphs) == 1:
                paragraphs = []
            if paragraphs or has_title:
                yield base.to_document(paragraphs, source, location, title)

    def _articles(
        self, stream: io.BufferedReader
    ) -> Iterator[tuple[streams.Block, bool]]:
        max_bytes = self.max_document_bytes
        article, has_title, previous_is_blank = None, False, True
        lines = streams.lines(stream, max_bytes)
        for line, following in itertools.pairwise(itertools.chain(lines, [None])):
            text = line.data.strip()
            is_title = (
                previous_is_blank
                and (following is None or not following.data.strip())
                and _WIKITEXT_TITLE.match(text)
            )
            if article is None or is_title:
                if article is not None:
                    yield article, has_title
                article, has_title = streams.Block(line, max_bytes), bool(is_title)
            else:
                article.add(line)
            previous_is_blank = not text
        if article is not None:
            yield article, has_title
