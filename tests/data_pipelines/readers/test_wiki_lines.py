"""Tidying up lines: equal to plain patterns that would take minutes on long lines."""

import re

import hypothesis
import pytest
from hypothesis import strategies

from data_pipelines.readers import wiki_markup

pytestmark = pytest.mark.slow

# Each is easy to read, and reads a run again from each of its characters.
SLOW_CLEANINGS = (
    (r"\x06", ""),
    (r"\[\x03+\s+(\w[^\[\]\x03]*)\]", r"\1"),
    (r"^\s*\x03[\s\x03]*[,.;:)](?=[\s\x03])[\s\x03]*", ""),
    (r"[(\[]([\s,;:/\x03]|&nbsp;)*\x03[\s,;:/\x03]*[)\]]", "\x03"),
    (r'["“]\s*\x03[\s\x03]*["”]', "\x03"),
    (r"\(\s*(?:[,;:]\s*)*\x03[\s,;:\x03]*", "("),
    (r"(?:\s*[,;:\x03])*\s*\x03\s*(?:[,;:]\s*)*\)", ")"),
    (r"([,;:])\s*\x03[\s\x03]*(?=[,;:])", ""),
    (r"\s+\x03[\s\x03]*(?=[,.;:?!)\]](?:\s|$|\x03))", ""),
    (r"\x03", ""),
)
SLOW_HEADING = re.compile(r"(={2,6})\s*(\S.*?)\s*\1[\s\x03\x06]*$")
FRAGMENTS = (
    *("\x03", "\x03", "\x03\x06", " ", "  ", "\t", "\xa0", ",", ";", ":", ".", "?"),
    *("(", ")", "[", "]", "/", "&nbsp;", '"', "“", "”", "=", "==", " a ", " b"),
)
LINES = strategies.lists(strategies.sampled_from(FRAGMENTS), max_size=14).map("".join)


def paragraph(line):
    """The paragraph made of a line that ends in a word."""
    (found,) = wiki_markup.tidy(line + " z")
    return found


@hypothesis.given(LINES)
@hypothesis.settings(max_examples=400, deadline=None)
def test_lines_are_tidied_as_plain_patterns_do(line):
    hypothesis.assume("=" not in line)
    expected = line + " z"
    for pattern, replacement in SLOW_CLEANINGS:
        expected = re.sub(pattern, replacement, expected)
    assert paragraph(line) == " ".join(expected.split())


@hypothesis.given(
    strategies.lists(
        strategies.sampled_from(("=", "==", "===", " ", "\t", "a", "\x03", "\x03\x06")),
        max_size=10,
    ).map("".join)
)
@hypothesis.settings(max_examples=400, deadline=None)
def test_headings_are_told_as_a_plain_pattern_does(line):
    hypothesis.assume("a" in line)
    match = SLOW_HEADING.match(line)
    # A heading goes if nothing is under it.
    is_heading = wiki_markup.tidy(line) == []
    assert is_heading == (match is not None)
    if match:
        title, text = wiki_markup.tidy(f"{line}\nz")
        assert text == "z"
        expected = re.sub(r"[\x03\x06]", "", match[2])
        assert title.split() == expected.split() or "\x03" in match[2]
        assert title.replace(" ", "") == "".join(expected.split())


@pytest.mark.parametrize(
    "markup, expected",
    [
        ("a" + " " * 50_000 + "{{x}}" + " " * 50_000 + "b", ["a b"]),
        ("a " + "{{x}}, " * 20_000 + "b", ["a, b"]),
        ("a " + ", " * 20_000 + "{{x}}) b", ["a) b"]),
        ("a " + "({{x}}) " * 20_000 + ".", ["a."]),
        ("a (" + ",{{x}}" * 20_000 + " b", ["a (b"]),
        ("a" + "<ref>x</ref> " * 10_000 + ".", ["a."]),
        ("== a" + " " * 30_000 + "b\nc", ["== a" + " b c"]),
        ("== a" + " " * 30_000 + "b ==\nc", ["a b", "c"]),
        ("<div>" * 20_000 + "x" + "</div>" * 20_000, ["x"]),
        ("*" * 20_000 + "x", ["x"]),
    ],
    ids=lambda value: str(value)[:20],
)
def test_long_runs_take_no_minutes(markup, expected):
    assert wiki_markup.to_paragraphs(markup) == expected
