"""Plain text: paragraphs of wrapped and unwrapped files."""

import gzip

import pytest

from data_pipelines import readers
from data_pipelines.readers import plain_text
from tests.data_pipelines.readers import helpers
from tests.sample_data import sample_data

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


@pytest.mark.parametrize("hard_wrapped", ["auto", "yes"])
def test_wrapped_lines_are_joined(tmp_path, hard_wrapped):
    assert read(tmp_path, WRAPPED, hard_wrapped=hard_wrapped) == WRAPPED_PARAGRAPHS


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_other_line_ends_separate_too(tmp_path, line_end):
    assert read(tmp_path, WRAPPED.replace("\n", line_end)) == WRAPPED_PARAGRAPHS


def test_other_separators_are_no_line_ends(tmp_path):
    text = "One\u2028two\x85three\x0bfour."
    assert read(tmp_path, text) == [text]


@pytest.mark.parametrize(
    "lines, expected",
    [
        pytest.param(["a " * 30, "b " * 30, "", "c"], True, id="wrapped"),
        pytest.param(["a " * 300, "b " * 300, "", "c"], False, id="long lines"),
        pytest.param(["a " * 300, "", "b " * 300], True, id="no lines to join"),
        pytest.param(["a " * 30] * 9 + ["b " * 30], True, id="one paragraph"),
        pytest.param(
            [SENTENCE * (1 + number % 4) for number in range(20)],
            False,
            id="a sentence a line",
        ),
        pytest.param(["short", "a " * 30, "tiny"], False, id="uneven, no blank line"),
        pytest.param(
            ["b " * 60] + ["a " * 30] * 10 + ["", "c"], True, id="one in ten is long"
        ),
        pytest.param(
            ["b " * 60] * 2 + ["a " * 30] * 9 + ["", "c"], False, id="two in ten"
        ),
        pytest.param(
            ["a " * 30] * 3 + ["b " * 60, "", "b " * 60, "", "c"],
            True,
            id="long ones that nothing follows",
        ),
        pytest.param(["", "", "a " * 30, "b", "", ""], True, id="blank edges"),
        pytest.param([], True, id="no lines"),
    ],
)
def test_wrapping_is_told_by_the_lines_that_others_follow(lines, expected):
    assert plain_text.is_hard_wrapped([line.strip() for line in lines]) is expected


def test_blank_lines_at_the_edges_do_not_separate(tmp_path):
    # Without them the file has no blank lines, and its lines are uneven.
    text = "\n\nA short line.\n" + SENTENCE + "\nEnd.\n\n"
    assert read(tmp_path, text) == ["A short line.", SENTENCE.strip(), "End."]


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


def test_each_line_is_a_document(tmp_path):
    items = helpers.read_text(tmp_path, "plain_text", MANY, documents="lines")
    assert helpers.paragraphs(items) == [["One. It goes on."], ["Two."], ["Three."]]
    assert [item.location for item in items] == ["line 2", "line 3", "line 6"]


@pytest.mark.parametrize("documents", ["blank_lines", "lines"])
@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_other_line_ends_separate_documents_too(tmp_path, documents, line_end):
    plain = helpers.read_text(tmp_path, "plain_text", MANY, documents=documents)
    text = MANY.replace("\n", line_end)
    assert helpers.read_text(tmp_path, "plain_text", text, documents=documents) == plain


@pytest.mark.parametrize("documents", ["blank_lines", "lines"])
def test_a_bad_document_costs_no_other(tmp_path, documents):
    data = b"One.\n\nsev\xe8n\n\nThree.\n\na\0b"
    items = helpers.read_bytes(tmp_path, "plain_text", data, documents=documents)
    assert helpers.reasons(items) == ["", "not_utf8", "", "nul_byte"]
    assert [item.location for item in items] == ["line 1", "line 3", "line 5", "line 7"]
    assert "line 3, byte 4 of the line (offset 9)" in items[1].message


