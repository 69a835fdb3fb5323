"""Documents without bound: rejected, and never held in memory whole."""

import bz2
import gzip
import io
import random
import tracemalloc
import types

import pytest
import zstandard

from data_pipelines import readers
from data_pipelines.builds import text_flags
from data_pipelines.readers import streams
from data_pipelines.readers.streams import DocumentError
from tests.data_pipelines.readers import helpers

LIMIT = {"max_document_megabytes": 0.001}  # 1000 bytes.
LONG = "long " * 400
LONG_LINES = "long line\n" * 200
MEBIBYTE = 1 << 20
PAGE = (
    "<page><title>T{0}</title><ns>0</ns><id>{0}</id>"
    "<revision><model>wikitext</model><text>{1}</text></revision></page>"
)


def read(folder, format, text, **options):
    return helpers.read_text(folder, format, text, **{**LIMIT, **options})


def pages(*texts):
    body = "".join(PAGE.format(number, text) for number, text in enumerate(texts))
    return f"<mediawiki>{body}</mediawiki>"


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        ("plain_text", LONG_LINES, ["too_long_document"]),
        ("markdown", LONG_LINES, ["too_long_document"]),
        ("python_docs", f'"""{LONG}"""', ["too_long_document"]),
        (
            "json_lines",
            f'{{"text": "one"}}\n{{"text": "{LONG}"}}\n{{"text": "three"}}\n',
            ["", "too_long_document", ""],
        ),
        (
            "wikiextractor",
            f'<doc id="1">\none\n</doc>\n<doc id="2">\n{LONG_LINES}</doc>\n'
            f'<doc id="3">\n{LONG}\n</doc>\n<doc id="4">\nfour\n</doc>\n',
            ["", "too_long_document", "too_long_document", ""],
        ),
        (
            "wikiextractor",
            f'{{"text": "one"}}\n{{"text": "{LONG}"}}\n{{"text": "three"}}\n',
            ["", "too_long_document", ""],
        ),
        (
            "wikitext",
            f" = One = \n\n one\n\n = Two = \n\n {LONG_LINES}\n = Three = \n\n"
            f" three\n\n = Four = \n\n {LONG}\n",
            ["", "too_long_document", "", "too_long_document"],
        ),
        (
            "mediawiki",
            pages("One is a word.", LONG, "Three is one."),
            ["", "too_long_document", ""],
        ),
    ],
)
def test_only_the_long_document_is_rejected(tmp_path, format, text, expected):
    items = list(read(tmp_path, format, text))
    assert helpers.reasons(items) == expected
    for item in items:
        if isinstance(item, readers.RejectedDocument):
            assert "0.001 MB" in item.message
            assert "`max_document_megabytes`" in item.message
    # With the default nothing is rejected.
    items = helpers.read_text(tmp_path, format, text)
    assert "too_long_document" not in helpers.reasons(items)


def test_rejections_say_where(tmp_path):
    text = f'<doc id="7">\none\n</doc>\n<doc id="8">\n{LONG}\n</doc>\n'
    assert read(tmp_path, "wikiextractor", text)[1].location == "doc id=8, line 4"
    assert read(tmp_path, "mediawiki", pages("a", LONG))[1].location == "page id=1"


def test_places_after_a_long_line_are_right(tmp_path):
    line = f'{{"text": "{LONG}"}}\n'
    items = read(tmp_path, "json_lines", f'{{"text": "a"}}\n{line}\0\n')
    assert items[2].location == "line 3"
    assert f"(offset {len(line) + 14})" in items[2].message


def test_of_several_revisions_the_last_one_counts(tmp_path):
    long, short = (f"<revision><text>{text}</text></revision>" for text in (LONG, "x"))
    head = "<page><title>T</title><ns>0</ns><id>5</id>"
    found = [
        helpers.reasons(
            read(tmp_path, "mediawiki", f"<mediawiki>{head}{text}</page></mediawiki>")
        )
        for text in (long + short, short + long)
    ]
    assert found == [[""], ["too_long_document"]]


@pytest.mark.parametrize("markup", ["<page note='{}'/>", "<!--{}-->"])
def test_markup_without_end_ends_the_dump(tmp_path, markup):
    text = f"<mediawiki>{PAGE.format(1, 'One.')}{markup.format('x' * 300_000)}"
    items = read(tmp_path, "mediawiki", text, max_document_megabytes=0.1)
    assert helpers.reasons(items) == ["", "too_long_document"]
    assert items[1].location == "after page id=1"


def test_long_rows_of_a_table_are_rejected(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="reads Parquet with pyarrow")
    from pyarrow import parquet

    path = tmp_path / "table.parquet"
    parquet.write_table(pa.table({"text": ["one", LONG, "three"]}), path)
    items = list(readers.get_reader("parquet", **LIMIT).read(path))
    assert helpers.reasons(items) == ["", "too_long_document", ""]


def test_lines_are_those_of_the_stream(monkeypatch):
    monkeypatch.setattr(streams, "_BUFFER_BYTES", 8)
    monkeypatch.setattr(streams, "_SHOWN_BYTES", 4)
    generator = random.Random(0)
    for _ in range(500):
        data = bytes(generator.choices(b"ab\n", (6, 6, 1), k=generator.randint(0, 60)))
        limit = generator.randint(1, 30)
        expected = [
            (line if len(line) <= limit else line[: min(4, len(line) - 1)], len(line))
            for line in data.splitlines(keepends=True)
        ]
        found = list(streams.lines(io.BytesIO(data), limit))
        assert [(line.data, line.num_bytes) for line in found] == expected
        assert [line.offset for line in found] == [
            sum(line.num_bytes for line in found[:number])
            for number in range(len(found))
        ]


class Endless(io.RawIOBase):
    """A stream of a hundred mebibytes of one letter, and how much of it was read."""

    def __init__(self):
        super().__init__()
        self.num_read = 0

    def readable(self):
        return True

    def tell(self):
        return self.num_read

    def readinto(self, buffer):
        size = min(len(buffer), 100 * MEBIBYTE - self.num_read)
        buffer[:size] = b"a" * size
        self.num_read += size
        return size


def peak_of(function):
    """Most bytes that Python held during a call."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_line_is_passed_over_without_holding_it():
    stream = io.BufferedReader(Endless(), MEBIBYTE)
    found = []
    lines = streams.lines(stream, 4 * MEBIBYTE)
    assert peak_of(lambda: found.extend(lines)) < 10 * MEBIBYTE
    assert [line.num_bytes for line in found] == [100 * MEBIBYTE]


def test_a_long_file_is_not_read_to_its_end():
    raw = Endless()
    stream = io.BufferedReader(raw, MEBIBYTE)
    with pytest.raises(DocumentError):
        streams.read_all(stream, 4 * MEBIBYTE)
    assert raw.num_read < 10 * MEBIBYTE


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


@pytest.mark.parametrize(
    ("size", "expected"),
    [(256.0, {"a": "b"}), (100.0, {"a": "b", "max_document_megabytes": 100.0})],
)
def test_the_default_limit_is_no_option_of_a_build(monkeypatch, size, expected):
    values = types.SimpleNamespace(reader_options=["a=b"], max_document_megabytes=size)
    monkeypatch.setattr(text_flags.flags, "FLAGS", values)
    assert text_flags.reader_options() == expected
