"""WikiText: where articles begin."""

import pytest

from data_pipelines import readers
from tests.data_pipelines.readers import helpers
from tests.sample_data import sample_data

TEXT = """\
 \n = Robert <unk> = \n \n He is an actor , born in 1 @,@ 980 . \n He acts . \n \n\
 = = Career = = \n \n = = = 2000 = = = \n \n Much happened . \n \n \n\
 = E = m c 2 = \n \n It is a formula . \n"""


def read(folder, text):
    return helpers.read_text(folder, "wikitext", text)


def test_articles_with_headings_as_paragraphs(tmp_path):
    first, second = read(tmp_path, TEXT)
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


@pytest.mark.parametrize(
    "before, after",
    [("Some text . \n", " \n"), (" \n", "Some text . \n"), ("a \n", "b \n")],
)
def test_formula_is_no_title(tmp_path, before, after):
    formula = " = 1 rad / s × 2 = \n"
    text = f" \n = A = \n \n Text . \n{before}{formula}{after} \n = B = \n \n Text . \n"
    first, second = read(tmp_path, text)
    assert (first.title, second.title) == ("A", "B")
    assert formula.strip() in first.paragraphs


def test_titles_at_the_edges_of_the_file(tmp_path):
    document, rejected = read(tmp_path, " = A = \n \n Text . \n \n = B = ")
    assert document.title == "A"
    assert (rejected.reason, rejected.location) == ("empty_document", "line 5")


def test_text_before_the_first_title_is_a_document(tmp_path):
    first, second = read(tmp_path, "Some text . \n \n = A = \n \n Text . \n")
    assert (first.paragraphs, first.title) == (("Some text .",), "")
    assert second.title == "A"


def test_blank_lines_without_the_space(tmp_path):
    text = TEXT.replace("\n \n", "\n\n")
    assert "\n\n" in text
    assert read(tmp_path, text) == read(tmp_path, TEXT)


def test_bad_bytes_cost_one_document(tmp_path):
    data = TEXT.encode().replace(b"acts", b"\xffcts")
    rejected, document = helpers.read_bytes(tmp_path, "wikitext", data)
    assert (rejected.reason, rejected.location) == ("not_utf8", "line 2")
    assert "line 5, byte 5 of the line" in rejected.message
    assert document.title == "E = m c 2"


@pytest.mark.parametrize("name", ["wikitext-2", "wikitext-103"])
def test_sample_has_60_articles_and_loses_no_word(name):
    folder = sample_data(name)
    items = list(readers.get_reader("wikitext").read_input(folder))
    text = (folder / "wiki.valid.tokens").read_text("utf-8")
    lines = text.split("\n")
    starts = [
        line.strip()
        for before, line, after in zip(lines, lines[1:], lines[2:], strict=False)
        if line.startswith(" = ")
        and not line.startswith(" = = ")
        and not before.strip()
        and not after.strip()
    ]
    paragraphs = helpers.paragraphs(items)
    assert [document[0] for document in paragraphs] == starts
    assert len(items) == 60
    words = [
        word for document in paragraphs for text in document for word in text.split()
    ]
    assert words == text.split()
    num_lines = sum(bool(line.strip()) for line in lines)
    if name == "wikitext-2":
        # The published count: all words, and an `<eos>` for each line of the file.
        assert len(words) + text.count("\n") == 217_646
    assert sum(map(len, paragraphs)) == num_lines
