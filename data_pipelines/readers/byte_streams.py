"""Opens plain and compressed files as streams of bytes, and names their damage."""

import bz2
import contextlib
import io
import pathlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import zstandard

from data_pipelines.readers.errors import DocumentError
from seg_tf import file_listing

_BUFFER_BYTES = 1 << 20
# Small, because a chunk of zeros may decompress to a thousand times its size.
_CHUNK_BYTES = 1 << 15


class _Compression(NamedTuple):
    """A kind of compression.

    Attributes:
        name: as it stands in the reasons of rejections.
        suffix: what names of such files end in.
        magic: the first bytes of every such file.
        decompressor: makes an object for one stream, member or frame, with
            `decompress(data)`, `eof` and `unused_data`.
    """

    name: str
    suffix: str
    magic: bytes
    decompressor: Callable[[], Any]


_COMPRESSIONS = (
    # 16 more than the largest window stand for a gzip header.
    _Compression(
        "gzip", ".gz", b"\x1f\x8b", lambda: zlib.decompressobj(16 + zlib.MAX_WBITS)
    ),
    _Compression("bzip2", ".bz2", b"BZh", bz2.BZ2Decompressor),
    _Compression(
        "zstd",
        ".zst",
        b"\x28\xb5\x2f\xfd",
        lambda: zstandard.ZstdDecompressor().decompressobj(),
    ),
)

_UTF8_MARK = b"\xef\xbb\xbf"
_OTHER_MARKS = {
    b"\xff\xfe\0\0": "UTF-32-LE",
    b"\0\0\xfe\xff": "UTF-32-BE",
    b"\xff\xfe": "UTF-16-LE",
    b"\xfe\xff": "UTF-16-BE",
}


class UnreachableError(OSError):
    """A remote file cannot be read, through no fault of its own perhaps.

    It is no reason to leave a file out of a corpus: it stops whoever reads.
    """


@contextlib.contextmanager
def open_raw(path: file_listing.Path) -> Iterator[io.RawIOBase]:
    """Opens a file's bytes as they are, local or remote; they can be sought in.

    Raises:
        UnreachableError: on opening, reading or seeking, if the file is a remote one
            and that fails.
        OSError: if it is a local one.
    """
    if isinstance(path, pathlib.Path):
        file = io.FileIO(path)
    else:
        file = _Remote(path)
    with file:
        yield file


@contextlib.contextmanager
def open_unchanged(path: file_listing.Path) -> Iterator[io.BufferedReader]:
    """Opens a file whose first bytes say nothing about compression or encoding.

    Raises:
        DocumentError: on opening, or in the body of the `with` statement, if the
            file cannot be opened or read.
        UnreachableError: likewise, if the file is a remote one that fails.
    """
    try:
        with open_raw(path) as raw, io.BufferedReader(raw, _BUFFER_BYTES) as stream:
            yield stream
    except UnreachableError:
        raise
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> DocumentError:
    return DocumentError(
        "unreadable_file",
        f"Expected a readable file, found: {error.strerror or error}.",
    )


