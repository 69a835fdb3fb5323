"""Opens, decompresses and decodes files, and locates errors in them."""

import bz2
import codecs
import contextlib
import hashlib
import html
import html.entities
import io
import itertools
import lzma
import pathlib
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import zstandard

from seg_tf import file_listing, remote_files

UTF_8 = "utf-8"
_BUFFER_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 16
# Bytes per request to a remote file. Larger ones look stalled on a slow connection.
_BLOCK_BYTES = 1 << 22
# Compressed bytes to read at a time. Zstandard can expand zeros by a factor of 30,000.
_COMPRESSED_BYTES = 1 << 11
_MAX_OUTPUT_BYTES = 1 << 25
# Name, first bytes ("BZh" may also begin plain text), decompressor.
_COMPRESSIONS: tuple[tuple[str, bytes, Callable[[], Any]], ...] = (
    ("gzip", rb"\x1f\x8b", lambda: zlib.decompressobj(16 + zlib.MAX_WBITS)),
    ("bzip2", rb"BZh[0-9]", bz2.BZ2Decompressor),
    ("xz", rb"\xfd7zX", lzma.LZMADecompressor),
    (
        "zstd",
        rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18",  # A frame to skip may be first.
        lambda: zstandard.ZstdDecompressor().decompressobj(),
    ),
)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*);")


class DocumentError(Exception):
    """Raised if a document or the rest of a file is unreadable. See `base.reject`."""

    def __init__(self, reason: str, message: str, location: str = ""):
        super().__init__(message)
        self.reason, self.message, self.location = reason, message, location


class _DamagedError(DocumentError):
    """Raised if the rest of a stream is lost. `open_text` sets the location."""


def too_long(max_bytes: int, location: str = "") -> DocumentError:
    """Returns the error for a document larger than `max_document_megabytes`."""
    return DocumentError(
        "too_long_document",
        f"Expected at most {max_bytes / 1e6:,g} MB of text in a document, found more. "
        "`max_document_megabytes` is the limit.",
        location,
    )


# === Files ===


@contextlib.contextmanager
def open_binary(path: file_listing.Path) -> Iterator[io.BufferedReader]:
    """Context manager that opens a file. Turns local OSErrors into DocumentErrors."""
    try:
        with open_raw(path) as raw, io.BufferedReader(raw, _BUFFER_BYTES) as stream:
            yield stream
    except UnreachableError:
        raise
    except OSError as error:
        raise DocumentError(
            "unreadable_file",
            f"Expected a readable file, found: {error.strerror or error}.",
        ) from error


@contextlib.contextmanager
def open_text(
    path: file_listing.Path, encoding: str = UTF_8
) -> Iterator[io.BufferedReader]:
    """Context manager that opens a file as UTF-8 text, decompressed and without a BOM.

    The compression is detected from the first bytes, not from the name. `encoding` is a
    result of `codec_name`. Unlike some file objects of fsspec and the standard library,
    the stream reports truncated files. Raises DocumentError if the file is unreadable,
    empty, truncated, damaged or not in its encoding. UTF-8 is not validated here.
    """
    with open_binary(path) as stream:
        try:
            first_bytes = stream.peek(4)[:4]
            for name, magic, new_decompressor in _COMPRESSIONS:
                if re.match(magic, first_bytes):
                    parts = _decompress(stream, name, new_decompressor)
                    stream = io.BufferedReader(_Chunks(parts), _BUFFER_BYTES)
                    break
            if not stream.peek(1):
                raise DocumentError("empty_file", "Expected text, found 0 bytes.")
            if encoding != UTF_8:
                parts = _transcoded(stream, encoding)
                stream = io.BufferedReader(_Chunks(parts), _BUFFER_BYTES)
            if stream.peek(3).startswith(codecs.BOM_UTF8):
                stream.read(3)
            yield stream
        except _DamagedError as error:
            error.location = f"offset {stream.tell()} of the text"
            raise


class _Chunks(io.RawIOBase):
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


