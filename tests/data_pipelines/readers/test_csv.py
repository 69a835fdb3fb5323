"""CSV and TSV: columns, quotation marks, and rows that do not fit."""

import gzip
import tracemalloc

import pytest

from data_pipelines import readers
from tests.data_pipelines.readers import helpers
from tests.sample_data import sample_data

TABLE = """\
id,title,text
1,One,"A sentence, with a comma.
\n  And a ""second"" paragraph."
2,Two,Plain text.
"""


def read(folder, text, name="file.csv", **options):
    return helpers.read_bytes(folder, "csv", text.encode(), name, **options)


def test_quoted_fields_hold_delimiters_marks_and_line_ends(tmp_path):
    items = read(tmp_path, TABLE)
    assert helpers.paragraphs(items) == [
        ["A sentence, with a comma.", 'And a "second" paragraph.'],
        ["Plain text."],
    ]
    assert [item.title for item in items] == ["One", "Two"]
    assert [item.location for item in items] == ["lines 2 to 4", "line 5"]


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_other_line_ends_make_the_same_rows(tmp_path, line_end):
    assert read(tmp_path, TABLE.replace("\n", line_end)) == read(tmp_path, TABLE)


@pytest.mark.parametrize(
    "name, options, delimiter",
    [
        ("a.tsv", {}, "\t"),
        ("a.tab", {}, "\t"),
        ("a.TSV.GZ", {}, "\t"),
        ("a.txt", {}, ","),
        ("a.csv", {"delimiter": "semicolon"}, ";"),
        ("a.tsv", {"delimiter": "|"}, "|"),
    ],
)
def test_the_delimiter_is_of_the_name_or_the_option(tmp_path, name, options, delimiter):
    data = f"id{delimiter}text\n1{delimiter}It is so.".encode()
    data = gzip.compress(data) if name.endswith("GZ") else data
    (document,) = helpers.read_bytes(tmp_path, "csv", data, name, **options)
    assert document.paragraphs == ("It is so.",)


def test_malformed_rows_are_rejected_with_their_lines(tmp_path):
    text = 'id,text\n1,One.\n2\n\n3,"Three" four.\n5,"F\nive.",too much\n6,Six.\n'
    items = read(tmp_path, text)
    bad = [(item.reason, item.location) for item in items if hasattr(item, "reason")]
    assert bad == [
        ("malformed_row", "line 3"),
        ("malformed_row", "line 5"),
        ("malformed_row", "lines 6 to 7"),
    ]
    assert "Expected 2 fields, as in the first row, found 1" in items[1].message
    assert "quotes=false" in items[2].message
    assert [item.paragraphs for item in items if item not in items[1:4]] == [
        ("One.",),
        ("Six.",),
    ]


def test_a_row_that_cannot_be_decoded_is_rejected_alone(tmp_path):
    data = b'id,text\n1,"First\nsev\xe8n\nlines"\n2,Two.\n3,a\0b\n4,\n'
    items = helpers.read_bytes(tmp_path, "csv", data, "a.csv")
    assert helpers.reasons(items) == ["not_utf8", "", "nul_byte", "empty_document"]
    assert items[0].location == "lines 2 to 4"
    assert "line 3, byte 4" in items[0].message
    assert "encoding=cp1252" in items[0].message


def test_a_quotation_mark_that_nothing_closes_ends_the_file(tmp_path):
    text = 'text\nOne.\n"Two.\nThree.\n' + "More.\n" * 50
    items = read(tmp_path, text)
    assert helpers.reasons(items) == ["", "unclosed_quote"]
    assert (items[1].location, items[1].lost_of_file) == ("lines 3 to 54", "rest")
    items = read(tmp_path, text, max_document_megabytes=40e-6)
    assert items[1].location == "lines 3 to 9"
    found = read(tmp_path, text, quotes="false")
    assert helpers.paragraphs(found)[:2] == [["One."], ['"Two.']]
    assert len(found) == 53


def test_columns_are_found_by_name_or_number(tmp_path):
    items = read(tmp_path, TABLE, text_field="title", title_field="id")
    assert [(item.title, item.paragraphs) for item in items] == [
        ("1", ("One",)),
        ("2", ("Two",)),
    ]
    items = read(tmp_path, "1,One.\n2,Two.\n", header="false", text_field="2")
    assert helpers.paragraphs(items) == [["One."], ["Two."]]
    (item,) = read(tmp_path, TABLE, text_field="body")
    assert (item.reason, item.lost_of_file) == ("missing_text_field", "whole")
    assert "['id', 'title', 'text']" in item.message
    (item,) = read(tmp_path, "text,text\na,b\n")
    assert item.reason == "ambiguous_text_field"


def test_a_line_that_is_too_long_costs_one_row(tmp_path):
    text = f"text\nOne.\n{'word ' * 50}\nTwo.\n"
    items = read(tmp_path, text, max_document_megabytes=100e-6)
    assert helpers.reasons(items) == ["", "too_long_document", ""]
    assert items[1].location == "line 3"


def test_long_fields_are_read(tmp_path):
    text = "word " * 100_000
    assert helpers.paragraphs(read(tmp_path, f'text\n"{text}"\n')) == [[text.strip()]]


def test_memory_is_bounded_by_the_row(tmp_path):
    path = tmp_path / "file.csv"
    path.write_text("id,text\n" + f'1,"{"A sentence. " * 20}\nMore."\n' * 40_000)
    tracemalloc.start()
    try:
        count = sum(1 for _ in readers.get_reader("csv").read(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 40_000
    assert peak < path.stat().st_size / 4, "most of it is the buffer"


@pytest.mark.parametrize("delimiter", ["ab", '"', "newline"])
def test_a_wrong_delimiter_is_an_error(delimiter):
    with pytest.raises(ValueError, match=r"`delimiter` must be a character or one of"):
        readers.get_reader("csv", delimiter=delimiter)


def test_glue_tables_have_their_rows():
    path = sample_data("glue", "SST-2", "dev.tsv")
    reader = readers.get_reader("csv", text_field="sentence", quotes=False)
    items = list(reader.read(path))
    lines = path.read_text(encoding="utf-8").split("\n")[1:]
    expected = [line.split("\t")[0].strip() for line in lines if line]
    assert [list(item.paragraphs) for item in items] == [[text] for text in expected]
    assert len(items) == 872
