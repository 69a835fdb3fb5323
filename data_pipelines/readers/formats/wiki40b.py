"""The markers of the wiki40b dataset: where title, sections and paragraphs begin."""

import re

from data_pipelines.readers.io import decoding

_ARTICLE = "_START_ARTICLE_"
_SECTION = "_START_SECTION_"
_PARAGRAPH = "_START_PARAGRAPH_"
_MARKER = re.compile(rf"({_ARTICLE}|{_SECTION}|{_PARAGRAPH})")
_NEW_LINE = "_NEWLINE_"


def is_marked(text: str) -> bool:
    """Recognises wiki40b's texts by their first marker."""
    return text.lstrip().startswith(_ARTICLE)


def to_paragraphs(text: str) -> tuple[str, list[str]]:
    """The title, and headings and paragraphs in order; without the markers.

    Headings of sections without a paragraph are left out.
    """
    title, paragraphs, heading = "", [], []
    _, *parts = _MARKER.split(text)
    for marker, content in zip(parts[::2], parts[1::2], strict=True):
        lines = decoding.split_lines(content.replace(_NEW_LINE, "\n"))
        if marker == _ARTICLE:
            title = " ".join(" ".join(lines).split())
        elif marker == _SECTION:
            heading = [" ".join(lines)] if lines else []
        elif lines:
            paragraphs += heading + lines
            heading = []
    return title, paragraphs
