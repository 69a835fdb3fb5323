"""Finds the English sentences of a docstring among its code, lists and tables."""

import itertools
import re
from collections.abc import Iterator

_FENCE = re.compile(r"\s*(?:```|~~~)")
_UNDERLINE = re.compile(r"([-=~^#*+\"'`.])\1{2,}$")
# Sections (numpydoc's names) of entries, not of sentences.
_LIST_SECTIONS = re.compile(
    r"(?:other )?parameters|attributes|methods|returns|yields|receives|raises|warns"
    r"|see also|references|(?:keyword )?arguments|args"
)
# Doctests, directives and comments of reST, fields, list items, quotes, tables.
_NO_PROSE_LINE = re.compile(
    r">>>|\.{2,3}\s|:\w[^:]*:\s|@\w|[-*+•>$%#]\s|\(?(?:\d{1,3}|\w)[.)]\s|\[\d+\]|\||\+-"
)

_ROLE = re.compile(r":[\w:+.-]+:`([^`]+)`")
_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]+>`__?|\[([^\]]+)\]\([^)\s]+\)")
_CODE = re.compile(r"``([^`]+)``|`([^`]+)`(?:__?\b)?")
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,2})(?![\s*])([^*]+?)(?<!\s)\1(?![\w*])")

# Said by thousands of files, none of it about what they do.
_BOILERPLATE = re.compile(
    r"Copyright\b|This file (?:was|is) (?:auto|machine)|Disclaimer:|NO WARRANTY",
    re.IGNORECASE,
)
_SENTENCE_START = re.compile(r"[\"'(]?[^\W\d_]")
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*$")
# "There are two ways:" says little without them; "It fails. Do instead:" does.
_SENTENCE_INSIDE = re.compile(r"[.!?][\"')\]]* .*:$")
_LETTERS = r"[^\W\d_]+"
_WORD = re.compile(
    rf"[\"'(\[]*(?:{_LETTERS}(?:['’./-]{_LETTERS})*|\d+(?:[.,]\d+)*%?)[\"')\],.;:!?]*$"
    r"|-{1,3}$"
)
_MIN_WORDS = 5
_MIN_WORD_SHARE = 0.85


def prose_paragraphs(docstring: str) -> Iterator[str]:
    """Yields the paragraphs of a docstring that consist of sentences.

    Paragraphs are separated by blank lines. One is left out if

    * a line of it is indented (code, entries of a parameter list and their
      explanations, quotations) or lies in a fenced block;
    * a line of it begins as doctests, list items, fields, directives or table rows
      do;
    * it lies in a section of entries, such as numpydoc's "Parameters";
    * it does not begin with a letter or does not end as sentences do, is one
      sentence that announces a list or code, or the boilerplate of licences;
    * it has a control character in it;
    * it has fewer than five words, or less than 85 % of it are words (the rest
      being names with underscores, numbers, formulas, calls).

    Marks of code, emphasis, links and roles are removed, their text stays.

    Args:
        docstring: dedented, as `inspect.cleandoc` leaves it.
    """
    section = ""
    for block in _blocks(docstring.split("\n")):
        if len(block) > 1 and _UNDERLINE.match(block[1]):
            section = block[0].strip().lower()
            block = block[2:]
        if not block or _LIST_SECTIONS.fullmatch(section):
            continue
        if any(line[0].isspace() or _NO_PROSE_LINE.match(line) for line in block):
            continue
        paragraph = strip_marks(" ".join(line.strip() for line in block))
        if is_prose(paragraph):
            yield paragraph


def is_prose(paragraph: str) -> bool:
    """Recognises a paragraph of sentences, as opposed to a list or code."""
    if not paragraph.isprintable():
        return False  # Escapes in a docstring may mean anything.
    if not _SENTENCE_START.match(paragraph) or _BOILERPLATE.match(paragraph):
        return False
    if not (_SENTENCE_END.search(paragraph) or _SENTENCE_INSIDE.search(paragraph)):
        return False
    tokens = paragraph.split()
    num_words = sum(bool(_WORD.match(token)) for token in tokens)
    return num_words >= max(_MIN_WORDS, _MIN_WORD_SHARE * len(tokens))


def strip_marks(paragraph: str) -> str:
    """Removes the inline marks of reStructuredText and Markdown."""
    if "`" in paragraph or "](" in paragraph:
        paragraph = _ROLE.sub(_role_text, paragraph)
        paragraph = _LINK.sub(lambda match: match[1] or match[2], paragraph)
        paragraph = _CODE.sub(lambda match: match[1] or match[2], paragraph)
    if "*" in paragraph:
        paragraph = _EMPHASIS.sub(r"\2", paragraph)
    # `::` announces a literal block.
    return paragraph[:-1] if paragraph.endswith("::") else paragraph


def _role_text(match: re.Match[str]) -> str:
    # `Door <house.Door>` shows its first half, `~house.Door` its last name.
    text, has_target, _ = match[1].partition(" <")
    if text.startswith("~") and not has_target:
        return text[1:].rpartition(".")[2]
    return text


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """The runs of lines between blank lines, without those of fenced blocks."""
    is_fenced = False
    kept = []
    for line in lines:
        is_fence = _FENCE.match(line)
        kept.append("" if is_fenced or is_fence else line.rstrip())
        if is_fence:
            is_fenced = not is_fenced
    for has_text, block in itertools.groupby(kept, bool):
        if has_text:
            yield list(block)
