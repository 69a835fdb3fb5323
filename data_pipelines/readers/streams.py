"""Files as streams of UTF-8: compression, encodings, lines, and where damage is."""

import bz2
import codecs
import contextlib
import html
import html.entities
import io
import itertools
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import zstandard

from data_pipelines.readers import raw_files
from seg_tf import file_listing

UTF_8 = "utf-8"
_BUFFER_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 16
_MAX_OUTPUT_BYTES = 1 << 25
_SHOWN_BYTES = 1000
_UTF8_MARK = b"\xef\xbb\xbf"
# Four-byte marks first: shorter ones are prefixes of them.
_MARKS = {
    b"\xff\xfe\0\0": "UTF-32-LE",
    b"\0\0\xfe\xff": "UTF-32-BE",
    b"\xff\xfe": "UTF-16-LE",
    b"\xfe\xff": "UTF-16-BE",
    _UTF8_MARK: "UTF-8",
}
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*);")


class DocumentError(Exception):
    """A document, or the rest of a file, cannot be read: see `RejectedDocument`."""

    def __init__(self, reason: str, message: str, location: str = ""):
        super().__init__(message)
        self.reason, self.message, self.location = reason, message, location


class _DamagedError(DocumentError):
    """Compressed data ends too early or is corrupt; the location is added later."""


def too_long(max_bytes: int, location: str = "") -> DocumentError:
    """The error for a document that is larger than `max_document_megabytes`."""
    return DocumentError(
        "too_long_document",
        f"Expected at most {max_bytes / 1e6:,g} MB of text in a document, found more. "
        "`max_document_megabytes` is the limit.",
        location,
    )


# === Files ===


class _Compression(NamedTuple):
    suffix: str
    magic: bytes
    decompressor: Callable[[], Any]
    # Small where the decompressor has no limit: a chunk of zeros grows a
    # thousandfold with gzip, thirty thousandfold with Zstandard.
    chunk_bytes: int = 1 << 15


_COMPRESSIONS = {
    "gzip": _Compression(
        ".gz", rb"\x1f\x8b", lambda: zlib.decompressobj(16 + zlib.MAX_WBITS)
    ),
    # "BZh" may also begin plain text.
    "bzip2": _Compression(".bz2", rb"BZh[0-9]", bz2.BZ2Decompressor),
    "xz": _Compression(".xz", rb"\xfd7zX", lzma.LZMADecompressor),
    "zstd": _Compression(
        ".zst",
        rb"\x28\xb5\x2f\xfd",
        lambda: zstandard.ZstdDecompressor().decompressobj(),
        1 << 11,
    ),
}


@contextlib.contextmanager
def open_binary(path: file_listing.Path) -> Iterator[io.BufferedReader]:
    """Opens a file unchanged, without looking for compression or an encoding.

    A DocumentError is raised, in the block too, if the file cannot be read; an
    UnreachableError if it is remote and cannot be reached.
    """
    try:
        with (
            raw_files.open_raw(path) as raw,
            io.BufferedReader(raw, _BUFFER_BYTES) as stream,
        ):
            yield stream
    except raw_files.UnreachableError:
        raise
    except OSError as error:
        raise DocumentError(
            "unreadable_file",
            f"Expected a readable file, found: {error.strerror or error}.",
        ) from error


@contextlib.contextmanager
def open_text(
    path: file_listing.Path, encoding: str | None = None
) -> Iterator[io.BufferedReader]:
    """Opens a file as a stream of UTF-8, decompressed, after its byte order mark.

    The compression is detected from the first bytes, not from the name. The file
    objects of fsspec and of the standard library are not used: some end silently where
    a file is cut off or a later stream is damaged, and all lose text before a cut.

    Errors are those of `open_binary`; a DocumentError also if the file is empty,
    truncated or damaged, or its byte order mark contradicts `encoding`, a result of
    `codec_name` (None in formats that are always UTF-8).
    """
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(open_binary(path))
        try:
            if (name := _find_compression(stream, path)) is not None:
                chunks = _Chunks(_decompress(stream, name))
                stream = io.BufferedReader(chunks, _BUFFER_BYTES)
            _check_byte_order_mark(stream, encoding)
            if encoding not in (None, UTF_8):
                chunks = _Chunks(_transcode(stream, encoding))
                stream = io.BufferedReader(chunks, _BUFFER_BYTES)
            if stream.peek(len(_UTF8_MARK)).startswith(_UTF8_MARK):
                stream.read(len(_UTF8_MARK))
            yield stream
        except _DamagedError as error:
            error.location = f"offset {stream.tell()} of the text"
            raise


class _Chunks(io.RawIOBase):
    """A stream over an iterator of bytes."""

    def __init__(self, chunks: Iterator[bytes]):
        super().__init__()
        self._chunks, self._rest, self._position = chunks, memoryview(b""), 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:
        while not self._rest:
            if (chunk := next(self._chunks, None)) is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        self._position += size
        return size


