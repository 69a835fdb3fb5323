"""Converts wikitext to the paragraphs that are visible on the page.

`_render` turns the tree that mwparserfromhell parses into text with marks. The marks
are control characters, which neither XML nor wikitext can contain, and show where
blocks end and where something was left out. `tidy` turns this text into paragraphs.
"""

import calendar
import html
import re
from collections.abc import Callable, Iterable

import mwparserfromhell
from mwparserfromhell import nodes

from data_pipelines.readers.streams import DocumentError

_BREAK = "\x01"  # A paragraph ends here.
_HEADING = "\x02"  # A heading follows, its level (a digit) first.
_REMOVED = "\x03"  # Something was left out here.
_ITEM = "\x04"  # A list item follows, up to the end of the line.
_APOSTROPHE = "\x05"  # An apostrophe that is not markup.

# === Templates ===


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Arguments(list[str]):
    """The rendered unnamed arguments of a template. Other arguments are in `named`."""

    named: dict[str, str]


Show = Callable[[Arguments], str]


def _shows(text: str, number: int | None = None) -> Show:
    """Returns a function that renders `text`, followed by argument `number` if given.

    If that argument is empty or missing, the function returns an empty string.
    """
    if number is None:
        return lambda arguments: text
    return lambda arguments: "".join(
        text + argument for argument in arguments[number:][:1] if argument
    )


def _as_of(arguments: Arguments) -> str:
    year, *month_and_day = arguments or [""]
    parts = [*month_and_day[1:2], *month_and_day[:1], year]
    if month_and_day and month_and_day[0].isdecimal():
        parts[-2] = dict(enumerate(calendar.month_name)).get(int(month_and_day[0]), "")
    date = " ".join(filter(None, parts))
    text = ("as of " if arguments.named.get("lc") else "As of ") + date
    return arguments.named.get("alt") or (text if date else "")


def _nihongo(arguments: Arguments) -> str:
    brackets = ", ".join(filter(None, arguments[1:3]))
    return "".join(arguments[:1]) + (f" ({brackets})" if brackets else "")


TEMPLATES: dict[str, Show] = {
    **dict.fromkeys(("ndash", "en dash", "snd", "spnd", "spaced ndash"), _shows(" – ")),
    **dict.fromkeys(("mdash", "em dash", "mdashb", "spaced mdash"), _shows(" — ")),
    **dict.fromkeys(("nbsp", "space"), _shows(" ")),
    **{"!": _shows("|"), "=": _shows("="), "'": _shows(_APOSTROPHE)},
    "'s": _shows(f"{_APOSTROPHE}s"),
    **dict.fromkeys(
        _words(
            "abbr em lang- linktext mono nobold nobr nobreak noitalic nowrap sic small "
            "smallcaps strong sub sup vanchor var"
        ),
        _shows("", 0),
    ),
    **dict.fromkeys(("not a typo", "visible anchor"), _shows("", 0)),
    **dict.fromkeys(("lang", "langx", "script"), _shows("", 1)),
    **dict.fromkeys(("transl", "transliteration", "translit"), _shows("", -1)),
    **dict.fromkeys(
        ("circa", "c.", "ca."),
        lambda years: " – ".join(f"c. {year}" for year in years if year),
    ),
    **dict.fromkeys(("us$", "usd"), _shows("US$", 0)),
    **{symbol: _shows(symbol, 0) for symbol in "£€¥"},
    "as of": _as_of,
    "nihongo": _nihongo,
}
"""Templates that show text, such as `{{lang|fr|mot}}`. All others are left out.

Maps a lowercase name (`lang-` for `lang-fr`, `lang-de` and so on) to a function of the
`Arguments`, which returns the text, or "" to leave the template out. A custom module
for `--format=module:Reader` can add entries and import `MediaWikiReader as Reader`.
"""
_PARSER_FUNCTIONS: dict[str, Callable[[str], str]] = {
    "formatnum": str,
    "lc": str.lower,
    "uc": str.upper,
    "lcfirst": lambda text: text[:1].lower() + text[1:],
    "ucfirst": lambda text: text[:1].upper() + text[1:],
}
_QUOTATIONS = _words("blockquote bquote cquote poemquote quotation quote rquote")

# === From markup to paragraphs ===