def _decompress(
    stream: io.BufferedReader, name: str, new_decompressor: Callable[[], Any]
) -> Iterator[bytes]:
    """Yields the decompressed data of all streams, members or frames of a file."""
    decompressor = None
    # `read` would lose the data before a lost connection.
    while data := stream.read1(_COMPRESSED_BYTES):
        # The decompressors of bzip2 and xz can stop early.
        while data or not getattr(decompressor, "needs_input", True):
            if decompressor is None:
                decompressor = new_decompressor()
            limit = (_MAX_OUTPUT_BYTES,) if hasattr(decompressor, "needs_input") else ()
            try:
                yield decompressor.decompress(data, *limit)
            except (OSError, lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
                raise _DamagedError(
                    f"damaged_{name}",
                    f"Expected valid {name} data, found damaged data ({error}). The "
                    "text before it was read.",
                ) from error
            data = b""
            if decompressor.eof:
                data, decompressor = decompressor.unused_data, None
    if decompressor is not None:
        raise _DamagedError(
            f"truncated_{name}",
            f"Expected the {name} end mark, found the end of the file, which is "
            "truncated. The text before it was read.",
        )


def codec_name(encoding: str) -> str:
    """Returns Python's name of an encoding. Raises ValueError if it is unknown."""
    try:
        "a".encode(encoding)
        name = codecs.lookup(encoding).name
    except (LookupError, UnicodeError) as error:
        raise ValueError(
            "`encoding` must be one of Python's encodings of text, such as cp1252, "
            f"latin-1, utf-16 or gb18030. Received: {encoding!r}"
        ) from error
    return UTF_8 if name == "utf-8-sig" else name


def _transcoded(stream: io.BufferedReader, encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    is_end = False
    while not is_end:
        data = stream.read1(_CHUNK_BYTES)
        is_end = not data
        try:
            text = decoder.decode(data, final=is_end)
        except UnicodeError as error:
            reason = re.sub(r"[^0-9a-z]", "_", f"not_{encoding}")
            raise _DamagedError(
                reason, f"Expected {encoding}, found: {error}."
            ) from error
        yield text.encode("utf-8", "surrogatepass")


# === Lines and documents ===


class Line(NamedTuple):
    """A line of a file, including its line end."""

    number: int
    data: bytes


def lines(stream: io.BufferedReader, max_bytes: int) -> Iterator[Line]:
    """Yields the lines of a stream. Raises DocumentError at a line that is too long."""
    for number in itertools.count(1):
        data = stream.readline(max_bytes + 1)
        if len(data) > max_bytes:
            raise too_long(max_bytes, f"line {number}")
        if not data:
            return
        yield Line(number, data)


class Block:
    """Consecutive lines that form a document."""

    def __init__(self, first: Line, max_bytes: int):
        self.first = first
        self._max_bytes = max_bytes
        self._data = bytearray(first.data)

    def add(self, line: Line) -> None:
        """Appends a line. Raises DocumentError if the document becomes too long."""
        self._data += line.data
        if len(self._data) > self._max_bytes:
            raise too_long(self._max_bytes, f"line {self.first.number}")

    def decode(self) -> str:
        r"""Returns the text, with `\n` as line end. See the function `decode`."""
        return decode(bytes(self._data), self.first.number)


def read_document(stream: io.BufferedReader, max_bytes: int) -> str:
    """Reads the rest of a stream as one document. See `read_all` and `decode`."""
    return decode(read_all(stream, max_bytes))


def read_all(stream: io.BufferedReader, max_bytes: int) -> bytes:
    """Reads the rest of a stream. Raises DocumentError if it exceeds `max_bytes`."""
    parts, num_bytes = [], 0
    while part := stream.read(_BUFFER_BYTES):
        num_bytes += len(part)
        if num_bytes > max_bytes:
            raise too_long(max_bytes)
        parts.append(part)
    return b"".join(parts)


def decode(data: bytes, first_line: int = 1, *, has_encoding: bool = True) -> str:
    r"""Decodes a UTF-8 document and replaces its line ends with `\n`.

    `first_line` is the line number at which `data` begins in its file. If
    `has_encoding`, the error message suggests the option `encoding`. Raises
    DocumentError if `data` is not UTF-8 or contains a NUL byte, which occurs in binary
    files and UTF-16 but not in text.
    """
    try:
        text = data.decode()
        index = data.find(b"\0")
        if index < 0:
            return unify_line_ends(text)
        reason, message, hint = "nul_byte", "text, found a NUL byte (0x00)", ""
    except UnicodeDecodeError as error:
        reason, index = "not_utf8", error.start
        message = f"UTF-8, found byte 0x{data[index]:02X} ({error.reason})"
        hint = " `--reader_options=encoding=cp1252`, for example, reads Windows-1252."
        hint = hint if has_encoding else ""
    line = first_line + data.count(b"\n", 0, index)
    column = index - data.rfind(b"\n", 0, index)
    raise DocumentError(
        reason, f"Expected {message} at line {line}, byte {column} of the line.{hint}"
    )


def unify_line_ends(text: str) -> str:
    r"""Replaces `\r\n` and `\r` with `\n`."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def split_lines(text: str) -> list[str]:
    r"""Returns the non-blank lines, stripped. Only `\n` separates lines."""
    return [stripped for line in text.split("\n") if (stripped := line.strip())]


def unescape_entities(text: str) -> str:
    """Replaces entities such as `&amp;` and `&#8211;` with their characters.

    Unlike `html.unescape`, this keeps text without a semicolon, such as `AT&T`.
    """

    def unescape(match: re.Match[str]) -> str:
        entity = match[0]
        if entity[1] != "#" and entity[1:] not in html.entities.html5:
            return entity
        return unify_line_ends(html.unescape(entity))

    return _ENTITY.sub(unescape, text) if "&" in text else text


class UnreachableError(OSError):
    """Raised if a remote file cannot be reached. Unlike damage, this stops a build."""


def open_raw(path: file_listing.Path) -> io.RawIOBase:
    """Opens a local or remote file as a seekable stream.

    If this fails, raises OSError for a local and UnreachableError for a remote file.
    """
    return io.FileIO(path) if isinstance(path, pathlib.Path) else _Remote(path)


def version(path: file_listing.Path) -> tuple:
    """Returns size, times and inode. At least one changes when a file is modified."""
    status = path.stat() if isinstance(path, pathlib.Path) else _reach(path, path.stat)
    return status.st_size, status.st_mtime, status.st_ctime, status.st_ino


def checksum(
    path: file_listing.Path, on_read: Callable[[int], object] = lambda num_bytes: None
) -> str:
    """Returns the hexadecimal SHA-256. Calls `on_read` with the size of each chunk."""
    digest = hashlib.sha256()
    with open_raw(path) as raw:
        while chunk := raw.read(_BUFFER_BYTES):
            digest.update(chunk)
            on_read(len(chunk))
    return digest.hexdigest()


def _reach(path: file_listing.Path, call: Callable[[], Any]) -> Any:
    """Calls a storage function with retries. Raises UnreachableError if it fails."""
    try:
        return remote_files.with_retries(str(path), call)
    except Exception as error:
        raise UnreachableError(
            f"{path}: cannot be read: {type(error).__name__}: {error}. Finished "
            "work is kept: run the same command again later"
        ) from error


class _Remote(io.RawIOBase):
    """A remote file that is reopened after a failure."""

    def __init__(self, path: file_listing.Path):
        super().__init__()
        self._path, self._position, self._file = path, 0, None
        self._size = _reach(path, path.stat).st_size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:
        def attempt() -> tuple[Any, bytes]:
            # An attempt that stalled may still be using the previous file object.
            file, self._file = self._file, None
            file = file or self._path.open("rb", block_size=_BLOCK_BYTES)
            if file.tell() != self._position:
                file.seek(self._position)
            return file, file.read(len(buffer))

        self._file, data = _reach(self._path, attempt)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
