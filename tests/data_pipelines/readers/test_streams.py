"""Compressed files, encodings and documents without bound."""

import bz2
import gzip
import io
import json
import lzma
import random
import tracemalloc

import pytest
import zstandard

from data_pipelines import readers
from data_pipelines.readers import streams
from tests.data_pipelines.readers import helpers
from tests.data_pipelines.readers.test_formats import one_document

COMPRESS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    # Without a checksum, which the command line tool writes, damage may go unseen.
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
}
SUFFIX = {"gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "zstd": ".zst"}


def json_documents(num_documents: int) -> list[bytes]:
    """JSON lines that hardly compress, so that a cut leaves many whole."""
    generator = random.Random(0)
    return [
        json.dumps({"text": f"{number} {generator.randbytes(100).hex()}"}).encode()
        + b"\n"
        for number in range(num_documents)
    ]


def read_all(path) -> bytes:
    with streams.open_text(path) as stream:
        return stream.read()


@pytest.mark.parametrize("compression", COMPRESS)
class TestCompression:
    def test_is_told_by_the_first_bytes(self, tmp_path, compression):
        data = b"".join(json_documents(1000))
        for name in ("file", "file" + SUFFIX[compression], "file.txt"):
            path = tmp_path / name
            path.write_bytes(COMPRESS[compression](data))
            assert read_all(path) == data

    def test_parts_follow_one_another(self, tmp_path, compression):
        compress = COMPRESS[compression]
        path = tmp_path / "file"
        path.write_bytes(compress(b"one\n") + compress(b"") + compress(b"two\n"))
        assert read_all(path) == b"one\ntwo\n"

    def test_zeros_may_follow(self, tmp_path, compression):
        path = tmp_path / "file"
        path.write_bytes(COMPRESS[compression](b"text\n") + bytes(100_000))
        assert read_all(path) == b"text\n"

    def test_other_bytes_that_follow_are_damage(self, tmp_path, compression):
        data = COMPRESS[compression](b'{"text": "a"}\n') + b"and more"
        document, rejected = helpers.read_bytes(tmp_path, "json_lines", data)
        assert document.paragraphs == ("a",)
        assert rejected.reason == f"damaged_{compression}"
        assert rejected.location == "offset 14 of the text"

    def test_lines_and_positions_are_those_of_the_text(self, tmp_path, compression):
        lines = json_documents(20_000)
        path = tmp_path / "file"
        path.write_bytes(COMPRESS[compression](b"".join(lines)))
        with streams.open_text(path) as stream:
            assert list(stream) == lines
            assert stream.tell() == sum(map(len, lines))

    def test_documents_before_a_cut_are_kept(self, tmp_path, compression):
        lines = json_documents(20_000)
        data = COMPRESS[compression](b"".join(lines))
        items = helpers.read_bytes(tmp_path, "json_lines", data[: len(data) // 2])
        *kept, rejected = items
        assert rejected.reason == f"truncated_{compression}"
        assert rejected.location.startswith("offset ")
        assert "end mark" in rejected.message
        texts = helpers.paragraphs(kept)
        assert texts == [[json.loads(line)["text"]] for line in lines[: len(kept)]]
        # The text that half the file holds, but for a block that was begun: those of
        # bzip2 hold 900 kB, those of the others at most 128 kB.
        num_lost_bytes = 900_000 if compression == "bzip2" else 130_000
        assert (
            sum(map(len, lines[: len(kept)]))
            > sum(map(len, lines)) / 2 - num_lost_bytes
        )

    def test_flipped_bits_end_the_file(self, tmp_path, compression):
        data = bytearray(COMPRESS[compression](b"".join(json_documents(20_000))))
        middle = slice(len(data) // 2, len(data) // 2 + 50)
        data[middle] = bytes(byte ^ 0xFF for byte in data[middle])
        items = helpers.read_bytes(tmp_path, "json_lines", bytes(data))
        assert items[-1].reason in (
            f"damaged_{compression}",
            f"truncated_{compression}",
        )

    def test_name_that_promises_too_much(self, tmp_path, compression):
        name = "page" + SUFFIX[compression]
        (item,) = helpers.read_bytes(
            tmp_path, "json_lines", b"<html>Not found</html>", name
        )
        assert item.reason == f"damaged_{compression}"
        assert "as its name promises, found 3c 68 74 6d" in item.message


TEXT_FORMATS = (
    "csv",
    "json_lines",
    "markdown",
    "plain_text",
    "wikiextractor",
    "wikitext",
)
SENTENCE = "Für Zoë: “naïve” façades cost 5 €."


@pytest.mark.parametrize("format", TEXT_FORMATS)
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
        "Expected cp1252, found byte 0x81, which is invalid there, in line 2."
    )


def test_a_mark_of_another_encoding_is_believed(tmp_path):
    data = b"\xef\xbb\xbfZo\xc3\xab"
    (item,) = helpers.read_bytes(tmp_path, "plain_text", data, encoding="latin-1")
    assert item.reason == "not_iso8859_1"
    assert "byte order mark of UTF-8 (ef bb bf)" in item.message
    data = "Zoë".encode("utf-16")
    (item,) = helpers.read_bytes(tmp_path, "plain_text", data)
    assert item.message.endswith(
        "`--reader_options=encoding=utf-16` reads it, `iconv -f UTF-16 -t UTF-8` "
        "converts it."
    )
    (item,) = helpers.read_bytes(tmp_path, "mediawiki", data)
    assert item.message.endswith("(ff fe). `iconv -f UTF-16 -t UTF-8` converts it.")
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


LIMIT = {"max_document_megabytes": 0.001}  # 1000 bytes.
LONG = "long " * 400
LONG_LINES = "long line\n" * 200
MEBIBYTE = 1 << 20
DUMP_PAGE = (
    "<page><title>T{0}</title><ns>0</ns><id>{0}</id>"
    "<revision><model>wikitext</model><text>{1}</text></revision></page>"
)


def read_short(folder, format, text, **options):
    return helpers.read_text(folder, format, text, **{**LIMIT, **options})


def dump(*texts):
    body = "".join(DUMP_PAGE.format(number, text) for number, text in enumerate(texts))
    return f"<mediawiki>{body}</mediawiki>"


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        ("plain_text", LONG_LINES, "x"),
        ("markdown", LONG_LINES, "x"),
        ("python_docs", f'"""{LONG}"""', "x"),
        ("csv", f"text\none\n{LONG}\nthree", " x "),
        (
            "json_lines",
            f'{{"text": "one"}}\n{{"text": "{LONG}"}}\n{{"text": "three"}}\n',
            " x ",
        ),
        (
            "wikiextractor",
            f'<doc id="1">\none\n</doc>\n<doc id="2">\n{LONG_LINES}</doc>\n'
            f'<doc id="3">\n{LONG}\n</doc>\n<doc id="4">\nfour\n</doc>\n',
            " xx ",
        ),
        (
            "wikitext",
            f" = One = \n\n one\n\n = Two = \n\n {LONG_LINES}\n = Three = \n\n"
            f" three\n\n = Four = \n\n {LONG}\n",
            " x x",
        ),
        ("mediawiki", dump("One is a word.", LONG, "Three is one."), " x "),
    ],
)
def test_only_the_long_document_is_rejected(tmp_path, format, text, expected):
    items = list(read_short(tmp_path, format, text))
    reasons = {" ": "", "x": "too_long_document"}
    assert helpers.reasons(items) == [reasons[kind] for kind in expected]
    for item in items:
        if isinstance(item, readers.RejectedDocument):
            assert "0.001 MB" in item.message
            assert "`max_document_megabytes`" in item.message
    # With the default nothing is rejected.
    items = helpers.read_text(tmp_path, format, text)
    assert "too_long_document" not in helpers.reasons(items)


@pytest.mark.parametrize("markup", ["<page note='{}'/>", "<!--{}-->"])
def test_markup_without_end_ends_the_dump(tmp_path, markup):
    text = f"<mediawiki>{DUMP_PAGE.format(1, 'One.')}{markup.format('x' * 300_000)}"
    items = read_short(tmp_path, "mediawiki", text, max_document_megabytes=0.1)
    assert helpers.reasons(items) == ["", "too_long_document"]
    assert items[1].location == "after page id=1"


def test_lines_are_those_of_the_stream(monkeypatch):
    monkeypatch.setattr(streams, "_BUFFER_BYTES", 8)
    monkeypatch.setattr(streams, "_SHOWN_BYTES", 4)
    generator = random.Random(0)
    for _ in range(500):
        data = bytes(generator.choices(b"ab\n", (6, 6, 1), k=generator.randint(0, 60)))
        limit = generator.randint(1, 30)
        expected = [
            (line if len(line) <= limit else line[: min(4, limit)], len(line))
            for line in data.splitlines(keepends=True)
        ]
        found = list(streams.lines(io.BytesIO(data), limit))
        assert [(line.data, line.num_bytes) for line in found] == expected
        assert [line.offset for line in found] == [
            sum(line.num_bytes for line in found[:number])
            for number in range(len(found))
        ]


def peak_of(function):
    """Most bytes that Python held during a call."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "compress", [gzip.compress, bz2.compress, zstandard.ZstdCompressor().compress]
)
def test_a_few_bytes_that_decompress_to_many_are_bounded(
    tmp_path, compress, monkeypatch
):
    monkeypatch.setattr(streams, "_MAX_OUTPUT_BYTES", MEBIBYTE)
    path = tmp_path / "text.txt"
    path.write_bytes(compress(b"a" * 100 * MEBIBYTE))
    reader = readers.get_reader("plain_text", max_document_megabytes=1)
    items = []
    assert peak_of(lambda: items.extend(reader.read(path))) < 80 * MEBIBYTE
    assert helpers.reasons(items) == ["too_long_document"]


@pytest.mark.parametrize("size", ["0", "-1", "many", "nan", "inf"])
def test_the_limit_is_a_positive_number(size):
    with pytest.raises(ValueError, match="`max_document_megabytes` must be a positive"):
        readers.get_reader("plain_text", max_document_megabytes=size)
