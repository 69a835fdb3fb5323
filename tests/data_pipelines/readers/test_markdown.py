"""Markdown: the marks go, the text stays."""

import re

import pytest

from data_pipelines import readers
from data_pipelines.readers import markdown
from tests.data_pipelines.readers import helpers
from tests.sample_data import sample_data


def read(folder, text):
    (found,) = helpers.paragraphs(helpers.read_text(folder, "markdown", text))
    return found


def test_book(tmp_path):
    text = """\
# Title: The Moon

## Author: A. Writer

-------

###  I. Night ###
She came _late_,
very late.
* * *

> "Go," he
> said.
"""
    (document,) = helpers.read_text(tmp_path, "markdown", text)
    assert document.title == "The Moon"
    assert document.paragraphs == (
        "Title: The Moon",
        "Author: A. Writer",
        "I. Night",
        "She came late, very late.",
        '"Go," he said.',
    )


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            "Buy:\n- milk,\n  fresh\n* eggs\n\n1. Go.\n2. Come\n   back.\n10) Stay.",
            ["Buy:", "milk, fresh", "eggs", "1. Go.", "2. Come back.", "10) Stay."],
        ),
        ("They were\n12. All came.", ["They were 12. All came."]),
        ("Big\n===\nText.\n\nSmall\n-----\nMore.", ["Big", "Text.", "Small", "More."]),
        ("#tag is text\n\n# Heading\n\n#", ["#tag is text", "Heading"]),
        ("> > deep\n>\n> less deep\n\na > b", ["deep", "less deep", "a > b"]),
        ("A.\n\n```\nB.\n\nC.", ["A.", "``` B.", "C."]),
        ("````\n```\n````\nAfter.\n\n~~~\nx\n~~~\n", ["After."]),
        ("- a\n\n      ```py\n      x\n      ```\n- ~~~\n  y\n  ~~~\n", ["a"]),
        ("> ```\n> x\n> ```\n> Text.", ["Text."]),
        ("```code``` is a span.\n\nB.", ["```code``` is a span.", "B."]),
        ("A | B\n--- | ---\n1 | 2\n\nA | B.", ["A | B."]),
        ("> A | B\n> :-: | -\n> 1 | 2\n>\n> Text.", ["Text."]),
        ("A | B\n---\nText.", ["A | B", "Text."]),
        *(
            (text, [text])
            for text in (
                "If 1 <2 and c> 2, x <- y.",
                "See <https://example.org/a> or <name@example.org>.",
                "Type <name> here.",
                "It opens <!-- and nothing closes it.",
            )
        ),
        (
            "The `<br>` and ``<p>`` and \\<i> and &lt;b&gt; stay.\n\n```\n<p>\n```",
            ["The <br> and <p> and <i> and <b> stay."],
        ),
    ],
)
def test_blocks(tmp_path, text, expected):
    assert read(tmp_path, text) == expected


def test_code_tables_images_and_link_targets_are_dropped(tmp_path):
    text = """\
Before.
```python
# no heading

x = 1
```
After.

| a | b |
|---|---|

![a moon](moon.png "The moon")

[moon]: http://moon.org
"""
    assert read(tmp_path, text) == ["Before.", "After."]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("_word_ and *word*", "word and word"),
        ("**two words**, ***three***!", "two words, three!"),
        ("a **very _very_ late** hour", "a very very late hour"),
        ("“_Go!_” she said--_twice_.", "“Go!” she said--twice."),
        ("_one_ and _two_", "one and two"),
        ("snake_case_name stays", "snake_case_name stays"),
        ("2 * 3 * 4 stays", "2 * 3 * 4 stays"),
        ("in 17__ or ____ stays", "in 17__ or ____ stays"),
        ("_open stays", "_open stays"),
        (r"\*not emphasis\* and 1\. not a list", "*not emphasis* and 1. not a list"),
        (r"C:\new stays", r"C:\new stays"),
        ("[text](http://x.org 'T') and [text][ref]", "text and text"),
        ("the [Moon](http://x.org/Moon_(a)) rises", "the Moon rises"),
        ("[a note] stays", "[a note] stays"),
        ("![a picture](x.png) of it", " of it"),
        ("`code` and ``co`de``", "code and co`de"),
        ("old `quotes' and `more'", "old `quotes' and `more'"),
        ("Morrel &amp; Son, AT&T, &copy", "Morrel & Son, AT&T, &copy"),
        ("a&#10;b", "a b"),
    ],
)
def test_inline_marks(text, expected):
    assert markdown.strip_inline_marks(text) == expected


@pytest.mark.parametrize(
    "mark",
    [
        "*a ",
        "_a ",
        "`a ",
        "``a ",
        "[",
        "![",
        "[a](",
        "\\",
        "> ",
        "*",
        "\n```x",
        "<!-- <script> `a ",
    ],
)
def test_time_is_linear_in_the_number_of_marks(tmp_path, mark):
    # A search that went back for each mark would take hours.
    helpers.read_text(tmp_path, "markdown", "Text " + mark * 30_000)


class TestBooks:
    def test_all_120_are_read(self):
        folder = sample_data("classic_books_md")
        items = list(readers.get_reader("markdown").read_input(folder))
        assert [item.source for item in items] == sorted(
            path.relative_to(folder).as_posix() for path in folder.rglob("*.md")
        )
        assert len(items) == 120
        assert all(isinstance(item, readers.Document) for item in items)
        # As each of these books says of itself in its first two lines of text.
        for item in items:
            assert item.paragraphs[0] == f"Title: {item.title}"
            assert item.paragraphs[1].startswith("Author: ")

    def test_words_are_those_of_the_file(self):
        folder = sample_data("classic_books_md")
        path = folder / "Jack London" / "The House of Pride.md"
        (document,) = readers.get_reader("markdown").read_input(path)
        # This book has headings, emphasis, rules and nothing else.
        text = re.sub(r"(?m)^(#+|-{3,}|\* \* \*)", "", path.read_text("utf-8"))
        expected = text.replace("_", "").replace("*", "").split()
        assert " ".join(document.paragraphs).split() == expected


def test_front_matter_is_no_text_and_gives_the_title(tmp_path):
    front = '---\ntitle: "The Moon: a life"\ntags:\n  - a\n- b\n\n# x\ndate: 1\n---\n'
    (document,) = helpers.read_text(tmp_path, "markdown", f"{front}# One\n\nTwo.")
    assert document.title == "The Moon: a life"
    assert document.paragraphs == ("One", "Two.")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("---\n\nNote: text.\n\n---\n\nMore.", id="blank line first"),
        pytest.param("---\nNote: text.\nShe left.\n---\n\nMore.", id="prose"),
        pytest.param("---\nnote: text.", id="not closed"),
        pytest.param("Text.\n\n---\nnote: text.\n---\n", id="not at the start"),
    ],
)
def test_rules_at_the_start_are_no_front_matter(tmp_path, text):
    without_rules = re.sub("(?m)^---$", "", text)
    assert read(tmp_path, text) == read(tmp_path, without_rules) != []


def test_html_is_no_prose(tmp_path):
    text = """\
<p align="center"><img src="a.png"
  alt="A moon"></p>
<div>First <b>part</b>.</div>Second<br/>part <!-- a

remark --> goes <IMG src=x>on.

<script type="x">
var text = 1;
</script>
<!-- ```
-->
<details><summary>More</summary>
Hidden.</details>
"""
    assert read(tmp_path, text) == [
        "First part.",
        "Second part goes on.",
        "More",
        "Hidden.",
    ]
