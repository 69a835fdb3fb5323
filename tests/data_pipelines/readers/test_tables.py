"""CSV and TSV, Parquet: rows, and what is wrong with them."""

import gzip

import pyarrow as pa
import pyarrow.parquet
import pytest

from data_pipelines import readers
from tests.data_pipelines.readers import helpers

TABLE = """\
id,title,text
1,One,"A sentence, with a comma.
\n  And a ""second"" paragraph."
2,Two,Plain text.
"""


def read_csv(folder, text, name="file.csv", **options):
    return helpers.read_bytes(folder, "csv", text.encode(), name, **options)


def test_quoted_fields_hold_delimiters_marks_and_line_ends(tmp_path):
    items = read_csv(tmp_path, TABLE)
    assert helpers.paragraphs(items) == [
        ["A sentence, with a comma.", 'And a "second" paragraph.'],
        ["Plain text."],
    ]
    assert [item.title for item in items] == ["One", "Two"]
    assert [item.location for item in items] == ["lines 2 to 4", "line 5"]


@pytest.mark.parametrize(
    "name, options, delimiter",
    [
        ("a.tsv", {}, "\t"),
        ("a.TSV.GZ", {}, "\t"),
        ("a.txt", {}, ","),
        ("a.csv", {"delimiter": "tab"}, "\t"),
        ("a.tsv", {"delimiter": "|"}, "|"),
    ],
)
def test_the_delimiter_is_of_the_name_or_the_option(tmp_path, name, options, delimiter):
    data = f"id{delimiter}text\n1{delimiter}It is so.".encode()
    data = gzip.compress(data) if name.endswith("GZ") else data
    (document,) = helpers.read_bytes(tmp_path, "csv", data, name, **options)
    assert document.paragraphs == ("It is so.",)


ROWS = {
    "title": ["A  title", None, "", "D"],
    "text": ["One.\r\n\n Two. ", "Ünë 漢", "\n \n", None],
}
EXPECTED = [
    (("One.", "Two."), "A title", "row 1"),
    (("Ünë 漢",), "", "row 2"),
    ("empty_document", "", "row 3"),
    ("text_not_a_string", "", "row 4"),
]


def seen(items):
    return [
        (item.reason, "", item.location)
        if isinstance(item, readers.RejectedDocument)
        else (item.paragraphs, item.title, item.location)
        for item in items
    ]


def read_parquet(path, **options):
    return list(readers.get_reader("parquet", **options).read(path))


def test_bad_rows_are_rejected_with_their_lines(tmp_path):
    text = 'id,text\n1,One.\n2\n\n3,"Three" four.\n5,"F\nive.",too much\n6,Six.\n'
    items = read_csv(tmp_path, text)
    assert helpers.reasons(items) == ["", *["malformed_row"] * 3, ""]
    assert [item.location for item in items] == [
        *("line 2", "line 3", "line 5", "lines 6 to 7", "line 8")
    ]
    assert "Expected 2 fields, as in the first row, found 1" in items[1].message
    assert "quotes=false" in items[2].message
    data = b'id,text\n1,"First\nsev\xe8n\nlines"\n2,Two.\n3,a\0b\n4,\n'
    items = helpers.read_bytes(tmp_path, "csv", data, "a.csv")
    assert helpers.reasons(items) == ["not_utf8", "", "nul_byte", "empty_document"]
    assert items[0].location == "lines 2 to 4"
    assert "line 3, byte 4" in items[0].message


def test_a_quotation_mark_that_nothing_closes_ends_the_file(tmp_path):
    text = 'text\nOne.\n"Two.\nThree.\n' + "More.\n" * 50
    items = read_csv(tmp_path, text)
    assert helpers.reasons(items) == ["", "unclosed_quote"]
    assert (items[1].location, items[1].ends_file) == ("line 3", True)
    found = read_csv(tmp_path, text, quotes="false")
    assert helpers.paragraphs(found)[:2] == [["One."], ['"Two.']]
    assert len(found) == 53


def test_columns_are_found_by_name(tmp_path):
    items = read_csv(tmp_path, TABLE, text_field="title", title_field="id")
    assert [(item.title, item.paragraphs) for item in items] == [
        ("1", ("One",)),
        ("2", ("Two",)),
    ]
    for text in (TABLE, "body,body\na,b\n"):
        (item,) = read_csv(tmp_path, text, text_field="body")
        assert (item.reason, item.ends_file) == ("missing_text_field", True)


def write_parquet(table, path):
    pa.parquet.write_table(table, path, row_group_size=2)


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_rows_are_documents(tmp_path, kind):
    texts = ROWS["text"]
    if kind == pa.binary():
        texts = [text if text is None else text.encode() for text in texts]
    table = pa.table({"n": [1, 2, 3, 4], "title": ROWS["title"]})
    table = table.append_column("text", pa.array(texts).cast(kind))
    write_parquet(table, tmp_path / "rows.parquet")
    assert seen(read_parquet(tmp_path / "rows.parquet")) == EXPECTED
    write_parquet(pa.table({"text": [b"sev\xe8n"]}), tmp_path / "rows.parquet")
    (item,) = read_parquet(tmp_path / "rows.parquet")
    assert item.message.endswith("at line 1, byte 4 of the line.")  # No `encoding`.


def test_text_may_be_nested_and_a_list_of_paragraphs(tmp_path):
    rows = [
        None,
        {"text": ["One.\nTwo.", "Three."], "meta": {"title": "T"}},
        {"text": [None], "meta": None},
        {"text": [], "meta": {"title": None}},
    ]
    path = tmp_path / "rows.parquet"
    write_parquet(pa.table({"content": rows, "id": [1, 2, 3, 4]}), path)
    fields = {"text_field": "content.text", "title_field": "content.meta.title"}
    null, *items = read_parquet(path, **fields)
    assert null.reason == "text_not_a_string"
    assert items[0].paragraphs == ("One.", "Two.", "Three.")
    assert items[0].title == "T"
    reasons = ["text_not_a_string", "empty_document"]
    assert [item.reason for item in items[1:]] == reasons
    _, *items = read_parquet(path, text_field="content.body")
    assert {item.reason for item in items} == {"missing_text_field"}
    write_parquet(pa.table({"content": rows[1:], "id": [2, 3, 4]}), path)
    (item,) = read_parquet(path, text_field="body")
    assert (
        "found only ['content', 'content.meta', 'content.text', 'id']" in item.message
    )


def test_damaged_files_are_rejected(tmp_path):
    path = tmp_path / "file.parquet"
    write_parquet(pa.table({"text": ["Some text."] * 9}), path)
    data = path.read_bytes()
    damaged = b"PAR1" + b"\xff" * 36 + data[40:]
    for content in (data[:-40], damaged, b"", b"no table at all, but a text\n" * 4):
        path.write_bytes(content)
        (item,) = read_parquet(path)
        assert item.reason in ("damaged_table", "unreadable_file")
        assert item.ends_file
    for unreadable in (tmp_path, tmp_path / "none"):
        assert [item.reason for item in read_parquet(unreadable)] == ["unreadable_file"]
