"""Markup that would keep the parser busy for minutes is found before it is parsed."""

import re
from collections import defaultdict

from data_pipelines.readers.errors import DocumentError

MAX_CHARACTERS_READ = 20_000_000
"""For each opening that is never closed the parser reads the rest of the page. This
many characters read in that way take it some seconds."""
_OPENING = {
    "{{": "}}",
    "[[": "]]",
    "{|": "|}",
    "[": "]",
}
_CLOSING = {close: opening for opening, close in _OPENING.items()}
# Tables begin and end lines. The `|}` of `{{cite|url=|}}` ends none, but that of a
# table inside of a template, `|}}}`, does: an even number of braces follows it.
_MARK = re.compile(
    r"\{\{|\}\}|\[\[|\]\]|^[ \t:]*\{\||^[ \t]*\|\}(?=(?:\}\})*(?!\}))"
    r"|\[(?=[a-z]+:|//)|\]"
    # A tag, and neither `<http://…>` nor `<name@host>`.
    r"|<(/?)([a-z][a-z0-9]*)\b(?![:@.])(?:[^<>]{0,1000}?(/)>)?",
    re.IGNORECASE | re.MULTILINE,
)
_NEVER_CLOSED = frozenset(
    ("br", "dd", "dt", "hr", "img", "li", "td", "th", "tr", "wbr")
)


def check(markup: str) -> None:
    """Refuses a page with very many openings that are never closed.

    Raises:
        DocumentError: if it is one.
    """
    never_closed = _never_closed(markup)
    if _characters_read(markup, never_closed) > MAX_CHARACTERS_READ:
        worst = max(never_closed, key=lambda mark: len(never_closed[mark]))
        raise DocumentError(
            "unclosed_markup",
            f"Expected wikitext, found {sum(map(len, never_closed.values())):,} "
            f"openings that are never closed in {len(markup):,} characters, "
            f"{len(never_closed[worst]):,} of them {worst!r}: parsing it would take "
            "minutes.",
        )


def characters_read(markup: str) -> int:
    """Characters that the parser reads in vain: from each opening to the end."""
    return _characters_read(markup, _never_closed(markup))


def _characters_read(markup: str, never_closed: dict[str, list[int]]) -> int:
    return sum(
        len(markup) - position
        for places in never_closed.values()
        for position in places
    )


def _never_closed(markup: str) -> dict[str, list[int]]:
    """Positions of the openings that nothing closes, by kind."""
    is_open = defaultdict(list)
    for match in _MARK.finditer(markup):
        is_end, tag, ends_itself = match[1], match[2], match[3]
        mark = match[0].strip(" \t:")
        if tag is not None:
            opening = f"<{tag.lower()}"
            if is_end:
                is_open[opening][-1:] = []
            elif not ends_itself and tag.lower() not in _NEVER_CLOSED:
                is_open[opening].append(match.start())
        elif mark in _OPENING:
            is_open[mark].append(match.start())
        else:
            is_open[_CLOSING[mark]][-1:] = []
    return is_open
