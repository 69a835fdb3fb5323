"""Markup that would keep the parser busy for minutes is found before it is parsed."""

import re
from collections import Counter

from data_pipelines.readers.errors import DocumentError

# For each opening that is never closed the parser reads the rest of the page. This many
# characters read in that way take it some seconds.
_MAX_CHARACTERS_READ = 20_000_000
_OPENING = {
    "{{": "}}",
    "[[": "]]",
    "{|": "|}",
    "[": "]",
}
_CLOSING = {close: opening for opening, close in _OPENING.items()}
_MARK = re.compile(
    r"\{\{|\}\}|\[\[|\]\]|\{\||\|\}|\[(?=[a-z]+:|//)|\]"
    r"|<(/?)([a-z][a-z0-9]*)\b(?:[^<>]{0,1000}?(/)>)?|\n",
    re.IGNORECASE,
)
_NEVER_CLOSED = frozenset(
    ("br", "dd", "dt", "hr", "img", "li", "td", "th", "tr", "wbr")
)


def check(markup: str) -> None:
    """Refuses a page with very many openings that are never closed.

    Raises:
        DocumentError: if it is one.
    """
    is_open = Counter()
    for match in _MARK.finditer(markup):
        mark, is_end, tag, ends_itself = match[0], match[1], match[2], match[3]
        if tag is not None:
            tag = f"<{tag.lower()}"
            if is_end:
                is_open[tag] -= is_open[tag] > 0
            elif not ends_itself and tag[1:] not in _NEVER_CLOSED:
                is_open[tag] += 1
        elif mark in _OPENING:
            is_open[mark] += 1
        elif mark in _CLOSING:
            opening = _CLOSING[mark]
            is_open[opening] -= is_open[opening] > 0
    num_open = is_open.total()
    if num_open * len(markup) > _MAX_CHARACTERS_READ:
        worst, times = is_open.most_common(1)[0]
        raise DocumentError(
            "unclosed_markup",
            f"Expected wikitext, found {num_open:,} openings that are never closed in "
            f"{len(markup):,} characters, {times:,} of them {worst!r}: parsing it "
            "would take minutes.",
        )
