"""Plain text: paragraphs of wrapped and unwrapped files."""

import gzip

import pytest

from data_pipelines import readers
from data_pipelines.readers import plain_text
from tests.data_pipelines.readers import helpers

WRAPPED = """\
It was a bright cold day in April, and the clocks
  were striking thirteen; a well-
known fact.

  Nobody   minded.
 \t
The end.
"""
WRAPPED_PARAGRAPHS = [
    "It was a bright cold day in April, and the clocks were striking thirteen; a "
    "well- known fact.",
    "Nobody   minded.",
    "The end.",
]
SENTENCE = "One sentence a line, and this one goes on for quite a while longer. "


def read(folder, text, **options):
    (found,) = helpers.paragraphs(
        helpers.read_text(folder, "plain_text", text, **options)
    )
    return found


def test_every_whole_line_before_damage_is_a_document(tmp_path):
    data = gzip.compress(b"one\ntwo\nthree\n") + bytes(512)
    *kept, _ = helpers.read_bytes(tmp_path, "plain_text", data, documents="lines")
    assert helpers.paragraphs(kept) == [["one"], ["two"], ["three"]]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("hard_wrapped", ["auto", "yes"])
def test_wrapped_lines_are_joined(tmp_path, hard_wrapped, line_end):
    text = WRAPPED.replace("\n", line_end)
    assert read(tmp_path, text, hard_wrapped=hard_wrapped) == WRAPPED_PARAGRAPHS
    # Other separators are no line ends.
    text = "One\u2028two\x85three\x0bfour."
    assert read(tmp_path, text) == [text]


@pytest.mark.parametrize(
    "lines, expected",
    [
        (["a " * 30, "b " * 30, "", "c"], True),
        (["a " * 300, "b " * 300, "", "c"], False),
        (["a " * 300, "", "b " * 300], True),  # No lines to join.
        (["a " * 30] * 9 + ["b " * 30], True),  # One paragraph.
        ([SENTENCE * (1 + number % 4) for number in range(20)], False),
        (["short", "a " * 30, "tiny"], False),  # Uneven, without blank lines.
        (["b " * 60] + ["a " * 30] * 10 + ["", "c"], True),  # One in ten is long.
        (["b " * 60] * 2 + ["a " * 30] * 9 + ["", "c"], False),  # Two in ten.
        # Long lines that no line follows.
        (["a " * 30] * 3 + ["b " * 60, "", "b " * 60, "", "c"], True),
        (["", "", "a " * 30, "b", "", ""], True),
        # A list, and lines of different lengths.
        (["apples", "pears and plums", "nuts", "", "bread", "butter"], False),
        (["a " * 25, "b " * 22, "c " * 45, "d", "", "e"], False),
        ([], True),
    ],
)
def test_hard_wrapping_is_detected(lines, expected):
    assert plain_text.is_hard_wrapped([line.strip() for line in lines]) is expected


# --- Many documents a file ------------------------------------------------------

MANY = """\

One. It goes on.
  Two.
 \t

Three.
"""


def test_blank_lines_separate_documents(tmp_path):
    items = helpers.read_text(tmp_path, "plain_text", MANY, documents="blank_lines")
    assert helpers.paragraphs(items) == [["One. It goes on.", "Two."], ["Three."]]
    assert [item.location for item in items] == ["line 2", "line 6"]
    options = {"documents": "blank_lines", "hard_wrapped": "yes"}
    items = helpers.read_text(tmp_path, "plain_text", MANY, **options)
    assert helpers.paragraphs(items) == [["One. It goes on. Two."], ["Three."]]


@pytest.mark.parametrize(
    "name, text, expected",
    [
        # A paragraph a line, and a blank line after each document.
        ("a.txt", "One. Two.\nThree.\n\nFour.\n", [["One. Two.", "Three."], ["Four."]]),
        ("a.md", "# One\n\nTwo *three*\nfour.", [["One", "Two three four."]]),
        ("a.jsonl", '{"text": "One.\\nTwo."}', [["One.", "Two."]]),
        ("a.csv", "text\nOne.\nTwo.", [["One."], ["Two."]]),
        ("empty.txt", "", []),
    ],
)
def test_texts_are_read_by_the_format_of_the_name(tmp_path, name, text, expected):
    for compress, suffix in ((bytes, ""), (gzip.compress, ".gz")):
        path = tmp_path / (name + suffix)
        path.write_bytes(compress(text.encode()))
        documents = readers.read_texts(path)
        assert [list(document.paragraphs) for document in documents] == expected


def test_texts_that_cannot_be_read_are_named_with_their_place(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"One.\n\nsev\xe8n.\n")
    with pytest.raises(ValueError, match=r"a\.txt, line 3: Expected UTF-8, found"):
        list(readers.read_texts(path))
    assert len(list(readers.read_texts(path, encoding="cp1252"))) == 2
    with pytest.raises(ValueError, match=r"none\.txt, whole file: .*No such file"):
        list(readers.read_texts(tmp_path / "none.txt"))


@pytest.mark.parametrize("documents", ["blank_lines", "lines"])
def test_a_bad_document_costs_no_other(tmp_path, documents):
    data = b"One.\n\nsev\xe8n\n\nThree.\n\na\0b"
    items = helpers.read_bytes(tmp_path, "plain_text", data, documents=documents)
    assert helpers.reasons(items) == ["", "not_utf8", "", "nul_byte"]
    assert [item.location for item in items] == ["line 1", "line 3", "line 5", "line 7"]
    assert "line 3, byte 4 of the line" in items[1].message
