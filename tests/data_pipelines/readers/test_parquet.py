"""Parquet and Arrow: the same rows from every kind of file, and what is wrong."""

import sys

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from data_pipelines import readers

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


def read(path, **options):
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
    assert seen(read(path)) == EXPECTED
    # Told by the first bytes, not by the name.
    assert seen(read(path.rename(tmp_path / "file"))) == EXPECTED


def test_all_row_groups_and_slices_are_read_in_order(tmp_path):
    texts = [f"Text {number}." for number in range(1000)]
    for suffix, write in WRITERS.items():
        path = tmp_path / f"rows{suffix}"
        write(pa.table({"content": texts}), path)
        items = read(path, text_field="content")
        assert [item.paragraphs for item in items] == [(text,) for text in texts]
        assert items[-1].location == "row 1000"


def test_text_that_is_none_is_rejected_by_row(tmp_path):
    path = tmp_path / "file.parquet"
    texts = [b"Good.", b"bad \xff byte", b"a \0 byte", b"Good again."]
    write_parquet(pa.table({"text": pa.array(texts, pa.binary())}), path)
    found = [item[0] for item in seen(read(path))]
    assert found == [("Good.",), "not_utf8", "nul_byte", ("Good again.",)]


def test_missing_column_names_those_there_are(tmp_path):
    path = tmp_path / "file.parquet"
    write_parquet(pa.table({"body": ["a"], "id": [1]}), path)
    (item,) = read(path)
    assert item.reason == "missing_text_field"
    assert "found only ['body', 'id']" in item.message
    (item,) = read(path, text_field="id")
    assert item.reason == "text_not_a_string"
    assert "found int64" in item.message


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".ipc"])
def test_columns_of_one_name(tmp_path, suffix):
    texts, others = pa.array(["a", "b"]), pa.array(["c", "d"])
    path = tmp_path / f"rows{suffix}"
    WRITERS[suffix](pa.table([texts, others], names=["text", "text"]), path)
    (item,) = read(path)
    assert item.reason == "ambiguous_text_field"
    assert "found 2 of that name" in item.message
    names = ["text", "title", "title"]
    WRITERS[suffix](pa.table([texts, others, others], names=names), path)
    assert [(item.paragraphs, item.title) for item in read(path)] == [
        (("a",), ""),
        (("b",), ""),
    ]


@pytest.mark.parametrize("suffix", WRITERS)
def test_truncated_file_is_rejected_after_what_precedes(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    WRITERS[suffix](pa.table({"text": ["Some text."] * 9}), path)
    path.write_bytes(path.read_bytes()[:-40])
    *before, last = read(path)
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
    assert [item.reason for item in read(path)] == ["damaged_table"]
    path.write_bytes(b"")
    assert [item.reason for item in read(path)] == ["empty_file"]
    path.write_bytes(b"no table at all, but a text\n" * 4)
    assert [item.reason for item in read(path)] == ["damaged_table"]
    for unreadable in (tmp_path, tmp_path / "none"):
        assert [item.reason for item in read(unreadable)] == ["unreadable_file"]


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


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"pyarrow.*make setup-corpora"):
        readers.get_reader("parquet").files(tmp_path)
