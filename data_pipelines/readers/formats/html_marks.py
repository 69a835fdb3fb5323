"""HTML in Markdown: comments and tags go, the text between tags stays."""

import re

# Begin and end a paragraph.
_BLOCK_TAGS = (
    "address|article|aside|blockquote|body|caption|center|col|colgroup|dd|details|dialog"
    "|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]|head|header|hr|html|legend"
    "|li|link|main|menu|meta|nav|ol|option|p|picture|pre|section|select|source|summary"
    "|table|tbody|td|tfoot|th|thead|title|tr|ul|video"
)
_INLINE_TAGS = (
    "a|abbr|acronym|audio|b|bdi|bdo|big|button|cite|code|data|del|dfn|em|font|i|iframe"
    "|img|input|ins|kbd|label|map|mark|object|output|param|q|rp|rt|ruby|s|samp|small"
    "|span|strike|strong|sub|sup|time|tt|u|var|wbr"
)
# Left out with all that they enclose.
_DROPPED_TAGS = "math|script|style|svg|template"
_TOKEN = re.compile(
    # A span of code, in which tags are text; it does not go past a blank line.
    r"(?<![\\`])(?P<mark>`+)(?!`)(?:(?!\n[ \t]*\n).)+?(?<!`)(?P=mark)(?!`)"
    r"|(?<!\\)(?:(?P<comment><!--)"
    rf"|<(?P<dropped>{_DROPPED_TAGS})(?=[\s/>])[^<>]*>"
    rf"|</?(?:(?P<block>{_BLOCK_TAGS})|(?P<space>br)|{_DROPPED_TAGS}|{_INLINE_TAGS})"
    r"(?=[\s/>])[^<>]*>)",
    re.IGNORECASE | re.DOTALL,
)
_ENDS = {
    name: re.compile(rf"</{name}\s*>", re.IGNORECASE)
    for name in _DROPPED_TAGS.split("|")
}
_COMMENT_END = re.compile(r"-->")


def without_html(text: str) -> str:
    """Removes comments and tags of HTML from Markdown without fenced code.

    Tags of blocks end a paragraph, `<br>` becomes a space, others nothing. Scripts,
    styles, formulas and drawings go with what they enclose. A `<` that begins none of
    the tags that HTML has, a tag after a backslash or in a span of code is text, and
    so is a comment that nothing ends.
    """
    kept, position = [], 0
    unclosed = set()
    while match := _TOKEN.search(text, position):
        kept.append(text[position : match.start()])
        position = match.end()
        name = "comment" if match["comment"] else (match["dropped"] or "").lower()
        if match["mark"]:
            kept.append(match[0])
        elif name and name not in unclosed:
            end = (_ENDS.get(name) or _COMMENT_END).search(text, position)
            if end is not None:
                position = end.end()
                # One of the spaces before and after it is enough.
                is_after_space = not "".join(kept[-1:])[-1:].strip()
                position += is_after_space and text[position : position + 1] == " "
            else:
                unclosed.add(name)
                kept.append(match[0] if name == "comment" else "")
        elif name == "comment":
            kept.append(match[0])
        elif match["block"]:
            kept.append("\n\n")
        elif match["space"]:
            kept.append(" ")
    kept.append(text[position:])
    return "".join(kept)
