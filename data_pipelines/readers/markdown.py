"""Markdown: a file is a document; the marks go, the text stays."""

import dataclasses
import io
import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

from data_pipelines.readers import base, streams

# Fences may be in quotations and list items; backticks in the rest are a span of code.
_FENCE = re.compile(r"[\s>]*(?:(?:[-*+]|\d{1,3}[.)])\s+)*(`{3,}(?!.*`)|~{3,})")
_HEADING = re.compile(r" {0,3}#+(?:\s+|$)")
_HEADING_END = re.compile(r"\s+#+\s*$")
# `-----`, `* * *`, and the line under a heading, `=====`.
_RULE = re.compile(r"\s*(?:([-*_])(?:\s*\1){2,}|=+|-+)\s*$")
_QUOTE = re.compile(r"(?: {0,3}>)* ?")
_LIST_ITEM = re.compile(r"\s*[-*+]\s+(?=\S)")
_NUMBERED_ITEM = re.compile(r"\s*(\d{1,3})[.)]\s+\S")
# The line below the names of a table's columns.
_TABLE_RULE = re.compile(r"[\s>]*:?-+:?\s*(?:\|\s*:?-+:?\s*)+$")
_LINK_TARGET = re.compile(r" {0,3}\[[^\]]+\]:\s*\S+")

# Addresses may contain brackets: `(http://x.org/Moon_(satellite) "The moon")`.
_TARGET = r"\((?:[^()\s\[]|\([^()\s\[]*\))*(?:\s[^()\[]*)?\)"
_IMAGE = re.compile(rf"!\[[^\]\[]*\]{_TARGET}")
_LINK = re.compile(rf"(?<!\\)\[([^\]\[]+)\](?:{_TARGET}|\[[^\]\[]*\])")
# Not `so' and `so', which are quotation marks.
_CODE = re.compile(
    r"(?<![\\`])(?P<mark>`{1,2})(?![\s`])"
    r"(?P<text>(?:(?!(?P=mark)).)+)(?<!\s)(?P=mark)(?![\w`])"
)
# A mark opens before text, closes after it, and never occurs inside a word:
# `snake_case`, `2 * 3` and `____` are text.
_EMPHASIS = re.compile(
    r"(?<![\w\\*_])(?P<mark>\*{1,3}|_{1,3})(?![\s*_])"
    r"(?P<text>(?:(?!(?P=mark)).)+?)(?<![\s\\])(?P=mark)(?![\w*_])"
)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")

# Front matter: `key:`, and what belongs to one (indented, list items, comments).
_YAML_KEY = re.compile(r"(?:[\w.-]+|\"[^\"]*\"|'[^']*')\s*:(?:\s|$)")
_YAML_LINE = re.compile(rf"{_YAML_KEY.pattern}|\s|#|-(?:\s|$)|[\]}}]|$")
_YAML_TITLE = re.compile(
    r"title\s*:\s*(?![|>])(?P<mark>[\"']?)(?P<title>.*\S)(?P=mark)\s*$"
)

_BLOCK_TAGS = (
    "address|article|aside|blockquote|body|caption|center|col|colgroup|dd|details|dialog"
    "|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]|head|header|hr|html|legend"
    "|li|link|main|menu|meta|nav|ol|option|p|picture|pre|section|select|source|summary"
    "|table|tbody|td|tfoot|th|thead|title|tr|ul|video"
)
_INLINE_TAGS = (
    "a|abbr|acronym|audio|b|bdi|bdo|big|button|cite|code|data|del|dfn|em|font|i|iframe"
    "|img|input|ins|kbd|label|map|mark|object|output|param|q|rp|rt|ruby|s|samp|small"
    "|span|strike|strong|sub|sup|time|tt|u|var|wbr"
)
# Removed with their content.
_DROPPED_TAGS = "math|script|style|svg|template"
_HTML = re.compile(
    # A span of code, in which tags are text; it does not cross a blank line.
    r"(?<![\\`])(?P<mark>`+)(?!`)(?:(?!\n[ \t]*\n).)+?(?<!`)(?P=mark)(?!`)"
    r"|(?<!\\)(?:(?P<comment><!--)"
    rf"|<(?P<dropped>{_DROPPED_TAGS})(?=[\s/>])[^<>]*>"
    rf"|</?(?:(?P<block>{_BLOCK_TAGS})|(?P<space>br)|{_DROPPED_TAGS}|{_INLINE_TAGS})"
    r"(?=[\s/>])[^<>]*>)",
    re.IGNORECASE | re.DOTALL,
)
_HTML_ENDS = {
    name: re.compile(rf"</{name}\s*>", re.IGNORECASE)
    for name in _DROPPED_TAGS.split("|")
} | {"comment": re.compile("-->")}