MAX_CHARACTERS_READ = 20_000_000
"""Maximum number of characters to parse because of unclosed markup: a few seconds. The
parser reads the rest of the page for each unclosed opening."""
# Openings and closings. Tables begin lines; `|}` also ends `{{cite|url=|}}`.
_PAIRS = tuple(
    (re.compile(opening, re.I | re.M), re.compile(closing, re.I))
    for opening, closing in (
        (r"\{\{", r"\}\}"),
        (r"\[(?=\[|[a-z]+:|//)", r"\]"),
        (r"^[ \t:]*\{\|", r"\|\}"),
        # Tags, except for self-closing ones, `<http://…>` and `<name@host>`.
        (
            r"<(?!(?:br|d[dt]|hr|img|li|t[dhr]|wbr)\b)[a-z][a-z0-9]*\b(?![:@.])"
            r"(?![^<>]{0,1000}/>)",
            r"</[a-z]",
        ),
    )
)

# Tags that are left out, including their content.
_DROPPED_TAGS = _words(
    "categorytree ce chem code gallery graph hiero imagemap includeonly indicator "
    "inputbox mapframe maplink math pre ref references rp rt score section source "
    "style syntaxhighlight table templatedata templatestyles timeline"
)
# Tags that begin and end a paragraph.
_BLOCK_TAGS = _words(
    "blockquote center dd div dl dt h1 h2 h3 h4 h5 h6 hr li ol p poem tbody td th tr ul"
)
_NAMESPACES = _words("category file image")
_FILE_NAME = re.compile(
    r"^[^:]+:.+\.(?:djvu|gif|jpe?g|oga|ogg|ogv|pdf|png|svg|tiff?|wav|webm)$",
    re.IGNORECASE,
)
_LANGUAGE_LINK = re.compile(
    r"(?!mw:)(?:[a-z]{2,3}(?:-[a-z]+)*|simple|tokipona):\S", re.ASCII
)
SWITCH = re.compile(
    r"__(?:(?:NO|FORCE)?TOC|NOEDITSECTION|(?:NO)?NEWSECTIONLINK|NOGALLERY|HIDDENCAT"
    r"|EXPECTUNUSEDCATEGORY|NO(?:CONTENT|TITLE)CONVERT|NOCC|NOTC|(?:NO)?INDEX|START|END"
    r"|STATICREDIRECT|DISAMBIG|ARCHIVEDTALK|NOTALK|NOGLOBAL)__"
)
# Remains of markup that the parser found unclosed.
_UNCLOSED = re.compile(r"^\{\{.*$|\{\{+|\}\}+|\[\[|\]\]", re.MULTILINE)
_STRAY_TAG = re.compile(
    r"</?(?:(?P<block>blockquote|center|d[dlt]|div|gallery|h[1-6]|hr|li|ol|p|poem|pre"
    r"|table|tbody|t[dhr]|ul)|abbr|b|big|br|cite|code|del|em|font|i|ins|kbd|math|q|ref"
    r"|references|s|samp|small|span|strike|strong|su[bp]|tt|u|var|\w*include\w*"
    r"|nowiki)\b[^<>\n]*>",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"(?<=\n) *<!--(?:(?!-->).)*--> *\n|<!--.*?(?:-->|\Z)", re.DOTALL)
_NUMBER = re.compile(r"[1-9]\d?", re.ASCII)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def to_paragraphs(markup: str) -> list[str]:
    """Returns the paragraphs, headings and list items of a page, without markup.

    Headings of empty sections are left out. Raises DocumentError if the markup cannot
    be parsed, or if parsing would take too long.
    """
    # A comment that fills a line is removed with its line.
    markup = _COMMENT.sub("", _CONTROLS.sub("", markup))
    num_unclosed = sum(
        max(0, len(opening.findall(markup)) - len(closing.findall(markup)))
        for opening, closing in _PAIRS
    )
    if num_unclosed * len(markup) > MAX_CHARACTERS_READ:
        raise DocumentError(
            "unclosed_markup",
            f"Expected wikitext, found {num_unclosed:,} openings that are never closed "
            f"in {len(markup):,} characters: parsing it would take minutes.",
        )
    try:
        # `_without_quotes` removes bold and italics, because apostrophes are ambiguous.
        rendered = _render(mwparserfromhell.parse(markup, skip_style_tags=True).nodes)
    except (mwparserfromhell.parser.ParserError, RecursionError, ValueError) as error:
        raise DocumentError(
            "unparsable_markup",
            f"Expected wikitext, found some that cannot be parsed: {error!r}.",
        ) from error
    return tidy(rendered)


