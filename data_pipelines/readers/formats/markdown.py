"""Markdown: a file is a document; the marks go, the text stays."""

import dataclasses
import io
import re
from collections.abc import Iterator
from typing import ClassVar

from data_pipelines.readers import base
from data_pipelines.readers.formats import html_marks
from data_pipelines.readers.io import byte_streams, decoding

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#+(?:\s+|$)")
_HEADING_END = re.compile(r"\s+#+\s*$")
# `-----`, `* * *`, and the line under a heading, `=====`.
_RULE = re.compile(r"\s*(?:([-*_])(?:\s*\1){2,}|=+|-+)\s*$")
_QUOTE = re.compile(r"(?: {0,3}>)* ?")
_LIST_ITEM = re.compile(r"\s*[-*+]\s+(?=\S)")
_NUMBERED_ITEM = re.compile(r"\s*(\d{1,3})[.)]\s+\S")
_LINK_TARGET = re.compile(r" {0,3}\[[^\]]+\]:\s*\S+")

# Addresses may have brackets in them: `(http://x.org/Moon_(satellite) "The moon")`.
_TARGET = r"\((?:[^()\s\[]|\([^()\s\[]*\))*(?:\s[^()\[]*)?\)"
_IMAGE = re.compile(rf"!\[[^\]\[]*\]{_TARGET}")
_LINK = re.compile(rf"(?<!\\)\[([^\]\[]+)\](?:{_TARGET}|\[[^\]\[]*\])")
# Not `so' and `so', which are quotation marks.
_CODE = re.compile(
    r"(?<![\\`])(?P<mark>`{1,2})(?![\s`])"
    r"(?P<text>(?:(?!(?P=mark)).)+)(?<!\s)(?P=mark)(?![\w`])"
)
# A mark opens before text and closes after it, and never occurs inside a word:
# `snake_case`, `2 * 3` and `____` are text.
_EMPHASIS = re.compile(
    r"(?<![\w\\*_])(?P<mark>\*{1,3}|_{1,3})(?![\s*_])"
    r"(?P<text>(?:(?!(?P=mark)).)+?)(?<![\s\\])(?P=mark)(?![\w*_])"
)
# Front matter: `key:`, and what belongs to one (indented, list items, comments).
_YAML_KEY = re.compile(r"(?:[\w.-]+|\"[^\"]*\"|'[^']*')\s*:(?:\s|$)")
_YAML_LINE = re.compile(rf"{_YAML_KEY.pattern}|\s|#|-(?:\s|$)|[\]}}]|$")
_YAML_TITLE = re.compile(
    r"title\s*:\s*(?![|>])(?P<mark>[\"']?)(?P<title>.*\S)(?P=mark)\s*$"
)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


@dataclasses.dataclass(frozen=True)
class Reader(base.TextReader):
    """Reads Markdown books and articles.

    Blank lines separate paragraphs, whose lines are joined by a space. Headings and
    each list item is a paragraph. Removed are

    * the marks of headings (`#`), quotes (`>`), list items (`-`, `*`, `+`; numbers
      stay), and the lines under headings;
    * horizontal rules, fenced code blocks, table rows (which begin with `|`),
      images and the definitions of link targets;
    * the marks of emphasis, code and links: `_word_`, `**word**`, `[word](url)`
      become `word`; backslashes before punctuation; entities such as `&amp;`;
    * comments and tags of HTML, see `html_marks.without_html`;
    * front matter: YAML between `---` and `---` (or `...`) at the start of the file.

    The title is that of the front matter, or the first heading, without a "Title: "
    that may be there.

    Args:
        encoding: see `base.TextReader`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".md", ".markdown")

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        offset = stream.tell()
        data = byte_streams.read_all(stream, self.max_document_bytes)
        text = decoding.decode_utf8(data, first_offset=offset, encoding=self.encoding)
        title, lines = _without_front_matter(text.split("\n"))
        paragraphs = []
        for block, is_heading in _blocks(lines):
            paragraph = strip_inline_marks(block).strip()
            if paragraph:
                paragraphs.append(paragraph)
            if is_heading and not title:
                title = paragraph.removeprefix("Title: ")
        yield base.document_or_rejection(paragraphs, source, base.WHOLE_FILE, title)


def strip_inline_marks(text: str) -> str:
    """The text of a paragraph without the marks of emphasis, code and links."""
    if "[" in text:
        text = _LINK.sub(r"\1", _IMAGE.sub("", text))
    if "`" in text:
        text = _CODE.sub(r"\g<text>", text)
    if "*" in text or "_" in text:
        # Twice, since emphasis may lie within emphasis: `**very _very_ late**`.
        text = _EMPHASIS.sub(r"\g<text>", _EMPHASIS.sub(r"\g<text>", text))
    if "\\" in text:
        text = _ESCAPE.sub(r"\1", text)
    return decoding.unescape_entities(text).replace("\n", " ")


def _blocks(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Yields the text of each block and whether it is a heading."""
    block: list[str] = []
    text = "\n".join(_without_fenced_code(lines))
    if "<" in text:
        text = html_marks.without_html(text)
    for line in text.split("\n"):
        line = line[_QUOTE.match(line).end() :] if ">" in line else line
        heading, item = _HEADING.match(line), _LIST_ITEM.match(line)
        is_dropped = (
            not line.strip()
            or line.lstrip().startswith("|")
            or _RULE.match(line)
            or _LINK_TARGET.match(line)
        )
        if block and (is_dropped or heading or item or _is_next_number(block, line)):
            yield " ".join(block), False
            block = []
        if is_dropped:
            continue
        if heading:
            yield _HEADING_END.sub("", line[heading.end() :]), True
        else:
            block.append(line[item.end() if item else 0 :].strip())
    if block:
        yield " ".join(block), False


def _without_front_matter(lines: list[str]) -> tuple[str, list[str]]:
    """The title that the front matter gives, or "", and the lines after it."""
    if lines[0].rstrip() != "---" or not "".join(lines[1:2]).strip():
        return "", lines
    title, has_key = "", False
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in ("---", "..."):
            return (title, lines[number + 1 :]) if has_key else ("", lines)
        if not _YAML_LINE.match(line):
            break  # The line above was a rule, and this is text.
        has_key = has_key or bool(_YAML_KEY.match(line))
        if not title and (found := _YAML_TITLE.match(line)):
            title = found["title"]
    return "", lines


def _is_next_number(block: list[str], line: str) -> bool:
    """Recognises a numbered list's first item, or one after another item.

    A sentence may happen to break before a number and full stop.
    """
    number = _NUMBERED_ITEM.match(line)
    return bool(number) and (
        number[1] == "1" or _NUMBERED_ITEM.match(block[0]) is not None
    )


def _without_fenced_code(lines: list[str]) -> Iterator[str]:
    """Leaves out fenced code; a fence that nothing closes is no fence."""
    index = 0
    never_closed = set()
    while index < len(lines):
        fence, end = _FENCE.match(lines[index]), None
        if fence and fence[1] not in never_closed:
            end = _closing_fence(lines, index, fence[1])
            if end is None:
                never_closed.add(fence[1])
        if end is None:
            yield lines[index]
            index += 1
        else:
            yield ""
            index = end + 1


def _closing_fence(lines: list[str], start: int, fence: str) -> int | None:
    for index in range(start + 1, len(lines)):
        line = lines[index].strip()
        if line.startswith(fence) and not line.strip(fence[0]):
            return index
    return None