class _Remote(io.RawIOBase):
    """A file behind a URL; whatever goes wrong with it is an UnreachableError."""

    def __init__(self, path: file_listing.Path):
        super().__init__()
        self._path = path
        self._file = self._reach(lambda: path.open("rb"))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:
        data = self._reach(lambda: self._file.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._reach(lambda: self._file.seek(offset, whence))

    def tell(self) -> int:
        return self._reach(lambda: self._file.tell())

    def close(self) -> None:
        # Nothing was written, so nothing is lost where closing fails.
        if not self.closed and "_file" in vars(self):
            with contextlib.suppress(Exception):
                self._file.close()
        super().close()

    def _reach(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        # Each kind of storage has exceptions of its own.
        except Exception as error:
            raise UnreachableError(
                f"{self._path}: cannot be read: {type(error).__name__}: {error}. What "
                "is finished is kept: run the same command again when it can be"
            ) from error


@contextlib.contextmanager
def open_bytes(path: file_listing.Path) -> Iterator[io.BufferedReader]:
    """Opens a file for reading by lines, decompressed, after its byte order mark.

    The compression is told by the first bytes, whatever the name.

    Raises:
        DocumentError: on opening, or in the body of the `with` statement, if the
            file cannot be opened or read, is empty, truncated or damaged, or is
            not UTF-8 by its byte order mark.
        UnreachableError: likewise, if the file is a remote one that fails.
    """
    stream = None
    try:
        with open_raw(path) as raw:
            compression = _find_compression(raw, path)
            if compression is not None:
                raw = _Decompressed(raw, compression)
            stream = io.BufferedReader(raw, _BUFFER_BYTES)
            _skip_byte_order_mark(stream)
            yield stream
    except UnreachableError:
        raise
    except _DamagedError as error:
        raise DocumentError(
            error.reason,
            f"Expected {error.expected}, found {error.found}. What precedes was read.",
            f"offset {stream.tell()} of the text",
        ) from error
    except OSError as error:
        raise _unreadable(error) from error
    finally:
        if stream is not None:
            stream.close()


def _find_compression(
    raw: io.RawIOBase, path: file_listing.Path
) -> _Compression | None:
    """Looks at the first bytes, and goes back to the first."""
    first_bytes = raw.read(4)
    raw.seek(0)
    for compression in _COMPRESSIONS:
        # The three letters of bzip2 may also begin a plain text: a digit follows them.
        if first_bytes.startswith(compression.magic) and (
            compression.name != "bzip2" or first_bytes[3:4].isdigit()
        ):
            return compression
    for compression in _COMPRESSIONS:
        if first_bytes and path.suffix.lower() == compression.suffix:
            raise DocumentError(
                f"damaged_{compression.name}",
                f"Expected the first bytes of a {compression.name} file "
                f"({compression.magic.hex(' ')}), as its name promises, found "
                f"{first_bytes.hex(' ')}.",
            )
    return None


def _skip_byte_order_mark(stream: io.BufferedReader) -> None:
    first_bytes = stream.peek(4)[:4]
    if not first_bytes:
        raise DocumentError("empty_file", "Expected text, found 0 bytes.")
    if first_bytes.startswith(_UTF8_MARK):
        stream.read(len(_UTF8_MARK))
    for mark, encoding in _OTHER_MARKS.items():
        if first_bytes.startswith(mark):
            raise DocumentError(
                "not_utf8",
                f"Expected UTF-8, found the byte order mark of {encoding} "
                f"({mark.hex(' ')}). Convert it with `iconv -f {encoding} -t UTF-8`.",
            )


class _DamagedError(Exception):
    """Compressed data ends too early or makes no sense."""

    def __init__(self, reason: str, expected: str, found: str):
        super().__init__(found)
        self.reason, self.expected, self.found = reason, expected, found


class _Decompressed(io.RawIOBase):
    """The streams, members or frames of a compressed file as one stream of bytes.

    The readers of Python and of the zstandard package will not do: when a file ends
    too early, those lose up to a buffer of what came before, and this one takes it
    for a file that just ends.
    """

    def __init__(self, file: io.RawIOBase, compression: _Compression):
        super().__init__()
        self._file = file
        self._compression = compression
        self._decompressor = compression.decompressor()
        self._unused = b""
        self._decompressed = memoryview(b"")
        self._position = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: bytearray | memoryview) -> int:
        while not self._decompressed:
            if not self._read_chunk():
                return 0
        size = min(len(buffer), len(self._decompressed))
        buffer[:size] = self._decompressed[:size]
        self._decompressed = self._decompressed[size:]
        self._position += size
        return size

    def _read_chunk(self) -> bool:
        """Decompresses a little more; False at the end of the last stream."""
        name = self._compression.name
        chunk = self._unused or self._file.read(_CHUNK_BYTES)
        self._unused = b""
        if self._decompressor.eof:
            if not chunk:
                return False
            # Zeros may fill up the last block of a tape.
            chunk = chunk.lstrip(b"\0")
            if not chunk:
                return True
            self._decompressor = self._compression.decompressor()
        elif not chunk:
            raise _DamagedError(
                f"truncated_{name}",
                f"the {name} end mark",
                "the end of the file, which was cut off, perhaps on its way here",
            )
        try:
            self._decompressed = memoryview(self._decompressor.decompress(chunk))
        except (OSError, zlib.error, zstandard.ZstdError) as error:
            raise _DamagedError(
                f"damaged_{name}", f"sound {name} data", f"damaged data ({error})"
            ) from error
        if self._decompressor.eof:
            self._unused = self._decompressor.unused_data
        return True