@dataclasses.dataclass(frozen=True)
class MarkdownReader(base.TextReader):
    """Markdown: a file is a document; the marks go, the text stays.

    Blank lines separate paragraphs, whose lines are joined by a space. Each heading and
    list item is a paragraph. Removed are

    * the marks of headings (`#`), quotes (`>`), list items (`-`, `*`, `+`; numbers
      stay), and the lines under headings;
    * horizontal rules, fenced code blocks, tables, images and the definitions of link
      targets;
    * the marks of emphasis, code and links: `_word_`, `**word**`, `[word](url)`
      become `word`; backslashes before punctuation; entities such as `&amp;`;
    * comments and tags of HTML, see `without_html`;
    * front matter: YAML between `---` and `---` (or `...`) at the start of the file.

    The title is that of the front matter, or the first heading without the prefix
    "Title: ".

    Args:
        encoding: see `base.TextReader`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".md", ".markdown")

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        text = streams.read_document(stream, self.max_document_bytes, self.encoding)
        title, lines = _without_front_matter(text.split("\n"))
        paragraphs = []
        for block, is_heading in _blocks(lines):
            paragraph = strip_inline_marks(block).strip()
            if paragraph:
                paragraphs.append(paragraph)
            if is_heading and not title:
                title = paragraph.removeprefix("Title: ")
        yield base.to_document(paragraphs, source, base.WHOLE_FILE, title)


def strip_inline_marks(text: str) -> str:
    """The text of a paragraph without the marks of emphasis, code and links."""
    if "[" in text:
        text = _LINK.sub(r"\1", _IMAGE.sub("", text))
    if "`" in text:
        text = _CODE.sub(r"\g<text>", text)
    if "*" in text or "_" in text:
        # Twice, since emphasis may be nested: `**very _very_ late**`.
        text = _EMPHASIS.sub(r"\g<text>", _EMPHASIS.sub(r"\g<text>", text))
    if "\\" in text:
        text = _ESCAPE.sub(r"\1", text)
    return streams.unescape_entities(text).replace("\n", " ")


def without_html(text: str) -> str:
    """Removes comments and tags of HTML from Markdown without fenced code.

    Block tags end a paragraph, `<br>` becomes a space, other tags nothing. Scripts,
    styles, formulas and drawings go with their content. Text are: a `<` that begins no
    tag of HTML, a tag after a backslash or in a span of code, and an unclosed comment.
    """
    parts, position = [], 0
    unclosed = set()
    while match := _HTML.search(text, position):
        parts.append(text[position : match.start()])
        position = match.end()
        name = "comment" if match["comment"] else (match["dropped"] or "").lower()
        end = None
        if name and name not in unclosed:
            end = _HTML_ENDS[name].search(text, position)
        if end is not None:
            position = end.end()
            # One of the spaces before and after it is enough.
            is_after_space = not parts[-1][-1:].strip()
            position += is_after_space and text[position : position + 1] == " "
            continue
        if name:
            unclosed.add(name)
        if match["mark"] or name == "comment":
            parts.append(match[0])
        elif match["block"] or match["space"]:
            parts.append("\n\n" if match["block"] else " ")
    return "".join(parts) + text[position:]


def _blocks(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Yields the text of each block and whether it is a heading."""
    block: list[str] = []
    text = "\n".join(_without_tables(_without_fenced_code(lines)))
    if "<" in text:
        text = without_html(text)
    for line in text.split("\n"):
        line = line[_QUOTE.match(line).end() :] if ">" in line else line
        heading, item = _HEADING.match(line), _LIST_ITEM.match(line)
        number = _NUMBERED_ITEM.match(line)
        is_dropped = (
            not line.strip()
            or line.lstrip().startswith("|")
            or _RULE.match(line)
            or _LINK_TARGET.match(line)
        )
        # A number begins an item if it is 1 or follows an item: a sentence may happen
        # to break before a number and a full stop.
        if block and (
            is_dropped
            or heading
            or item
            or (number and (number[1] == "1" or _NUMBERED_ITEM.match(block[0])))
        ):
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
    """The title in the front matter, or "", and the lines after it."""
    if lines[0].rstrip() != "---" or not "".join(lines[1:2]).strip():
        return "", lines
    title, has_key = "", False
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in ("---", "..."):
            return (title, lines[number + 1 :]) if has_key else ("", lines)
        if not _YAML_LINE.match(line):
            break  # The line above was a rule, and this is text.
        has_key = has_key or bool(_YAML_KEY.match(line))
        if not title and (match := _YAML_TITLE.match(line)):
            title = match["title"]
    return "", lines


def _without_fenced_code(lines: list[str]) -> Iterator[str]:
    """Leaves out fenced code; a fence that nothing closes is text."""
    index = 0
    never_closed = set()
    while index < len(lines):
        fence, end = _FENCE.match(lines[index]), None
        if fence and fence[1] not in never_closed:
            for number in range(index + 1, len(lines)):
                line = lines[number].strip(" \t>")
                if line.startswith(fence[1]) and not line.strip(fence[1][0]):
                    end = number
                    break
            else:
                never_closed.add(fence[1])
        yield lines[index] if end is None else ""
        index = (index if end is None else end) + 1


def _without_tables(lines: Iterable[str]) -> Iterator[str]:
    """Leaves out tables whose rows do not begin with `|`, up to a blank line."""
    previous, is_table = "", False
    for line in lines:
        if "|" in previous and _TABLE_RULE.match(line):
            previous, is_table = "", True
        is_table = is_table and bool(line.strip(" \t>"))
        yield previous
        previous = "" if is_table else line
    yield previous
