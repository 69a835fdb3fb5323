"""CSV and TSV, Parquet and Arrow: rows, and what is wrong with them."""

import gzip

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
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
    items = read_csv(tmp_path, text)
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
    items = read_csv(tmp_path, text)
    assert helpers.reasons(items) == ["", "unclosed_quote"]
    assert (items[1].location, items[1].lost_of_file) == ("lines 3 to 54", "rest")
    items = read_csv(tmp_path, text, max_document_megabytes=40e-6)
    assert items[1].location == "lines 3 to 9"
    found = read_csv(tmp_path, text, quotes="false")
    assert helpers.paragraphs(found)[:2] == [["One."], ['"Two.']]
    assert len(found) == 53


def test_columns_are_found_by_name_or_number(tmp_path):
    items = read_csv(tmp_path, TABLE, text_field="title", title_field="id")
    assert [(item.title, item.paragraphs) for item in items] == [
        ("1", ("One",)),
        ("2", ("Two",)),
    ]
    items = read_csv(tmp_path, "1,One.\n2,Two.\n", header="false", text_field="2")
    assert helpers.paragraphs(items) == [["One."], ["Two."]]
    (item,) = read_csv(tmp_path, TABLE, text_field="body")
    assert (item.reason, item.lost_of_file) == ("missing_text_field", "whole")
    assert "['id', 'title', 'text']" in item.message
    (item,) = read_csv(tmp_path, "text,text\na,b\n")
    assert item.reason == "ambiguous_text_field"


def test_a_line_that_is_too_long_costs_one_row(tmp_path):
    text = f"text\nOne.\n{'word ' * 50}\nTwo.\n"
    items = read_csv(tmp_path, text, max_document_megabytes=100e-6)
    assert helpers.reasons(items) == ["", "too_long_document", ""]
    assert items[1].location == "line 3"


def test_glue_tables_have_their_rows():
    path = sample_data("glue", "SST-2", "dev.tsv")
    reader = readers.get_reader("csv", text_field="sentence", quotes=False)
    items = list(reader.read(path))
    lines = path.read_text(encoding="utf-8").split("\n")[1:]
    expected = [line.split("\t")[0].strip() for line in lines if line]
    assert [list(item.paragraphs) for item in items] == [[text] for text in expected]
    assert len(items) == 872


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


def write_parquet(table, path):
    pa.parquet.write_table(table, path, row_group_size=2)


def write_file(table, path):
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


def write_stream(table, path):
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


def write_feather(table, path):
    pa.feather.write_feather(table, str(path), compression="lz4")


WRITERS = {
    ".parquet": write_parquet,
    ".arrow": write_stream,
    ".ipc": write_file,
    ".feather": write_feather,
}


def seen(items):
    return [
        (item.reason, "", item.location)
        if isinstance(item, readers.RejectedDocument)
        else (item.paragraphs, item.title, item.location)
        for item in items
    ]


def read_parquet(path, **options):
    return list(readers.get_reader("parquet", **options).read(path))


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_rows_are_documents_in_every_kind_of_file(tmp_path, suffix, kind):
    texts = ROWS["text"]
    if kind == pa.binary():
        texts = [text if text is None else text.encode() for text in texts]
    table = pa.table({"n": [1, 2, 3, 4], "title": ROWS["title"]})
    table = table.append_column("text", pa.array(texts).cast(kind))
    path = tmp_path / f"rows{suffix}"
    WRITERS[suffix](table, path)
    assert seen(read_parquet(path)) == EXPECTED
    # Told by the first bytes, not by the name.
    assert seen(read_parquet(path.rename(tmp_path / "file"))) == EXPECTED


def test_missing_column_names_those_there_are(tmp_path):
    path = tmp_path / "file.parquet"
    write_parquet(pa.table({"body": ["a"], "id": [1]}), path)
    (item,) = read_parquet(path)
    assert item.reason == "missing_text_field"
    assert "found only ['body', 'id']" in item.message
    (item,) = read_parquet(path, text_field="id")
    assert item.reason == "text_not_a_string"
    assert "found int64" in item.message


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".ipc"])
def test_columns_of_one_name(tmp_path, suffix):
    texts, others = pa.array(["a", "b"]), pa.array(["c", "d"])
    path = tmp_path / f"rows{suffix}"
    WRITERS[suffix](pa.table([texts, others], names=["text", "text"]), path)
    (item,) = read_parquet(path)
    assert item.reason == "ambiguous_text_field"
    assert "found 2 of that name" in item.message
    names = ["text", "title", "title"]
    WRITERS[suffix](pa.table([texts, others, others], names=names), path)
    assert [(item.paragraphs, item.title) for item in read_parquet(path)] == [
        (("a",), ""),
        (("b",), ""),
    ]


@pytest.mark.parametrize("suffix", WRITERS)
def test_text_may_be_nested_and_a_list_of_paragraphs(tmp_path, suffix):
    rows = [
        {"text": ["One.\nTwo.", "Three."], "meta": {"title": "T"}},
        None,
        {"text": [None], "meta": None},
        {"text": [], "meta": {"title": None}},
    ]
    path = tmp_path / f"rows{suffix}"
    WRITERS[suffix](pa.table({"content": rows, "id": [1, 2, 3, 4]}), path)
    fields = {"text_field": "content.text", "title_field": "content.meta.title"}
    items = list(readers.get_reader("parquet", **fields).read(path))
    assert items[0].paragraphs == ("One.", "Two.", "Three.")
    assert items[0].title == "T"
    assert [item.reason for item in items[1:]] == [
        *("text_not_a_string", "text_not_a_string", "empty_document")
    ]
    (item,) = readers.get_reader("parquet", text_field="content.body").read(path)
    assert item.reason == "missing_text_field"


@pytest.mark.parametrize("suffix", WRITERS)
def test_truncated_file_is_rejected_after_what_precedes(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    WRITERS[suffix](pa.table({"text": ["Some text."] * 9}), path)
    path.write_bytes(path.read_bytes()[:-40])
    *before, last = read_parquet(path)
    assert last.reason == "damaged_table"
    assert "What precedes was read" in last.message
    # A stream has no table of contents at its end.
    assert len(before) == {".arrow": 6}.get(suffix, 0)


def test_damage_inside_is_rejected(tmp_path):
    path = tmp_path / "file.parquet"
    write_parquet(pa.table({"text": ["Some text."] * 9}), path)
    data = bytearray(path.read_bytes())
    data[4:40] = b"\xff" * 36
    path.write_bytes(data)
    assert [item.reason for item in read_parquet(path)] == ["damaged_table"]
    path.write_bytes(b"")
    assert [item.reason for item in read_parquet(path)] == ["empty_file"]
    path.write_bytes(b"no table at all, but a text\n" * 4)
    assert [item.reason for item in read_parquet(path)] == ["damaged_table"]
    for unreadable in (tmp_path, tmp_path / "none"):
        assert [item.reason for item in read_parquet(unreadable)] == ["unreadable_file"]


def test_memory_is_bounded_by_the_batch(tmp_path):
    path = tmp_path / "file.parquet"
    text = "words " * 200
    table = pa.table({"text": [f"{number} {text}" for number in range(20_000)]})
    pa.parquet.write_table(table, path, compression="none", use_dictionary=False)
    size = path.stat().st_size
    assert size > 20_000_000, "one row group"
    del table
    pool = pa.system_memory_pool()
    previous = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        start = pool.bytes_allocated()
        peak = 0
        for _ in readers.get_reader("parquet").read(path):
            peak = max(peak, pool.bytes_allocated() - start)
    finally:
        pa.set_memory_pool(previous)
    assert 0 < peak < size / 3
