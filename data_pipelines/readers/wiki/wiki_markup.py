"""From wikitext to the paragraphs that readers of the page see."""

import html
import re
from collections.abc import Iterable

import mwparserfromhell
from mwparserfromhell import nodes

from data_pipelines.readers.errors import DocumentError
from data_pipelines.readers.wiki import templates, wiki_cost, wiki_lines
from data_pipelines.readers.wiki.wiki_lines import (
    APOSTROPHE,
    BREAK,
    HEADING,
    ITEM,
    JOINED,
    NOTE,
    REMOVED,
    UNCLOSED,
)

# Left out with all that they enclose.
_DROPPED_TAGS = frozenset(
    (
        *("categorytree", "ce", "chem", "code", "gallery", "graph", "hiero"),
        *("imagemap", "includeonly", "indicator", "inputbox", "mapframe", "maplink"),
        *("math", "pre", "ref", "references", "rp", "rt", "score", "section"),
        *("source", "style", "syntaxhighlight", "table", "templatedata"),
        *("templatestyles", "timeline"),
    )
)
_NOTE_TAGS = frozenset(("ref", "references"))
# Begin and end a paragraph.
_BLOCK_TAGS = frozenset(
    (
        *("blockquote", "center", "dd", "div", "dl", "dt", "h1", "h2", "h3", "h4"),
        *("h5", "h6", "hr", "li", "ol", "p", "poem", "tbody", "td", "th", "tr", "ul"),
    )
)
_LIST_MARKS = frozenset("*#:;")
_RULE = "----"
_FILE_NAMESPACES = frozenset(("file", "image"))
_FILE_NAME = re.compile(
    r"^[^:]+:.+\.(?:djvu|gif|jpe?g|oga|ogg|ogv|pdf|png|svg|tiff?|wav|webm)$",
    re.IGNORECASE,
)
_PREFIX = re.compile(
    r"(?!mw:)([a-z]{2,3}(?:-[a-z]+)*|simple|tokipona):(?=\S)", re.ASCII
)
# Of the largest Wikipedias; `[[doi:…|label]]` is a link of the text.
_LANGUAGES = """
af als am an ang ar arz as ast az azb ba bar be bg bn bo br bs bug ca ce ceb ckb
cs cv cy da de diq dv el eml en eo es et eu fa fi fo fr frr fy ga gd gl gu gv ha
hak haw he hi hif hr hsb ht hu hy ia id ig ilo io is it ja jv ka kk km kn ko ku kw
ky la lad lb li lij lmo ln lo lt lv mai mg mhr mi min mk ml mn mr ms mt my mzn nah
nap nds ne new nl nn no nov nv oc or os pa pam pl pms pnb ps pt qu rm ro roa ru rue
rw sa sah sc scn sco sd se sh si simple sk sl so sq sr su sv sw szl ta te tg th tk
tl tr tt udm ug uk ur uz vec vi vls vo wa war wo wuu xmf yi yo zh zu
"""
_KNOWN_LANGUAGES = frozenset(_LANGUAGES.split())
_SWITCH = re.compile(
    r"__(?:(?:NO|FORCE)?TOC|NOEDITSECTION|(?:NO)?NEWSECTIONLINK|NOGALLERY|HIDDENCAT"
    r"|EXPECTUNUSEDCATEGORY|NO(?:CONTENT|TITLE)CONVERT|NOCC|NOTC|(?:NO)?INDEX|START|END"
    r"|STATICREDIRECT|DISAMBIG|ARCHIVEDTALK|NOTALK|NOGLOBAL)__"
)
# What stays of markup that is not closed: a template's first line, a tag.
_UNCLOSED = re.compile(r"^\{\{.*$|\{\{+|\}\}+|\[\[|\]\]", re.MULTILINE)
_STRAY_TAG = re.compile(
    r"</?(?:(?P<block>blockquote|center|dd|div|dl|dt|gallery|h[1-6]|hr|li|ol|p|poem|pre"
    r"|table|tbody|td|th|tr|ul)|(?P<space>br)|abbr|b|big|cite|code|del|em|font|i"
    r"|includeonly|ins|kbd|math|noinclude|nowiki|onlyinclude|q|ref|references|s|samp"
    r"|small|span|strike|strong|sub|sup|tt|u|var)\b[^<>\n]*>",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[1-9]\d?", re.ASCII)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def to_paragraphs(markup: str) -> list[str]:
    """The paragraphs, headings and list items of a page, without markup.

    Raises:
        DocumentError: if the markup cannot be parsed, or not in any decent time.
    """
    markup = _without_comments(_CONTROLS.sub("", markup))
    wiki_cost.check(markup)
    try:
        # Bold and italics are taken off line by line, which knows apostrophes.
        rendered = _render(mwparserfromhell.parse(markup, skip_style_tags=True).nodes)
    except (mwparserfromhell.parser.ParserError, RecursionError, ValueError) as error:
        raise DocumentError(
            "unparsable_markup",
            f"Expected wikitext, found some that cannot be parsed: {error!r}.",
        ) from error
    return wiki_lines.to_paragraphs(rendered)


def _without_comments(markup: str) -> str:
    """Removes comments, and the whole line of one that has it to itself."""
    kept, position = [], 0
    while (begin := markup.find("<!--", position)) >= 0:
        end = markup.find("-->", begin)
        end = len(markup) if end < 0 else end + len("-->")
        before = markup[position:begin].rstrip(" ")
        after = end
        while markup[after : after + 1] == " ":
            after += 1
        is_line = before.endswith("\n") and markup[after : after + 1] == "\n"
        kept.append(before[:-1] if is_line else markup[position:begin])
        position = after if is_line else end
    kept.append(markup[position:])
    return "".join(kept)


def _render(parts: Iterable[nodes.Node]) -> str:
    return "".join(map(_render_node, parts))


def _render_node(node: nodes.Node) -> str:
    return _RENDERERS[type(node)](node)


def _inline(code: mwparserfromhell.wikicode.Wikicode | None) -> str:
    """Renders what cannot hold a paragraph's end: labels, headings."""
    if code is None:
        return ""
    return " ".join(wiki_lines.without_breaks(_render(code.nodes)).split("\n"))


def _text(node: nodes.Text) -> str:
    text = node.value
    if "__" in text:
        text = _SWITCH.sub(JOINED, text)
    if "<" in text:
        text = _STRAY_TAG.sub(_in_place_of_tag, text)
    return _UNCLOSED.sub(_in_place_of_mark, text)


def _in_place_of_tag(match: re.Match[str]) -> str:
    if match["block"]:
        return BREAK
    return " " if match["space"] else JOINED


def _in_place_of_mark(match: re.Match[str]) -> str:
    return UNCLOSED if match[0].startswith("{{") else REMOVED


def _entity(node: nodes.HTMLEntity) -> str:
    try:
        character = node.normalize()
    except (ValueError, OverflowError):
        return str(node)
    if "\ud800" <= character <= "\udfff":
        return str(node)
    return APOSTROPHE if character == "'" else _CONTROLS.sub("", character)


def _heading(node: nodes.Heading) -> str:
    return f"{BREAK}{HEADING}{node.level}{_inline(node.title)}{BREAK}"


def _link(node: nodes.Wikilink) -> str:
    title = str(node.title).strip()
    namespace = title.partition(":")[0].strip().lower()
    if namespace == "category":
        return REMOVED
    prefix = _PREFIX.match(title)
    if prefix and (node.text is None or prefix[1].split("-")[0] in _KNOWN_LANGUAGES):
        return REMOVED
    if namespace in _FILE_NAMESPACES or _FILE_NAME.match(title):
        return REMOVED
    label = _inline(node.text).strip()
    return label or _inline(node.title).strip().removeprefix(":").strip()


def _external_link(node: nodes.ExternalLink) -> str:
    if not node.brackets:
        return _inline(node.url)
    return _inline(node.title).strip() or REMOVED


def _template(node: nodes.Template) -> str:
    name = " ".join(str(node.name).replace("_", " ").split()).lower()
    arguments = _arguments(node)
    if name not in templates.QUOTATIONS:
        return templates.shown(name, arguments) or REMOVED
    quotation = arguments[0].strip() if arguments else ""
    for key in ("text", "quote"):
        if not quotation and node.has(key):
            quotation = _render(node.get(key).value.nodes)
    return f"{BREAK}{quotation}{BREAK}"


def _arguments(node: nodes.Template) -> list[str]:
    """Arguments without a name in order, `1=` among them; "" for those left out."""
    numbered = {}
    for parameter in node.params:
        name = str(parameter.name).strip()
        if _NUMBER.fullmatch(name):
            # The last one of a number is shown.
            numbered[int(name)] = parameter.value.nodes
    last = max(numbered, default=0)
    return [_render(numbered.get(number, ())) for number in range(1, last + 1)]


def _argument(node: nodes.Argument) -> str:
    return REMOVED if node.default is None else _render(node.default.nodes)


def _tag(node: nodes.Tag) -> str:
    if node.wiki_markup in _LIST_MARKS:
        return BREAK + ITEM
    if node.wiki_markup == _RULE:
        return BREAK
    name = str(node.tag).strip().lower()
    if name in _DROPPED_TAGS:
        if name == "table":
            return BREAK
        return NOTE if name in _NOTE_TAGS else REMOVED
    if name == "br":
        return " "
    contents = "" if node.contents is None else node.contents
    if name == "nowiki":
        text = _CONTROLS.sub("", html.unescape(str(contents)))
        return text.replace("'", APOSTROPHE)
    text = _render(contents.nodes) if contents else ""
    return f"{BREAK}{text}{BREAK}" if name in _BLOCK_TAGS else text


_RENDERERS = {
    nodes.Text: _text,
    nodes.HTMLEntity: _entity,
    nodes.Heading: _heading,
    nodes.Wikilink: _link,
    nodes.ExternalLink: _external_link,
    nodes.Template: _template,
    nodes.Argument: _argument,
    nodes.Tag: _tag,
    nodes.Comment: lambda node: "",
}
