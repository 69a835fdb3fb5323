"""Markdown: the marks go, the text stays."""

import re

import pytest

from data_pipelines import readers
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


def test_books_of_seven_authors_are_read():
    folder = sample_data("classic_books_md")
    items = list(readers.get_reader("markdown").read_input(f"{folder}/J*/*.md"))
    assert [item.source for item in items] == sorted(
        path.relative_to(folder).as_posix() for path in folder.glob("J*/*.md")
    )
    assert len(items) == 11
    # As each of these books says in its first two lines of text.
    for item in items:
        assert item.paragraphs[0] == f"Title: {item.title}"
        assert item.paragraphs[1].startswith("Author: ")
    # This book has headings, emphasis, rules and nothing else.
    name = "Jack London/The House of Pride.md"
    (document,) = [item for item in items if item.source == name]
    text = re.sub(r"(?m)^(#+|-{3,}|\* \* \*)", "", (folder / name).read_text("utf-8"))
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


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            "Buy:\n- milk,\n  fresh\n* eggs\n\n1. Go.\n2. Come\n   back.\n10) Stay.",
            ["Buy:", "milk, fresh", "eggs", "1. Go.", "2. Come back.", "10) Stay."],
        ),
        ("They were\n12. All came.", ["They were 12. All came."]),
        ("1. ```\n   code\n   ```\n\nNext.", ["Next."]),
        ("Big\n===\nText.\n\nSmall\n-----\nMore.", ["Big", "Text.", "Small", "More."]),
        ("#tag is text\n\n# Heading\n\n#", ["#tag is text", "Heading"]),
        ("> > deep\n>\n> less deep\n\na > b", ["deep", "less deep", "a > b"]),
        ("A.\n\n    indented\n    verse", ["A.", "indented verse"]),
        ("A | B\n--- | ---\n1 | 2\n\nA | B.", ["A | B."]),
        *(
            (text, [text])
            for text in (
                "If 1 <2 and c> 2, x <- y.",
                "Type <name> here.",
                "It opens <!-- and nothing closes it.",
                "“Go!” she said in 17__ or ____, by snake_case_name, 2 * 3 * 4.",
                "Morrel, AT&T, &copy, old `quotes' and [a note] stay.",
            )
        ),
        (
            "The `<br>`, \\<i> and &lt;b&gt; of Morrel &amp; Son stay.\n\n```\nx\n```",
            ["The <br>, <i> and <b> of Morrel & Son stay."],
        ),
        ("a **very _very_ late** hour, 5*l.*", ["a very very late hour, 5l."]),
        ("the [Moon](http://x.org/Moon_(a) 'T') ![a](x.png)rises", ["the Moon rises"]),
        ("a\\\nb<br/>c&#10;d", ["a b c d"]),
        (
            "One.\n####### SECTION 10 (9 words) #######",
            ["One.", "SECTION 10 (9 words)"],
        ),
        ("him. * * * *\nin * * * *, or * * *", ["him. in * * * *, or"]),
        (
            '<p align="center"><img src="a.png"></p>\n\n<div>A <b>part</b>.</div>\n\n'
            "B <!-- a\nremark -->goes.\n\n<script>\nvar text = 1;\n</script>\n\n"
            "<details><summary>More</summary>\nHidden.</details>",
            ["A part.", "B goes.", "More", "Hidden."],
        ),
    ],
)
def test_marks_go_and_text_stays(tmp_path, text, expected):
    assert read(tmp_path, text) == expected
