"""From rendered wikitext, with marks where blocks end, to paragraphs.

Marks are control characters, which neither XML nor wikitext can hold.
"""

import re
from typing import NamedTuple

BREAK = "\x01"
"""A paragraph ends here."""
HEADING = "\x02"
"""A heading follows, its level (a digit) first."""
REMOVED = "\x03"
"""Something was left out here."""
ITEM = "\x04"
"""An item of a list follows, up to the end of the line."""
APOSTROPHE = "\x05"
"""An apostrophe that is no markup."""
NOTE = "\x03\x06"
"""A footnote was left out here; its line is a line of text all the same."""
JOINED = "\x03\x07"
"""Markup inside a word was left out here."""
UNCLOSED = "\x03\x08"
"""A template that is never closed began here; lines of arguments may follow."""
_TAILS = NOTE[1] + JOINED[1] + UNCLOSED[1]

_TABLE_START = re.compile(r"\s*\{\|")
_TABLE_MARK = re.compile(r"\s*\|[-}]")
# Lines of a table or a template that is never closed, and prose anywhere else.
_CELL = re.compile(r"\s*[|!]")
# A line of notes is no blank one.
_BLANK = f" \t{REMOVED}{JOINED[1]}{UNCLOSED[1]}"
_MAX_LEVEL = 6
_BRACKETS = re.compile(r"[(\[]((?:[\s,;:/\x03]|&nbsp;)*+)[)\]]")
# Around what was left out, and nowhere else: empty brackets, lonely commas. None may
# begin in the middle of a run that it would have to read to the end: a line can hold
# any number of spaces, commas and marks.
_RUNS = (
    (r"\x03{2,}", REMOVED),
    (r"\x03(?: \x03){2,}", f"{REMOVED} {REMOVED}"),
)
_CLEANINGS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # Words that something separated do not run together, other than at notes.
        (r"(?<=\w)(?:\x03[\x06-\x08])*\x03(?![\x06-\x08])[\x03\x06-\x08]*(?=\w)", " "),
        (r"[\x06-\x08]", ""),
        (r"\s+", " "),
        *_RUNS,
        # A link whose address was a template.
        (r"\[\x03 (\w[^\[\]\x03]{0,300})\]", r"\1"),
        (r"^\s*\x03[\s\x03]*[,.;:)](?=[\s\x03])[\s\x03]*", ""),
        (_BRACKETS, lambda match: REMOVED if _was_emptied(match[1]) else match[0]),
        (r'["“]\s*\x03[\s\x03]*["”]', REMOVED),
        *_RUNS,
        (r"\(\s*(?:[,;:]\s*)*\x03[\s,;:\x03]*", "("),
        (r"(?<![\s,;:\x03])[\s,;:\x03]*\x03[\s,;:]*\)", ")"),
        (r"([,;:])\s*\x03[\s\x03]*(?=[,;:])", ""),
        (r"\s+", " "),
        *_RUNS,
        (r"\s+\x03[\s\x03]*(?=[,.;:?!)\]](?:\s|$|\x03))", ""),
    )
)
_SPACES = re.compile(r"\s+")
_QUOTES = re.compile(r"('{2,})")


class _Block(NamedTuple):
    """A paragraph, of level 0, or a heading."""

    level: int
    text: str


def to_paragraphs(rendered: str) -> list[str]:
    """Paragraphs and headings in order; headings of empty sections are left out."""
    blocks = []
    # True after the beginning of a table or template that is never closed.
    is_open = False
    for chunk in rendered.split(BREAK):
        if chunk.startswith(HEADING):
            _add(blocks, _without_quotes(chunk[2:]), int(chunk[1]))
            is_open = False
            continue
        lines = []
        parts = chunk.split("\n")
        for number, line in enumerate(parts):
            heading = _line_heading(line)
            is_blank = not line.strip(_BLANK)
            if heading or (is_blank and 0 < number < len(parts) - 1):
                is_open = False
            if UNCLOSED in line or _TABLE_START.match(line):
                is_open = True
            if heading or line.startswith(ITEM) or is_blank:
                _add(blocks, " ".join(lines))
                lines = []
            if heading:
                level, title = heading
                _add(blocks, _without_quotes(title), level)
            elif line.startswith(ITEM):
                _add(blocks, _without_quotes(line.lstrip(ITEM)))
            elif not _is_of_table(line, is_open):
                lines.append(_without_quotes(line))
        _add(blocks, " ".join(lines))
    return _without_empty_sections(blocks)


def without_breaks(rendered: str) -> str:
    """The rendered text without marks of blocks, as one line."""
    return re.sub(f"[{BREAK}{ITEM}]|{HEADING}\\d", " ", rendered)


def _add(blocks: list[_Block], text: str, level: int = 0) -> None:
    text = _clean(text)
    if any(map(str.isalnum, text)):
        blocks.append(_Block(level, text))


def _is_of_table(line: str, is_open: bool) -> bool:
    """Recognises a line of a table or of a template that is not closed."""
    if _TABLE_START.match(line) or _TABLE_MARK.match(line):
        return True
    return is_open and _CELL.match(line) is not None


def _line_heading(line: str) -> tuple[int, str] | None:
    """Level and title of a line such as `== Title ==`."""
    if not line.startswith("=="):
        return None
    line = _SPACES.sub(" ", line).rstrip(f" {REMOVED}{_TAILS}")
    for level in range(_MAX_LEVEL, 1, -1):
        marks = "=" * level
        if line.startswith(marks) and line.endswith(marks):
            title = line[level:-level].strip()
            if title:
                return level, title
    return None


def _was_emptied(inside: str) -> bool:
    """True if the content of brackets was left out."""
    return REMOVED in inside.rpartition("&nbsp;")[2]


def _clean(text: str) -> str:
    if REMOVED in text:
        for pattern, replacement in _CLEANINGS:
            text = pattern.sub(replacement, text)
        text = text.replace(REMOVED, "")
    return " ".join(text.replace(APOSTROPHE, "'").split())


def _without_empty_sections(blocks: list[_Block]) -> list[str]:
    kept = []
    # Level of the headings that have text below them, from the end upwards.
    level_with_text = 0
    for block in reversed(blocks):
        if not block.level:
            level_with_text = 7
        elif block.level < level_with_text:
            level_with_text = block.level
        else:
            continue
        kept.append(block.text)
    return kept[::-1]


def _without_quotes(line: str) -> str:
    """Takes off the marks of bold and italics, as MediaWiki pairs them in a line."""
    if "''" not in line:
        return line
    parts = _QUOTES.split(line)
    sizes = []
    for number in range(1, len(parts), 2):
        size = len(parts[number])
        marks = {4: 3}.get(size, min(size, 5))
        parts[number - 1] += "'" * (size - marks)
        sizes.append(marks)
    num_bold = sum(size in (3, 5) for size in sizes)
    num_italic = sum(size in (2, 5) for size in sizes)
    if num_bold % 2 and num_italic % 2:
        _make_apostrophe(parts, sizes)
    return "".join(parts[::2])


def _make_apostrophe(parts: list[str], sizes: list[int]) -> None:
    """One bold mark of a line that does not pair up is an apostrophe and italics."""
    # After a word of one letter, as in l'''amour'', rather than after another word,
    # rather than after a space.
    candidates = {}
    for number, size in enumerate(sizes):
        before = parts[2 * number]
        if size == 3:
            if before[-1:] == " ":
                rank = 2
            else:
                rank = 0 if before[-2:-1] == " " else 1
            candidates.setdefault(rank, number)
    if candidates:
        parts[2 * candidates[min(candidates)]] += "'"
