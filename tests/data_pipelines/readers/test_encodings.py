"""Text in other encodings than UTF-8."""

import bz2
import tracemalloc

import pytest

from data_pipelines import readers
from data_pipelines.readers import streams
from tests.data_pipelines.readers import helpers
from tests.data_pipelines.readers.test_formats import one_document
from tests.sample_data import sample_data

FORMATS = ("csv", "json_lines", "markdown", "plain_text", "wikiextractor", "wikitext")
SENTENCE = "Für Zoë: “naïve” façades cost 5 €."


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-32-le", "utf-8-sig"])
def test_every_text_format_takes_an_encoding(tmp_path, format, encoding):
    file = one_document(format, SENTENCE).decode()
    data = file.replace("\\u201c", "“").encode(encoding)
    (document,) = helpers.read_bytes(tmp_path, format, data, encoding=encoding)
    assert document.paragraphs[-1] == SENTENCE


@pytest.mark.parametrize(
    "encoding, text",
    [
        ("shift_jis", "吾輩は猫である。"),
        ("gb18030", "红楼梦"),
        ("koi8-r", "Война и мир"),
        ("iso2022_jp", "猫である\n猫"),
    ],
)
def test_encodings_of_several_bytes_are_decoded_across_chunks(
    tmp_path, monkeypatch, encoding, text
):
    monkeypatch.setattr(streams, "_CHUNK_BYTES", 3)
    data = bz2.compress(text.encode(encoding))
    items = helpers.read_bytes(tmp_path, "plain_text", data, encoding=encoding)
    assert helpers.paragraphs(items) == [[text.replace("\n", " ")]]


def test_a_byte_that_the_encoding_lacks_costs_one_document(tmp_path):
    lines = [b'{"text": "Caf\xe9."}\n', b'{"text": "\x81\x9d"}\n', b'{"text": "E."}']
    items = helpers.read_bytes(
        tmp_path, "json_lines", b"".join(lines), encoding="windows-1252"
    )
    assert helpers.reasons(items) == ["", "not_cp1252", ""]
    assert items[0].paragraphs == ("Café.",)
    assert items[1].message == (
        "Expected cp1252, found byte 0x81, which it does not have there, in line 2."
    )


def test_text_that_ends_inside_a_character_is_rejected(tmp_path):
    data = "Ends.\n".encode("utf-16-le") + b"a"
    (item,) = helpers.read_bytes(tmp_path, "plain_text", data, encoding="utf-16-le")
    assert item.reason == "not_utf_16_le"
    assert "found byte 0x61" in item.message


def test_a_mark_of_another_encoding_is_believed(tmp_path):
    data = b"\xef\xbb\xbfZo\xc3\xab"
    (item,) = helpers.read_bytes(tmp_path, "plain_text", data, encoding="latin-1")
    assert item.reason == "not_iso8859_1"
    assert "byte order mark of UTF-8 (ef bb bf)" in item.message
    data = "Zoë".encode("utf-16")
    (item,) = helpers.read_bytes(tmp_path, "plain_text", data)
    assert item.message.endswith(
        "Read it with `--reader_options=encoding=utf-16`, or convert it with `iconv -f "
        "UTF-16 -t UTF-8`."
    )
    (item,) = helpers.read_bytes(tmp_path, "mediawiki", data)
    assert item.message.endswith("(ff fe). Convert it with `iconv -f UTF-16 -t UTF-8`.")
    read = helpers.read_bytes(tmp_path, "plain_text", data, encoding="utf-16-le")
    assert helpers.paragraphs(read) == [["Zoë"]]
    read = helpers.read_bytes(tmp_path, "plain_text", data, encoding="utf-16-be")
    assert helpers.reasons(read) == ["not_utf_16_be"]


@pytest.mark.parametrize("encoding", ["latin1", "rot13", "hex", "nothing", ""])
def test_an_unknown_encoding_is_an_error(encoding):
    if encoding == "latin1":
        assert readers.get_reader("csv", encoding=encoding).encoding == "iso8859-1"
        return
    with pytest.raises(ValueError, match=r"`encoding` must be one of Python's"):
        readers.get_reader("csv", encoding=encoding)


def test_the_hint_is_of_formats_that_have_the_option(tmp_path):
    (item,) = helpers.read_bytes(tmp_path, "plain_text", b"sev\xe8n")
    assert item.message.endswith(
        "If it is Latin-1 or Windows-1252, read it with "
        "`--reader_options=encoding=cp1252`, or convert it with "
        "`iconv -f CP1252 -t UTF-8`."
    )


def test_memory_is_bounded_by_the_document(tmp_path):
    line = b'{"text": "' + "Zoë cost 5 €. ".encode("cp1252") * 30 + b'"}\n'
    path = tmp_path / "file"
    path.write_bytes(line * (8_000_000 // len(line)))
    tracemalloc.start()
    try:
        reader = readers.get_reader("json_lines", encoding="cp1252")
        count = sum(1 for _ in reader.read(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 8_000_000 // len(line)
    assert peak < 4_000_000, "half of the file, and most of it are two buffers"


def test_the_gutenberg_text_in_latin1_is_read():
    path = sample_data("gutenberg", "chesterton-ball.txt")
    (document,) = readers.get_reader("plain_text", encoding="cp1252").read(path)
    words = " ".join(document.paragraphs).split()
    assert words == path.read_bytes().decode("cp1252").split()