def _render(parts: Iterable[nodes.Node]) -> str:
    return "".join(_RENDERERS[type(node)](node) for node in parts)


def _inline(code: mwparserfromhell.wikicode.Wikicode | None) -> str:
    """Renders a label or heading as one line, or returns "" for None."""
    rendered = "" if code is None else _render(code.nodes)
    return re.sub(f"[{_BREAK}{_ITEM}\n]|{_HEADING}\\d", " ", rendered)


def _text(node: nodes.Text) -> str:
    text = SWITCH.sub("", node.value) if "__" in node.value else node.value
    if "<" in text:
        text = _STRAY_TAG.sub(lambda tag: _BREAK if tag["block"] else " ", text)
    return _UNCLOSED.sub(_REMOVED, text)


def _entity(node: nodes.HTMLEntity) -> str:
    try:
        character = node.normalize()
    except (ValueError, OverflowError):
        return str(node)
    if "\ud800" <= character <= "\udfff":
        return str(node)
    return _APOSTROPHE if character == "'" else _CONTROLS.sub("", character)


def _link(node: nodes.Wikilink) -> str:
    title = str(node.title).strip()
    if node.text is None and _LANGUAGE_LINK.match(title):
        return _REMOVED
    namespace = title.partition(":")[0].strip().lower()
    if namespace in _NAMESPACES or _FILE_NAME.match(title):
        return _REMOVED
    label = _inline(node.text).strip()
    return label or _inline(node.title).strip().removeprefix(":").strip()


def _external_link(node: nodes.ExternalLink) -> str:
    if not node.brackets:
        return _inline(node.url)
    return _inline(node.title).strip() or _REMOVED


def _template(node: nodes.Template) -> str:
    name = " ".join(str(node.name).replace("_", " ").split()).lower()
    function, separator, _ = name.partition(":")
    if separator and function in _PARSER_FUNCTIONS:
        value = _inline(node.name).partition(":")[2].strip()
        return _PARSER_FUNCTIONS[function](value) or _REMOVED
    show = TEMPLATES.get("lang-" if name.startswith("lang-") else name)
    if show is None and name not in _QUOTATIONS:
        return _REMOVED
    # Unnamed arguments may also be written as `1=`. The last one with a number counts.
    values = {str(argument.name).strip(): argument.value for argument in node.params}
    last = max(map(int, filter(_NUMBER.fullmatch, values)), default=0)
    arguments = Arguments(
        _render(values[str(number)].nodes).strip() if str(number) in values else ""
        for number in range(1, last + 1)
    )
    if show is not None:
        arguments.named = {
            key: _inline(value).strip()
            for key, value in values.items()
            if not _NUMBER.fullmatch(key)
        }
        return show(arguments) or _REMOVED
    quotation = arguments[0] if arguments else ""
    for key in ("text", "quote"):
        if not quotation and key in values:
            quotation = _render(values[key].nodes)
    return f"{_BREAK}{quotation}{_BREAK}"


def _tag(node: nodes.Tag) -> str:
    if node.wiki_markup and node.wiki_markup in "*#:;":
        return _BREAK + _ITEM
    name = str(node.tag).strip().lower()
    if node.wiki_markup == "----" or name == "table":
        return _BREAK
    if name in _DROPPED_TAGS:
        return _REMOVED
    if name == "br":
        return " "
    contents = "" if node.contents is None else node.contents
    if name == "nowiki":
        text = _CONTROLS.sub("", html.unescape(str(contents)))
        return text.replace("'", _APOSTROPHE)
    text = _render(contents.nodes) if contents else ""
    return f"{_BREAK}{text}{_BREAK}" if name in _BLOCK_TAGS else text


_RENDERERS: dict[type[nodes.Node], Callable] = {
    nodes.Text: _text,
    nodes.HTMLEntity: _entity,
    nodes.Heading: lambda node: (
        f"{_BREAK}{_HEADING}{node.level}{_inline(node.title)}{_BREAK}"
    ),
    nodes.Wikilink: _link,
    nodes.ExternalLink: _external_link,
    nodes.Template: _template,
    nodes.Argument: lambda node: (
        _REMOVED if node.default is None else _render(node.default.nodes)
    ),
    nodes.Tag: _tag,
    nodes.Comment: lambda node: "",
}