def _find_compression(stream: io.BufferedReader, path: file_listing.Path) -> str | None:
    """A key of `_COMPRESSIONS`; None if the file is not compressed."""
    first_bytes = stream.peek(4)[:4]
    for name, compression in _COMPRESSIONS.items():
        if re.match(compression.magic, first_bytes):
            return name
    for name, compression in _COMPRESSIONS.items():
        if first_bytes and path.suffix.lower() == compression.suffix:
            raise DocumentError(
                f"damaged_{name}",
                f"Expected the first bytes of a {name} file, as its name promises, "
                f"found {first_bytes.hex(' ')}.",
            )
    return None


def _decompress(stream: io.BufferedReader, name: str) -> Iterator[bytes]:
    """Decompresses all streams, members or frames of a file, in bounded parts."""
    compression, decompressor, data = _COMPRESSIONS[name], None, b""
    while True:
        if not data and getattr(decompressor, "needs_input", True):
            # Not `read`, which would lose what precedes a lost connection.
            data = stream.read1(compression.chunk_bytes)
            if decompressor is None and not data:
                return
            if not data:
                raise _DamagedError(
                    f"truncated_{name}",
                    f"Expected the {name} end mark, found the end of the file, which "
                    "was cut off, perhaps on its way here. What precedes was read.",
                )
        if decompressor is None:
            data = data.lstrip(b"\0")  # Zeros may pad the last block of a tape.
            if not data:
                continue
            decompressor = compression.decompressor()
        # Those with `needs_input` can stop early.
        limit = (_MAX_OUTPUT_BYTES,) if hasattr(decompressor, "needs_input") else ()
        try:
            yield decompressor.decompress(data, *limit)
        except (OSError, lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
            raise _DamagedError(
                f"damaged_{name}",
                f"Expected sound {name} data, found damaged data ({error}). What "
                "precedes was read.",
            ) from error
        data = b""
        if decompressor.eof:
            data, decompressor = decompressor.unused_data, None


# === Encodings ===


def codec_name(encoding: str) -> str:
    """Python's name of an encoding, or a ValueError; `utf-8-sig` becomes `"utf-8"`."""
    try:
        "a".encode(encoding)
        codecs.getincrementaldecoder(encoding)
    except (LookupError, UnicodeError, ValueError) as error:
        raise ValueError(
            "`encoding` must be one of Python's encodings of text, such as cp1252, "
            f"latin-1, utf-16 or gb18030. Received: {encoding!r}"
        ) from error
    name = codecs.lookup(encoding).name
    return UTF_8 if name == "utf-8-sig" else name


def _mark_undecodable(error: UnicodeError) -> tuple[str, int]:
    """Error handler: each undecodable byte becomes a low surrogate."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data = error.object[error.start : error.end]
    return "".join(chr(0xDC00 + byte) for byte in data), error.end


codecs.register_error("data_pipelines.mark_undecodable", _mark_undecodable)


def _transcode(stream: io.BufferedReader, encoding: str) -> Iterator[bytes]:
    """Yields the text as UTF-8, in which an undecodable byte is a surrogate."""
    # UTF-8 does not allow surrogates, so only the document with that byte is rejected.
    decoder = codecs.getincrementaldecoder(encoding)("data_pipelines.mark_undecodable")
    is_end = False
    while not is_end:
        data = stream.read1(_CHUNK_BYTES)
        is_end = not data
        try:
            text = decoder.decode(data, final=is_end)
        except UnicodeError as error:
            raise DocumentError(
                _rejection_reason(encoding), f"Expected {encoding}, found: {error}."
            ) from error
        yield text.encode("utf-8", "surrogatepass")


def _rejection_reason(encoding: str) -> str:
    """The reason of a rejection: `not_utf8`, `not_cp1252`, `not_utf_16_le`."""
    name = "utf8" if encoding == UTF_8 else encoding
    return "not_" + re.sub(r"[^0-9a-z]", "_", name)


def _check_byte_order_mark(stream: io.BufferedReader, encoding: str | None) -> None:
    first_bytes = stream.peek(4)[:4]
    if not first_bytes:
        raise DocumentError("empty_file", "Expected text, found 0 bytes.")
    expected = encoding or UTF_8
    for mark, name in _MARKS.items():
        if not first_bytes.startswith(mark):
            continue
        # The codec `utf-16` accepts either byte order.
        if name.lower().startswith(expected):
            return
        codec = name.removesuffix("-LE").removesuffix("-BE").lower()
        convert = f"`iconv -f {codec.upper()} -t UTF-8` converts it."
        if encoding is not None:
            convert = f"`--reader_options=encoding={codec}` reads it, {convert}"
        raise DocumentError(
            _rejection_reason(expected),
            f"Expected {expected.upper()}, found the byte order mark of {name} "
            f"({mark.hex(' ')}). {convert}",
        )


# === Lines and documents ===


class Line(NamedTuple):
    """A line of a file; `data` has only the first bytes of one that is too long."""

    number: int
    offset: int
    data: bytes
    num_bytes: int

    @property
    def is_long(self) -> bool:
        """True if the line is longer than allowed."""
        return self.num_bytes > len(self.data)


def lines(stream: io.BufferedReader, max_bytes: int) -> Iterator[Line]:
    """The lines of a stream with their ends, holding at most `max_bytes` of each."""
    offset = stream.tell()
    for number in itertools.count(1):
        data = stream.readline(max_bytes + 1)
        if not data:
            return
        num_bytes = len(data)
        if num_bytes > max_bytes:
            rest, data = data, data[: min(_SHOWN_BYTES, max_bytes)]
            while not rest.endswith(b"\n") and (rest := stream.readline(_BUFFER_BYTES)):
                num_bytes += len(rest)
        yield Line(number, offset, data, num_bytes)
        offset += num_bytes


class Block:
    """Consecutive lines that form a document; holds at most `max_bytes`."""

    def __init__(self, first: Line, max_bytes: int):
        self.first = first
        self._max_bytes = max_bytes
        self._lines: list[bytes] = []
        self._num_bytes = 0
        self.add(first)

    def add(self, line: Line) -> None:
        self._num_bytes += line.num_bytes
        if self._num_bytes <= self._max_bytes:
            self._lines.append(line.data)
        else:
            self._lines.clear()

    @property
    def has_text(self) -> bool:
        """True if a line is not blank."""
        return self._num_bytes > self._max_bytes or any(map(bytes.strip, self._lines))

    def decode(self, encoding: str | None = None) -> str:
        r"""The text, with `\n` as line end; a DocumentError if it is too long."""
        if self._num_bytes > self._max_bytes:
            raise too_long(self._max_bytes)
        first = self.first
        return decode(b"".join(self._lines), first.number, first.offset, encoding)


def read_document(
    stream: io.BufferedReader, max_bytes: int, encoding: str | None = None
) -> str:
    """Reads and decodes the rest of a stream, which is one document."""
    offset = stream.tell()
    return decode(read_all(stream, max_bytes), 1, offset, encoding)


def read_all(stream: io.BufferedReader, max_bytes: int) -> bytes:
    """Reads the rest of a stream.

    A DocumentError is raised, and memory freed, if it is longer than `max_bytes`.
    """
    parts, num_bytes = [], 0
    while part := stream.read(_BUFFER_BYTES):
        num_bytes += len(part)
        if num_bytes > max_bytes:
            raise too_long(max_bytes)
        parts.append(part)
    return b"".join(parts)


def decode(
    data: bytes, first_line: int = 1, first_offset: int = 0, encoding: str | None = None
) -> str:
    r"""Decodes a document of UTF-8 and replaces its line ends by `\n`.

    `first_line` and `first_offset` are its place in the file, and `encoding` is that of
    the file, for messages. A DocumentError is raised if `data` is not UTF-8, or has a
    NUL byte, which binary files and UTF-16 have and text does not.
    """

    def place(index: int) -> str:
        line = first_line + data.count(b"\n", 0, index)
        column = index - data.rfind(b"\n", 0, index)
        return f"line {line}, byte {column} of the line (offset {first_offset + index})"

    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        start = error.start
        if encoding not in (None, UTF_8):
            # `_transcode` wrote this byte as a surrogate.
            byte = ((data[start + 1] & 0x03) << 6) | (data[start + 2] & 0x3F)
            line = first_line + data.count(b"\n", 0, start)
            raise DocumentError(
                _rejection_reason(encoding),
                f"Expected {encoding}, found byte 0x{byte:02X}, which is invalid "
                f"there, in line {line}.",
            ) from error
        hint = (
            " If it is Latin-1 or Windows-1252, `--reader_options=encoding=cp1252` "
            "reads it, `iconv -f CP1252 -t UTF-8` converts it."
        )
        raise DocumentError(
            "not_utf8",
            f"Expected UTF-8, found byte 0x{data[start]:02X} ({error.reason}) at "
            f"{place(start)}.{hint if encoding else ''}",
        ) from error
    if (nul := data.find(b"\0")) >= 0:
        raise DocumentError(
            "nul_byte", f"Expected text, found a NUL byte (0x00) at {place(nul)}."
        )
    return unify_line_ends(text)


def unify_line_ends(text: str) -> str:
    r"""Replaces `\r\n` and `\r` by `\n`."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def split_lines(text: str) -> list[str]:
    r"""The lines that are not blank, stripped; only `\n` separates lines."""
    return [stripped for line in text.split("\n") if (stripped := line.strip())]


def unescape_entities(text: str) -> str:
    """Replaces entities such as `&amp;` and `&#8211;` by their characters.

    Unlike `html.unescape`, it keeps anything without a semicolon, such as `AT&T`.
    """

    def unescape(match: re.Match[str]) -> str:
        entity = match[0]
        if entity[1] != "#" and entity[1:] not in html.entities.html5:
            return entity
        return unify_line_ends(html.unescape(entity))

    return _ENTITY.sub(unescape, text) if "&" in text else text
