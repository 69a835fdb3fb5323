"""Templates whose text is part of a sentence: `{{convert|5|km}}`, `{{lang|fr|mot}}`.

All others are left out. The names are those of the English Wikipedia, which many other
wikis share.
"""

import calendar
from collections.abc import Callable, Sequence

from data_pipelines.readers.wiki import inline_quantities
from data_pipelines.readers.wiki.wiki_lines import APOSTROPHE

_CHARACTERS = {
    **dict.fromkeys(("ndash", "en dash", "snd", "spnd", "spaced ndash"), " – "),
    **dict.fromkeys(("mdash", "em dash", "mdashb", "spaced mdash"), " — "),
    **dict.fromkeys(("nbsp", "space"), " "),
    "'": APOSTROPHE,
    "'s": f"{APOSTROPHE}s",
    '"': '"',
    # Quotation marks that would touch each other or a letter.
    **dict.fromkeys(("' \"", "'\"", "'-\""), f'{APOSTROPHE}"'),
    **dict.fromkeys(("\" '", "\"'", "\"-'"), f'"{APOSTROPHE}'),
    **dict.fromkeys(("-'", "'-"), APOSTROPHE),
    **dict.fromkeys(('-"', '"-'), '"'),
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
        *("abbr", "as written", "big", "chem2", "em", "flag", "flagcountry", "flagu"),
        *("ill", "j", "larger", "nastaliq", "nobold", "nq", "vr"),
        *("interlanguage link", "linktext", "mono", "nobr", "nobreak", "noitalic"),
        *("not a typo", "nowrap", "nwr", "proper name", "sc", "small", "smallcaps"),
        *("smaller", "strong", "sub", "sup", "tooltip", "typo", "vanchor"),
        *("var", "visible anchor"),
    )
)
_SECOND = frozenset(
    ("color", "colour", "font color", "lang", "langx", "rtl-lang", "script")
)
_LAST = frozenset(("ipa", "translit", "transl", "transliteration"))
# Those that show an amount of money, by the sign before it.
_CURRENCIES = {
    **dict.fromkeys(("us$", "usd"), "US$"),
    **dict.fromkeys(("a$", "aud"), "A$"),
    **dict.fromkeys(("ca$", "c$", "cad"), "C$"),
    **dict.fromkeys(("nz$", "nzd"), "NZ$"),
    **dict.fromkeys(("gbp", "£", "pound sterling"), "£"),
    **dict.fromkeys(("euro", "eur", "€"), "€"),
    **dict.fromkeys(("jpy", "¥", "yen"), "¥"),
    **dict.fromkeys(("inr", "₹", "indian rupee"), "₹"),
}
# Those that show all of them in a row.
_JOINED = frozenset(("chem", "gaps", "sic"))
_LANGUAGE_PREFIX = "lang-"
_FORMATNUM = "formatnum:"
_QUOTATIONS = frozenset(
    ("blockquote", "bquote", "cquote", "poemquote", "quotation", "quote", "rquote")
)
# Ships: `{{HMS|Ajax|22}}` is HMS Ajax.
_SHIPS = frozenset(("hmas", "hmcs", "hms", "mv", "rms", "ss", "uss"))
_MUSIC = {"sharp": "♯", "#": "♯", "flat": "♭", "b": "♭", "natural": "♮"}


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
    if name in _JOINED:
        return "".join(arguments)
    if name in _SHIPS:
        return f"{name.upper()} {arguments[0]}" if _argument(arguments, 0) else ""
    if name in _CURRENCIES and _argument(arguments, 0):
        return _CURRENCIES[name] + arguments[0]
    if name in ("bibleref", "bibleref2"):
        return " ".join(filter(None, arguments[:2]))
    if name in ("circa", "c."):
        return " – ".join(f"c. {year}" for year in arguments[:2] if year)
    if name in ("frac", "fraction", "sfrac"):
        return _fraction(arguments)
    if name in ("convert", "cvt"):
        return inline_quantities.quantity(arguments)
    if name == "val":
        return inline_quantities.value(arguments, named)
    if name == "e":
        return inline_quantities.power_of_ten(_argument(arguments, 0))
    if name == "nihongo":
        return _with_originals(arguments)
    if name == "angbr":
        return f"⟨{arguments[0]}⟩" if _argument(arguments, 0) else ""
    if name == "music":
        return _MUSIC.get(_argument(arguments, 0).lower(), "")
    if name.startswith(_FORMATNUM):
        return inline_quantities.grouped(name.removeprefix(_FORMATNUM).strip())
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


def _with_originals(parts: list[str]) -> str:
    """`headquarters|本部|honbu` as "headquarters (本部, honbu)"."""
    first, *others = parts or ("",)
    inside = ", ".join(other for other in others if other)
    if not first:
        return inside
    return f"{first} ({inside})" if inside else first
