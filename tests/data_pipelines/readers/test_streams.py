"""Compressed files, sound and damaged."""

import bz2
import gzip
import io
import json
import random

import pytest
import zstandard

from data_pipelines.readers import streams
from data_pipelines.readers.streams import DocumentError
from tests.data_pipelines.readers import helpers

COMPRESS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    # Without a checksum, which the command line tool writes, damage may go unseen.
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
}
SUFFIX = {"gzip": ".gz", "bzip2": ".bz2", "zstd": ".zst"}


def documents(num_documents: int) -> list[bytes]:
    """JSON lines that hardly compress, so that a cut leaves many whole."""
    generator = random.Random(0)
    return [
        json.dumps({"text": f"{number} {generator.randbytes(100).hex()}"}).encode()
        + b"\n"
        for number in range(num_documents)
    ]


def read(path) -> bytes:
    with streams.open_text(path) as stream:
        return stream.read()


@pytest.mark.parametrize("compression", COMPRESS)
class TestCompression:
    def test_is_told_by_the_first_bytes(self, tmp_path, compression):
        data = b"".join(documents(1000))
        for name in ("file", "file" + SUFFIX[compression], "file.txt"):
            path = tmp_path / name
            path.write_bytes(COMPRESS[compression](data))
            assert read(path) == data

    def test_parts_follow_one_another(self, tmp_path, compression):
        compress = COMPRESS[compression]
        path = tmp_path / "file"
        path.write_bytes(compress(b"one\n") + compress(b"") + compress(b"two\n"))
        assert read(path) == b"one\ntwo\n"

    def test_zeros_may_follow(self, tmp_path, compression):
        path = tmp_path / "file"
        path.write_bytes(COMPRESS[compression](b"text\n") + bytes(100_000))
        assert read(path) == b"text\n"

    def test_other_bytes_that_follow_are_damage(self, tmp_path, compression):
        data = COMPRESS[compression](b'{"text": "a"}\n') + b"and more"
        document, rejected = helpers.read_bytes(tmp_path, "json_lines", data)
        assert document.paragraphs == ("a",)
        assert rejected.reason == f"damaged_{compression}"
        assert rejected.location == "offset 14 of the text"

    def test_lines_and_positions_are_those_of_the_text(self, tmp_path, compression):
        lines = documents(20_000)
        path = tmp_path / "file"
        path.write_bytes(COMPRESS[compression](b"".join(lines)))
        with streams.open_text(path) as stream:
            assert list(stream) == lines
            assert stream.tell() == sum(map(len, lines))

    def test_documents_before_a_cut_are_kept(self, tmp_path, compression):
        lines = documents(20_000)
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
        data = bytearray(COMPRESS[compression](b"".join(documents(20_000))))
        middle = slice(len(data) // 2, len(data) // 2 + 50)
        data[middle] = bytes(byte ^ 0xFF for byte in data[middle])
        items = helpers.read_bytes(tmp_path, "json_lines", bytes(data))
        assert items[-1].reason in (
            f"damaged_{compression}",
            f"truncated_{compression}",
        )

    def test_only_the_first_bytes_are_there(self, tmp_path, compression):
        data = COMPRESS[compression](b'{"text": "a"}\n')
        (item,) = helpers.read_bytes(tmp_path, "json_lines", data[:5])
        assert item.reason == f"truncated_{compression}"

    def test_name_that_promises_too_much(self, tmp_path, compression):
        name = "page" + SUFFIX[compression]
        (item,) = helpers.read_bytes(
            tmp_path, "json_lines", b"<html>Not found</html>", name
        )
        assert item.reason == f"damaged_{compression}"
        assert "as its name promises, found 3c 68 74 6d" in item.message

    def test_empty_text(self, tmp_path, compression):
        data = COMPRESS[compression](b"")
        (item,) = helpers.read_bytes(tmp_path, "json_lines", data)
        assert item.reason == "empty_file"

    def test_whole_file_format_rejects_what_was_cut(self, tmp_path, compression):
        data = COMPRESS[compression](b"Some text.\n" * 1000)
        (item,) = helpers.read_bytes(tmp_path, "plain_text", data[:-5])
        assert item.reason == f"truncated_{compression}"


def test_letters_of_bzip2_may_begin_a_text(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"BZh is how bzip2 files begin.")
    assert read(path) == b"BZh is how bzip2 files begin."


def test_streamed_zstd_without_size_is_read(tmp_path):
    path = tmp_path / "file.zst"
    data = b"".join(documents(5000))
    with zstandard.open(path, "wb") as file:
        for start in range(0, len(data), 1000):
            file.write(data[start : start + 1000])
    assert read(path) == data


def test_unreadable_file_is_named(tmp_path):
    with (
        pytest.raises(DocumentError, match="Is a directory") as error,
        streams.open_text(tmp_path),
    ):
        pass
    assert error.value.reason == "unreadable_file"


def test_file_is_closed_when_the_consumer_stops(tmp_path, monkeypatch):
    opened = []

    class File(io.FileIO):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            opened.append(self)

    monkeypatch.setattr(streams.io, "FileIO", File)
    (tmp_path / "file").write_bytes(b"".join(documents(10)))
    with streams.open_text(tmp_path / "file") as stream:
        stream.readline()
    assert [file.closed for file in opened] == [True]


@pytest.mark.parametrize(
    "encoding, shown",
    [
        ("utf-16-be", "UTF-16-BE"),
        ("utf-32-le", "UTF-32-LE"),
        ("utf-32-be", "UTF-32-BE"),
    ],
)
def test_other_byte_order_marks_are_named(tmp_path, encoding, shown):
    data = "\ufeffSome text.".encode(encoding)
    (item,) = helpers.read_bytes(tmp_path, "plain_text", data)
    assert item.reason == "not_utf8"
    assert f"byte order mark of {shown} " in item.message
    # Which takes the order of bytes from the mark.
    assert f"`iconv -f {shown[:6]} -t UTF-8`" in item.message
