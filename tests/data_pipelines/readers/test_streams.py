"""Compressed files, encodings and documents without bound."""

import bz2
import gzip
import json
import lzma
import random
import tracemalloc

import pytest
import zstandard

from data_pipelines import readers
from data_pipelines.readers import streams
from tests.data_pipelines.readers import helpers
from tests.data_pipelines.readers.test_formats import FORMATS, one_document

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
        skipped = b"\x50\x2a\x4d\x18\x02\0\0\0xy" if compression == "zstd" else b""
        parts = [skipped, compress(b"one\n"), compress(b""), compress(b"two\n")]
        path.write_bytes(b"".join(parts))
        assert read_all(path) == b"one\ntwo\n"

    def test_other_bytes_that_follow_are_damage(self, tmp_path, compression):
        data = COMPRESS[compression](b'{"text": "a"}\n') + b"and more"
        document, rejected = helpers.read_bytes(tmp_path, "json_lines", data)
        assert document.paragraphs == ("a",)
        assert rejected.reason == f"damaged_{compression}"
        assert rejected.location == "offset 14 of the text"

    def test_documents_before_a_cut_are_kept(self, tmp_path, compression):
        lines = json_documents(10_000)
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


TEXT_FORMATS = [one for one in FORMATS if "encoding" in readers.options_of(one)]
SENTENCE = "Für Zoë: “naïve” façades cost 5 €."


@pytest.mark.parametrize("format", TEXT_FORMATS)
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-32-le", "utf-8-sig"])
def test_every_text_format_takes_an_encoding(tmp_path, format, encoding):
    file = one_document(format, SENTENCE).decode()
    data = file.replace("\\u201c", "“").encode(encoding)
    (document,) = helpers.read_bytes(tmp_path, format, data, encoding=encoding)
    assert document.paragraphs[-1] == SENTENCE


MEBIBYTE = 1 << 20


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
def test_a_few_bytes_that_decompress_to_many_are_bounded(tmp_path, compress):
    path = tmp_path / "text.txt"
    path.write_bytes(compress(b"a" * 100 * MEBIBYTE))
    reader = readers.get_reader("plain_text", max_document_megabytes=1)
    items = []
    assert peak_of(lambda: items.extend(reader.read(path))) < 80 * MEBIBYTE
    assert helpers.reasons(items) == ["too_long_document"]


def test_what_no_encoding_explains_ends_the_file(tmp_path):
    lines = b'{"text": "Caf\xe9."}\n' * 20_000 + b'{"text": "\x81"}'
    *read, last = helpers.read_bytes(tmp_path, "json_lines", lines, encoding="cp1252")
    assert read[0].paragraphs == ("Café.",)
    assert len(read) > 15_000
    assert (last.reason, last.ends_file) == ("not_cp1252", True)
    assert "can't decode byte 0x81" in last.message
    assert last.location.startswith("offset ")


@pytest.mark.parametrize(
    ("format", "text", "read"),
    [
        ("plain_text", "long line\n" * 200, 0),
        ("csv", f"text\none\n{'long ' * 400}\nthree", 1),
        ("csv", 'text\none\n"' + "long line\n" * 200, 1),
        ("json_lines", f'{{"text": "one"}}\n{{"text": "{"long " * 400}"}}\n', 1),
        (
            "wikiextractor",
            '<doc id="1">\none\n</doc>\n<doc id="2">\n' + "line\n" * 400,
            1,
        ),
        ("wikitext", " = A = \n\n one\n\n = B = \n\n" + " long line\n" * 200, 1),
    ],
)
def test_a_document_that_is_too_long_ends_the_file(tmp_path, format, text, read):
    limit = {"max_document_megabytes": "0.001"}  # 1000 bytes.
    *documents, last = helpers.read_text(tmp_path, format, text, **limit)
    assert helpers.reasons(documents) == [""] * read
    assert (last.reason, last.ends_file) == ("too_long_document", True)
    assert "0.001 MB" in last.message
    assert "`max_document_megabytes`" in last.message
    for size in ("0", "inf", "many"):
        with pytest.raises(ValueError, match="`max_document_megabytes` must be a"):
            readers.get_reader(format, max_document_megabytes=size)
