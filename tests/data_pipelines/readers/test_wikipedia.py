"""WikiExtractor's `<doc>` blocks and JSON lines; WikiText."""

import json

from data_pipelines import readers
from tests.data_pipelines.readers import helpers
from tests.sample_data import sample_data

TWO = """\
<doc id="12" url="http://en.wikipedia.org/wiki?curid=12" title="Anarchism">
Anarchism

Anarchism is a political philosophy.
Etymology.
It comes from Greek.

</doc>
<doc id="25" revid="7" url="https://en.wikipedia.org/x" title=""Heroes" (a)">
"Heroes" (a)

A song.

</doc>
"""


def test_documents_with_titles_and_locations(tmp_path):
    first, second = helpers.read_text(tmp_path, "wikiextractor", TWO)
    assert first == readers.Document(
        paragraphs=(
            "Anarchism",
            "Anarchism is a political philosophy.",
            "Etymology.",
            "It comes from Greek.",
        ),
        source="file",
        location="doc id=12, line 1",
        title="Anarchism",
    )
    assert second.paragraphs == ('"Heroes" (a)', "A song.")
    assert second.location == "doc id=25, line 9"
    assert second.title == '"Heroes" (a)'


def test_json_lines_are_recognised(tmp_path):
    text = "\n".join(
        json.dumps(
            {"id": "1", "revid": "2", "url": "u", "title": "A &amp; B", "text": text}
        )
        for text in ("One &lt;x&gt;.\nTwo.<br>\n", "A &amp; B\nThree.", "")
    )
    first, second, third = helpers.read_text(tmp_path, "wikiextractor", text)
    assert first.paragraphs == ("A & B", "One <x>.", "Two.")
    # A title that is in the text already is not put there again.
    assert second.paragraphs == ("A & B", "Three.")
    assert third.reason == "empty_document"
    assert second.location == "line 2"


def test_remains_of_markup_are_removed(tmp_path):
    text = (
        'Section::::History.\nBULLET::::- See &lt;a href="B%20C"&gt;B&lt;/a&gt;.\n'
        "BULLET::::2. A <ins>new</ins> <q>word</q>. <section begin=x/>\n__NOTOC__\n"
        "The river (, ) flows (). Call main(). ().\n<templatestyles src=x />\n"
    )
    spaces = "y" + " " * 200_000 + "z"  # Would take minutes in quadratic time.
    text += spaces + "\n"
    items = helpers.read_text(
        tmp_path, "wikiextractor", f'<doc id="1" title="T">\nT\n\n{text}</doc>\n'
    )
    assert helpers.paragraphs(items) == [
        [
            "T",
            "History",
            "See B.",
            "A new word.",
            "The river flows. Call main().",
            spaces,
        ]
    ]


def test_sample_has_the_articles_of_a_plain_loop():
    folder = sample_data("enwiki_wikiextractor_2015")
    items = list(readers.get_reader("wikiextractor").read_input(folder))
    articles = {item.location.split(",")[0][7:]: item for item in items}
    expected = {}
    for path in sorted(folder.rglob("wiki_*")):
        for block in path.read_text("utf-8").split("<doc ")[1:]:
            header, _, body = block.partition("\n")
            lines = body.removesuffix("\n").removesuffix("</doc>").split("\n")
            expected[header.split('"')[1]] = list(filter(None, map(str.strip, lines)))
    assert len(items) == len(expected) == 6514
    num_compared = num_lines = num_paragraphs = 0
    for number, lines in expected.items():
        if len(lines) < 2:
            assert articles[number].reason == "empty_document"
            continue
        paragraphs = list(articles[number].paragraphs)
        num_lines += len(lines)
        num_paragraphs += len(paragraphs)
        marks = ("&", "<", "__", "( ", "()", "(,", "(;", "(:")
        if not any(mark in line for line in lines for mark in marks):
            assert paragraphs == lines
            num_compared += 1
    assert num_compared > 3500
    # The rest differs by marks only; lines of nothing but marks are gone.
    assert 0.99 * num_lines < num_paragraphs < num_lines


WIKITEXT = """\
 \n = Robert <unk> = \n \n He is an actor , born in 1 @,@ 980 . \n He acts . \n \n\
 = = Career = = \n \n = = = 2000 = = = \n \n Much happened . \n \n \n\
 = E = m c 2 = \n \n It is a formula . \n"""


def test_articles_with_headings_as_paragraphs(tmp_path):
    first, second = helpers.read_text(tmp_path, "wikitext", WIKITEXT)
    assert first == readers.Document(
        paragraphs=(
            "= Robert <unk> =",
            "He is an actor , born in 1 @,@ 980 .",
            "He acts .",
            "= = Career = =",
            "= = = 2000 = = =",
            "Much happened .",
        ),
        source="file",
        location="line 2",
        title="Robert <unk>",
    )
    assert second.paragraphs == ("= E = m c 2 =", "It is a formula .")
    assert (second.location, second.title) == ("line 14", "E = m c 2")


def test_documents_without_an_end_and_stray_text_cost_no_other(tmp_path):
    text = "".join(TWO.splitlines(keepends=True)[:10])
    document, rejected = helpers.read_text(tmp_path, "wikiextractor", text)
    assert document.title == "Anarchism"
    assert rejected.reason == "truncated_document"
    assert rejected.location == "doc id=25, line 9"
    assert "found the end of the file" in rejected.message
    text = TWO.replace("</doc>\n", "", 1)
    rejected, document = helpers.read_text(tmp_path, "wikiextractor", text)
    assert rejected.location == "doc id=12, line 1"
    assert "found `<doc` in line 8" in rejected.message
    assert document.location == "doc id=25, line 8"
    text = TWO.replace("</doc>\n", "</doc>\nstray\nmore\n\nlines\n", 1) + "end\n"
    _, stray, _, end = helpers.read_text(tmp_path, "wikiextractor", text)
    assert stray.reason == end.reason == "text_outside_document"
    assert (stray.location, end.location) == ("line 9", "line 19")