# === From rendered text to paragraphs ===

# Remove empty brackets and stray commas, but only around removed text. To avoid
# quadratic time, no pattern may begin inside a run of spaces, commas and marks that it
# would have to read to the end.
_RUNS = ((r"\x03{2,}", _REMOVED), (r"\x03(?: \x03){2,}", f"{_REMOVED} {_REMOVED}"))
_CLEANINGS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # Words around removed text must not run together.
        (r"(?<=\w)\x03+(?=\w)", " "),
        (r"\s+", " "),
        *_RUNS,
        # A link whose address is a template.
        (r"\[\x03 (\w[^\[\]\x03]{0,300})\]", r"\1"),
        (r"^\s*\x03[\s\x03]*[,.;:)](?=[\s\x03])[\s\x03]*", ""),
        (
            r"[(\[]((?:[\s,;:/\x03]|&nbsp;)*+)[)\]]",
            lambda match: (
                _REMOVED if _REMOVED in match[1].rpartition("&nbsp;")[2] else match[0]
            ),
        ),
        (r'["“]\s*\x03[\s\x03]*["”]', _REMOVED),
        *_RUNS,
        (r"\(\s*(?:[,;:]\s*)*\x03[\s,;:\x03]*", "("),
        (r"(?<![\s,;:\x03])[\s,;:\x03]*\x03[\s,;:]*\)", ")"),
        (r"([,;:])\s*\x03[\s\x03]*(?=[,;:])", ""),
        (r"\s+", " "),
        *_RUNS,
        (r"\s+\x03[\s\x03]*(?=[,.;:?!)\]](?:\s|$|\x03))", ""),
        (r"\x03", ""),
    )
)
_QUOTES = re.compile(r"('{2,})")


def tidy(rendered: str) -> list[str]:
    """Returns the paragraphs of rendered text, without headings of empty sections."""
    blocks: list[tuple[int, str]] = []  # Level (0 for paragraphs) and text.

    def add(level: int, text: str) -> None:
        if _REMOVED in text:
            for pattern, replacement in _CLEANINGS:
                text = pattern.sub(replacement, text)
        text = " ".join(text.replace(_APOSTROPHE, "'").split())
        if any(map(str.isalnum, text)):
            blocks.append((level, text))

    for chunk in rendered.split(_BREAK):
        if chunk.startswith(_HEADING):
            add(int(chunk[1]), _without_quotes(chunk[2:]))
            continue
        paragraph: list[str] = []
        for line in chunk.split("\n"):
            is_item = line.startswith(_ITEM)
            if is_item or not line.strip(f" \t{_REMOVED}"):
                add(0, " ".join(paragraph))
                paragraph = []
            if is_item:
                add(0, _without_quotes(line.lstrip(_ITEM)))
            else:
                paragraph.append(_without_quotes(line))
        add(0, " ".join(paragraph))
    paragraphs = []
    # From the end upwards: headings above this level have text below them.
    level_with_text = 0
    for level, text in reversed(blocks):
        if not level or level < level_with_text:
            level_with_text = level or 7
            paragraphs.append(text)
    return paragraphs[::-1]


def _without_quotes(line: str) -> str:
    """Removes the marks of bold and italics, paired within a line as in MediaWiki."""
    if "''" not in line:
        return line
    parts = _QUOTES.split(line)
    sizes = []
    for number in range(1, len(parts), 2):
        size = len(parts[number])
        marks = 3 if size == 4 else min(size, 5)
        parts[number - 1] += "'" * (size - marks)
        sizes.append(marks)
    num_bold = sum(size in (3, 5) for size in sizes)
    num_italic = sum(size in (2, 5) for size in sizes)
    if num_bold % 2 and num_italic % 2:
        # One unpaired bold mark is an apostrophe followed by italics: preferably a mark
        # after a one-letter word, as in l'''amour'', otherwise after a longer word.
        candidates: dict[int, int] = {}
        for number, size in enumerate(sizes):
            before = parts[2 * number]
            if size == 3:
                rank = 2 if before[-1:] == " " else int(before[-2:-1] != " ")
                candidates.setdefault(rank, 2 * number)
        if candidates:
            parts[candidates[min(candidates)]] += "'"
    return "".join(parts[::2])