@pytest.mark.parametrize("documents", ["blank_lines", "lines"])
def test_a_document_that_is_too_long_costs_no_other(tmp_path, documents):
    options = {"documents": documents, "max_document_megabytes": 30e-6}
    text = f"One.\n\n{'word ' * 20}\n\n{' ' * 2000}word\n\nTwo.\n"
    items = helpers.read_text(tmp_path, "plain_text", text, **options)
    assert helpers.reasons(items) == ["", *["too_long_document"] * 2, ""]
    assert [item.location for item in items] == ["line 1", "line 3", "line 5", "line 7"]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"hard_wrapped": "maybe"}, r"`hard_wrapped`.*'maybe'"),
        ({"documents": "pages"}, r"`documents` must be one of .*'pages'"),
        ({"documents": "lines", "hard_wrapped": "yes"}, "`hard_wrapped` must not"),
    ],
)
def test_documents_of_other_kinds_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        readers.get_reader("plain_text", **options)


class TestGutenberg:
    def paragraphs(self, name):
        """Paragraphs by the book: blank lines between, words by white space."""
        text = sample_data("gutenberg", name).read_bytes().decode()
        blocks, block = [], []
        for line in [*text.replace("\r\n", "\n").split("\n"), ""]:
            if line.strip():
                block += line.split()
            elif block:
                blocks.append(block)
                block = []
        return blocks

    def test_eight_texts_are_read_and_one_is_not_utf8(self):
        folder = sample_data("gutenberg")
        items = list(readers.get_reader("plain_text").read_input(folder))
        assert len(items) == 9
        (rejected,) = [item for item in items if hasattr(item, "reason")]
        assert (rejected.source, rejected.reason) == ("chesterton-ball.txt", "not_utf8")
        data = (folder / "chesterton-ball.txt").read_bytes()
        index = next(index for index, byte in enumerate(data) if byte > 127)
        line = data[:index].count(b"\n") + 1
        assert f"0x{data[index]:02X}" in rejected.message
        assert f"line {line}, " in rejected.message
        assert f"offset {index})" in rejected.message

    @pytest.mark.parametrize(
        "name",
        [
            "austen-emma.txt",
            "melville-moby_dick.txt",  # CRLF
            "whitman-leaves.txt",  # verse
            "blake-poems.txt",  # blank lines hold a space
        ],
    )
    def test_paragraphs_are_the_blocks_between_blank_lines(self, name):
        path = sample_data("gutenberg", name)
        (document,) = readers.get_reader("plain_text").read_input(path)
        words = [paragraph.split() for paragraph in document.paragraphs]
        assert words == self.paragraphs(name)


CARRIAGE = (
    "It was late when the carriage at last\nreached the gate, and nobody\n"
    "came to open. We waited.\n\nThen it rained, as it does\nhere in May.\n"
)


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
def test_texts_are_read_by_the_format_of_the_name(
    tmp_path, caplog, name, text, expected
):
    for compress, suffix in ((bytes, ""), (gzip.compress, ".gz")):
        path = tmp_path / (name + suffix)
        path.write_bytes(compress(text.encode()))
        documents = readers.read_texts(path)
        assert [list(document.paragraphs) for document in documents] == expected
    assert not caplog.messages


def test_hard_wrapped_texts_are_joined_with_a_warning(tmp_path, caplog):
    path = tmp_path / "a.txt"
    path.write_text(CARRIAGE)
    (document,) = readers.read_texts(str(path))
    assert len(document.paragraphs) == 2
    assert document.paragraphs[1] == "Then it rained, as it does here in May."
    assert "a.txt: its lines look hard-wrapped" in caplog.text
    documents = readers.read_texts(path, "plain_text", documents="blank_lines")
    assert [len(document.paragraphs) for document in documents] == [3, 2]


def test_texts_that_cannot_be_read_are_named_with_their_place(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"One.\n\nsev\xe8n.\n")
    with pytest.raises(ValueError, match=r"a\.txt, line 3: Expected UTF-8, found"):
        list(readers.read_texts(path))
    assert len(list(readers.read_texts(path, encoding="cp1252"))) == 2
    with pytest.raises(ValueError, match=r"none\.txt, whole file: .*No such file"):
        list(readers.read_texts(tmp_path / "none.txt"))
