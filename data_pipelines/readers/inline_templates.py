"""Templates whose text is part of a sentence: `{{convert|5|km}}`, `{{lang|fr|mot}}`.

All others are left out. The names are those of the English Wikipedia, which many other
wikis share.
"""

import calendar
from collections.abc import Callable, Sequence

_CHARACTERS = {
    **dict.fromkeys(("ndash", "en dash", "snd", "spnd", "spaced ndash"), " – "),
    **dict.fromkeys(("mdash", "em dash", "spaced mdash"), " — "),
    **dict.fromkeys(("nbsp", "space"), " "),
    "'": "'",
    '"': '"',
    "!": "|",
    "=": "=",
    "pi": "π",
    "okina": "ʻ",
    "hamza": "ʾ",
    "ayin": "ʿ",
    "prime": "′",
    "times": "×",
    "minus": "−",
    "sharp": "♯",
    "flat": "♭",
}
# Those that show their first argument, their second, their last.
_FIRST = frozenset(
    (
        *("abbr", "as written", "big", "em", "formatnum", "ill", "j", "larger"),
        *("interlanguage link", "linktext", "mono", "nobr", "nobreak", "noitalic"),
        *("not a typo", "nowrap", "nwr", "proper name", "sc", "small", "smallcaps"),
        *("smaller", "strong", "sub", "sup", "tooltip", "typo", "val", "vanchor"),
        *("var", "visible anchor"),
    )
)
_SECOND = frozenset(("color", "colour", "font color", "lang", "rtl-lang", "script"))
_LAST = frozenset(("translit", "transl", "transliteration"))
_LANGUAGE_PREFIX = "lang-"
_QUOTATIONS = frozenset(
    ("blockquote", "bquote", "cquote", "poemquote", "quotation", "quote", "rquote")
)
_BETWEEN_NUMBERS = {
    **dict.fromkeys(("-", "–", "to(-)"), "–"),
    **{word: f" {word} " for word in ("to", "and", "or", "by", "x")},
    **dict.fromkeys(("+/-", "±"), " ± "),
}
_UNITS = {"C": "°C", "F": "°F", "sqmi": "sq mi", "sqft": "sq ft", "cuft": "cu ft"}


def inline_text(
    name: str, arguments: Sequence[str], named: Callable[[str], str]
) -> str:
    """What a template shows in a sentence; "" if it is to be left out.

    Args:
        name: the template's name, as `normalised_name` writes it.
        arguments: its arguments without a name, rendered, in order.
        named: looks an argument up by its name; "" where it is not given.
    """
    if name in _CHARACTERS:
        return _CHARACTERS[name]
    arguments = [argument.strip() for argument in arguments]
    if name in _FIRST or name.startswith(_LANGUAGE_PREFIX):
        return _argument(arguments, 0)
    if name in _SECOND:
        return _argument(arguments, 1)
    if name in _LAST:
        return _argument(arguments, -1)
    if name == "as of":
        return _as_of(arguments, named)
    if name in ("circa", "c."):
        return f"c. {_argument(arguments, 0)}".strip()
    if name in ("frac", "fraction", "sfrac"):
        return _fraction(arguments)
    if name in ("convert", "cvt"):
        return _quantity(arguments)
    return ""


def quotation(
    name: str, arguments: Sequence[str], named: Callable[[str], str]
) -> str | None:
    """What a template for quotations shows, a paragraph; None if it is another.

    Args:
        name: as in `inline_text`.
        arguments: as in `inline_text`.
        named: as in `inline_text`.
    """
    if name not in _QUOTATIONS:
        return None
    return _argument(arguments, 0) or named("text") or named("quote")


def normalised_name(name: str) -> str:
    """A template's name in the writing that `inline_text` knows."""
    return " ".join(name.replace("_", " ").split()).lower()


def _argument(arguments: Sequence[str], number: int) -> str:
    inside = -len(arguments) <= number < len(arguments)
    return arguments[number] if inside else ""


def _as_of(arguments: Sequence[str], named: Callable[[str], str]) -> str:
    """`2012|5` as "As of May 2012"."""
    shown = named("alt").strip()
    if shown or not arguments:
        return shown
    year, *rest = arguments
    # The month, then the day; months may be numbers.
    rest = [
        calendar.month_name[int(one)] if place == 0 and _is_month(one) else one
        for place, one in enumerate(rest[:2])
    ]
    since = named("since").strip()
    words = ("since" if since else "as of", *rest[::-1], year)
    text = " ".join(word for word in words if word)
    return text if named("lc").strip() else text[0].upper() + text[1:]


def _is_month(text: str) -> bool:
    return text.isascii() and text.isdigit() and 1 <= int(text) <= 12


def _fraction(parts: list[str]) -> str:
    """`1|2` as "1/2", `3|1|2` as "3 1/2"."""
    if len(parts) < 2:
        return f"1/{parts[0]}" if parts else ""
    return " ".join((*parts[:-2][-1:], "/".join(parts[-2:])))


def _quantity(parts: list[str]) -> str:
    """`5|to|7|km|mi` as "5 to 7 km": what was written, and no other unit."""
    text, rest = _argument(parts, 0), parts[1:]
    while len(rest) > 1 and rest[0] in _BETWEEN_NUMBERS:
        text += _BETWEEN_NUMBERS[rest[0]] + rest[1]
        rest = rest[2:]
    if not text or not rest:
        return text
    return f"{text} {_UNITS.get(rest[0], rest[0])}"
