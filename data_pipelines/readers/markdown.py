"""Reads Markdown files as documents without markup."""

import dataclasses
import html
import io
import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

import markdown_it
from markdown_it.token import Token

from data_pipelines.readers import base, streams

# Tables are not prose. Indented text often is, for example verse and letters.
_PARSER = markdown_it.MarkdownIt("commonmark").enable("table").disable("code")
_INLINE_TAGS = (
    "a|abbr|acronym|audio|b|bdi|bdo|big|br|button|cite|code|data|del|dfn|em|font|i|img"
    "|input|ins|kbd|label|map|mark|math|object|output|q|rp|rt|ruby|s|samp|small|span"
    "|strike|strong|sub|sup|svg|time|tt|u|var|wbr"
)
_BLOCK_TAGS = (
    "address|article|aside|blockquote|caption|center|dd|details|div|dl|dt|figcaption"
    "|figure|footer|form|h[1-6]|header|hr|iframe|li|main|nav|ol|p|picture|pre|section"
    "|source|summary|table|tbody|td|tfoot|th|thead|tr|ul|video"
)
_TAG = re.compile(
    rf"<!--.*?-->|</?(?:{_INLINE_TAGS}|(?P<block>{_BLOCK_TAGS}))(?=[\s/>])[^<>]*>",
    re.IGNORECASE | re.DOTALL,
)
_LINE_BREAK = re.compile(r"<br\b", re.IGNORECASE)
# Elements that are removed from blocks, including their content.
_DROPPED = re.compile(
    r"<(math|script|style|svg|template)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL
)
# `key:`, followed by lines that belong to a key: indented lines, list items, comments.
_YAML_KEY = r"""(?:[\w.-]+|"[^"\n]*"|'[^'\n]*')[ \t]*:(?:[ \t].*)?"""
_FRONT_MATTER = re.compile(
    rf"---[ \t]*\n(?P<yaml>{_YAML_KEY}\n(?:(?:{_YAML_KEY}|[ \t#\]}}].*|-(?:[ \t].*)?|)"
    r"\n)*?)(?:---|\.\.\.)[ \t]*(?:\n|$)"
)
_YAML_TITLE = re.compile(
    r"^title\s*:[ \t]*(?![|>])(?P<mark>[\"']?)(?P<title>.*\S)(?P=mark)\s*$", re.M
)


@dataclasses.dataclass(frozen=True)
class MarkdownReader(base.TextReader):
    """Markdown with one document per file, whose markup is removed.

    Each CommonMark block becomes a paragraph on one line, including headings and list
    items, which keep their number. Fenced code, tables, images, HTML tags and comments
    are left out, and so is front matter: YAML between `---` and `---` (or `...`) at the
    start of the file. The title is taken from the front matter or, if it has none, from
    the first heading, whose prefix "Title: " is removed.

    Args:
        encoding: str. See `base.TextReader`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".md", ".markdown")

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        text = streams.read_document(stream, self.max_document_bytes)
        title = ""
        if front_matter := _FRONT_MATTER.match(text):
            text = text[front_matter.end() :]
            if match := _YAML_TITLE.search(front_matter["yaml"]):
                title = match["title"]
        # CommonMark reads neither as a mark, but books contain them.
        text = re.sub(r"(?m)^#{7,}(?=\s|$)", "######", text)
        text = re.sub(r"(?m)(?<=[^\s*])(?:[ \t]++\*){3,}[ \t]*$", "", text)
        paragraphs: list[str] = []
        num_tables, number, is_heading = 0, "", False
        for token in _PARSER.parse(text):
            num_tables += token.nesting * (token.tag == "table")
            if token.type.startswith("list_item_"):
                number = f"{token.info}{token.markup} " if token.info else ""
            elif token.type == "html_block":
                paragraphs += _html_paragraphs(token.content)
            elif token.type == "inline" and not num_tables:
                paragraph = number + _inline_text(token.children or [])
                # Entities can express line ends.
                paragraph = re.sub(r"[\r\n]", " ", paragraph).strip()
                number = ""
                if paragraph:
                    paragraphs.append(paragraph)
                if is_heading and not title:
                    title = paragraph.removeprefix("Title: ")
            is_heading = token.type == "heading_open"
        yield base.to_document(paragraphs, source, base.WHOLE_FILE, title)


def _inline_text(tokens: Sequence[Token]) -> str:
    parts = []
    for token in tokens:
        is_tag = token.type == "html_inline"
        if token.type in ("softbreak", "hardbreak") or (
            is_tag and _LINE_BREAK.match(token.content)
        ):
            parts.append(" ")
        # `<name>` is not an HTML tag.
        elif token.type != "image" and not (is_tag and _TAG.fullmatch(token.content)):
            parts.append(token.content)
    return "".join(parts)


def _html_paragraphs(block: str) -> list[str]:
    text = _DROPPED.sub("", block)
    text = _TAG.sub(lambda tag: "\n\n" if tag["block"] else "", text)
    texts = (" ".join(html.unescape(part).split()) for part in text.split("\n\n"))
    return list(filter(None, texts))
