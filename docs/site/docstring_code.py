"""A Sphinx extension: code in docstrings, which is marked as in Markdown.

Our docstrings fence code by ``` or indent it under a paragraph. reStructuredText, which
Sphinx reads, has other marks for both.
"""

import re

from sphinx.application import Sphinx

# A letter after code, as in `[SENT]`s.
_LETTER_AFTER_CODE = re.compile(r"(`[^`]+`)(?=\w)")
_SECTION = re.compile("([A-Z][a-z]*(?: arguments)?):$")
_INDENT = "   "


def mark(lines: list[str]) -> list[str]:
    """The lines of a docstring with the marks of reStructuredText.

    Fences are found anywhere; indented code above the first section alone (`Args:` and
    so on), since what sections hold is indented as well.
    """
    marked: list[str] = []
    is_fenced = is_indented = has_sections = False
    before = ""
    for line in lines:
        if line.strip().startswith("```"):
            is_fenced = not is_fenced
            language = line.strip("` ") or "python"
            marked += ["", f".. code-block:: {language}", ""] if is_fenced else [""]
        elif is_fenced:
            marked.append(_INDENT + line)
        else:
            has_sections = has_sections or bool(_SECTION.match(line))
            begins = line.startswith(" ") and (not before or before.endswith(":"))
            if begins and not has_sections and not is_indented:
                is_indented = True
                marked += ["", "::", ""]
            elif line and not line.startswith(" "):
                # Code ends where the text continues, with or without a blank line.
                marked += [""] if is_indented else []
                is_indented = False
            marked.append(
                line if is_indented else _LETTER_AFTER_CODE.sub(r"\1\\ ", line)
            )
        before = line.strip()
    return marked


def _on_docstring(
    app: Sphinx, kind: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    lines[:] = mark(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    # Before napoleon, which reads the sections.
    app.connect("autodoc-process-docstring", _on_docstring, priority=400)
    return {"parallel_read_safe": True}
