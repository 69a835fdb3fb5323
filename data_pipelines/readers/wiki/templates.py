"""Templates that show text; all others are left out.

`TEXTS` says what a template shows, by its name in lower case. It knows those that only
mark plain text, as `{{lang|fr|mot}}` does. A module of yours can add others, which
`--reader_options=templates=MODULE` imports:

    from data_pipelines.readers.wiki import templates

    templates.TEXTS["convert"] = lambda arguments: " ".join(arguments[:2])

A function gets the arguments without a name, as text, and "" leaves the template out.
"""

from collections.abc import Callable, Sequence

from data_pipelines.readers.wiki.wiki_lines import APOSTROPHE


def _text(text: str) -> Callable[[Sequence[str]], str]:
    return lambda arguments: text


def _argument(number: int) -> Callable[[Sequence[str]], str]:
    return lambda arguments: "".join(arguments[number : number + 1])


TEXTS: dict[str, Callable[[Sequence[str]], str]] = {
    **dict.fromkeys(("ndash", "en dash", "snd", "spnd", "spaced ndash"), _text(" – ")),
    **dict.fromkeys(("mdash", "em dash", "mdashb", "spaced mdash"), _text(" — ")),
    **dict.fromkeys(("nbsp", "space"), _text(" ")),
    **{"!": _text("|"), "=": _text("="), "'": _text(APOSTROPHE)},
    "'s": _text(f"{APOSTROPHE}s"),
    **dict.fromkeys(
        (
            *("abbr", "em", "lang-", "linktext", "mono", "nobold", "nobr", "nobreak"),
            *(
                "noitalic",
                "not a typo",
                "nowrap",
                "sic",
                "small",
                "smallcaps",
                "strong",
            ),
            *("sub", "sup", "vanchor", "var", "visible anchor"),
        ),
        _argument(0),
    ),
    **dict.fromkeys(("lang", "langx", "script"), _argument(1)),
}
QUOTATIONS = frozenset(
    ("blockquote", "bquote", "cquote", "poemquote", "quotation", "quote", "rquote")
)


def shown(name: str, arguments: Sequence[str]) -> str:
    """The text of a template in a sentence; "" if it is left out.

    Args:
        name: in lower case. All of `lang-fr`, `lang-de` and so on are `lang-`.
        arguments: those without a name, rendered, in order.
    """
    text = TEXTS.get("lang-" if name.startswith("lang-") else name)
    return text([argument.strip() for argument in arguments]) if text else ""
