"""Decompresses gzip, bzip2 and zstd files, and names their damage."""

import bz2
import io
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import zstandard

from data_pipelines.readers.errors import DocumentError
from data_pipelines.readers.io.chunked_stream import ChunkedStream
from seg_tf import file_listing

# Bounds what is decompressed at once.
_MAX_OUTPUT_BYTES = 1 << 25


class Compression(NamedTuple):
    """A kind of compression.

    Attributes:
        name: the name used in reasons of rejections.
        suffix: what names of such files end in.
        magic: the first bytes of every such file.
        chunk_bytes: bytes that are decompressed at once. Small, because a chunk of
            zeros becomes a thousand times its size with gzip, thirty thousand times
            with Zstandard; bzip2 is given a limit.
        decompressor: makes an object for one stream, member or frame, with
            `decompress(data)`, `eof` and `unused_data`.
    """

    name: str
    suffix: str
    magic: bytes
    chunk_bytes: int
    decompressor: Callable[[], Any]


class _Bzip2:
    """Decompresses a bzip2 stream, a bounded part at a time.

    A few bytes of bzip2 may hold tens of megabytes of zeros.
    """

    def __init__(self):
        self._decompressor = bz2.BZ2Decompressor()

    @property
    def eof(self) -> bool:
        return self._decompressor.eof

    @property
    def unused_data(self) -> bytes:
        return self._decompressor.unused_data

    @property
    def has_more(self) -> bool:
        """True if `decompress(b"")` returns more output of earlier input."""
        return not (self._decompressor.needs_input or self._decompressor.eof)

    def decompress(self, data: bytes) -> bytes:
        return self._decompressor.decompress(data, _MAX_OUTPUT_BYTES)


_COMPRESSIONS = (
    # `wbits` of 16 more than the largest window expects a gzip header.
    Compression(
        "gzip",
        ".gz",
        b"\x1f\x8b",
        1 << 15,
        lambda: zlib.decompressobj(16 + zlib.MAX_WBITS),
    ),
    Compression("bzip2", ".bz2", b"BZh", 1 << 15, _Bzip2),
    Compression(
        "zstd",
        ".zst",
        b"\x28\xb5\x2f\xfd",
        1 << 11,
        lambda: zstandard.ZstdDecompressor().decompressobj(),
    ),
)


def find_compression(raw: io.RawIOBase, path: file_listing.Path) -> Compression | None:
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


class DamagedError(Exception):
    """Compressed data ends too early or makes no sense."""

    def __init__(self, reason: str, expected: str, found: str):
        super().__init__(found)
        self.reason, self.expected, self.found = reason, expected, found


class Decompressed(ChunkedStream):
    """The streams, members or frames of a compressed file as one stream of bytes.

    The readers of Python and of the zstandard package will not do: when a file ends
    too early, those lose up to a buffer of what came before, and this one takes it
    for a file that just ends.
    """

    def __init__(self, file: io.RawIOBase, compression: Compression):
        super().__init__(file)
        self._compression = compression
        self._decompressor = compression.decompressor()
        self._unused = b""

    def make_chunk(self) -> bytes | None:
        name = self._compression.name
        if getattr(self._decompressor, "has_more", False):
            return self._decompress(b"")
        chunk = self._unused or self._file.read(self._compression.chunk_bytes)
        self._unused = b""
        if self._decompressor.eof:
            if not chunk:
                return None
            # Zeros may fill up the last block of a tape.
            chunk = chunk.lstrip(b"\0")
            if not chunk:
                return b""
            self._decompressor = self._compression.decompressor()
        elif not chunk:
            raise DamagedError(
                f"truncated_{name}",
                f"the {name} end mark",
                "the end of the file, which was cut off, perhaps on its way here",
            )
        return self._decompress(chunk)

    def _decompress(self, chunk: bytes) -> bytes:
        name = self._compression.name
        try:
            decompressed = self._decompressor.decompress(chunk)
        except (OSError, zlib.error, zstandard.ZstdError) as error:
            raise DamagedError(
                f"damaged_{name}", f"sound {name} data", f"damaged data ({error})"
            ) from error
        if self._decompressor.eof:
            self._unused = self._decompressor.unused_data
        return decompressed
