"""Opens plain and compressed files as streams of bytes, and names their damage."""

import contextlib
import io
from collections.abc import Iterator
from typing import NamedTuple

from data_pipelines.readers.errors import DocumentError, too_long
from data_pipelines.readers.io import decoding, decompression, transcoding
from data_pipelines.readers.io.raw_files import UnreachableError, open_raw
from seg_tf import file_listing

_BUFFER_BYTES = 1 << 20
_SHOWN_BYTES = 1000

_UTF8_MARK = b"\xef\xbb\xbf"
# Those of four bytes first, of which others are the beginning.
_MARKS = {
    b"\xff\xfe\0\0": "UTF-32-LE",
    b"\0\0\xfe\xff": "UTF-32-BE",
    b"\xff\xfe": "UTF-16-LE",
    b"\xfe\xff": "UTF-16-BE",
    _UTF8_MARK: "UTF-8",
}


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


@contextlib.contextmanager
def open_bytes(
    path: file_listing.Path, encoding: str | None = None
) -> Iterator[io.BufferedReader]:
    """Opens a file for reading by lines, decompressed, after its byte order mark.

    The compression is told by the first bytes, whatever the name.

    Args:
        path: the file.
        encoding: what `transcoding.codec_name` returned; the stream is UTF-8 all the
            same. None is UTF-8 where the format has no option for it.

    Raises:
        DocumentError: on opening, or in the body of the `with` statement, if the
            file cannot be opened or read, is empty, truncated or damaged, or is
            of another encoding by its byte order mark.
        UnreachableError: likewise, if the file is a remote one that fails.
    """
    stream = None
    try:
        with open_raw(path) as raw:
            compression = decompression.find_compression(raw, path)
            if compression is not None:
                raw = decompression.Decompressed(raw, compression)
            stream = io.BufferedReader(raw, _BUFFER_BYTES)
            _check_byte_order_mark(stream, encoding)
            if encoding not in (None, transcoding.UTF_8):
                stream = io.BufferedReader(
                    transcoding.Transcoded(stream, encoding), _BUFFER_BYTES
                )
            if stream.peek(len(_UTF8_MARK)).startswith(_UTF8_MARK):
                stream.read(len(_UTF8_MARK))
            yield stream
    except UnreachableError:
        raise
    except decompression.DamagedError as error:
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


def _check_byte_order_mark(stream: io.BufferedReader, encoding: str | None) -> None:
    first_bytes = stream.peek(4)[:4]
    if not first_bytes:
        raise DocumentError("empty_file", "Expected text, found 0 bytes.")
    expected = encoding or transcoding.UTF_8
    for mark, found in _MARKS.items():
        if first_bytes.startswith(mark):
            # The codec `utf-16` takes both orders of bytes.
            if found.lower().startswith(expected):
                return
            # `utf-16` and `utf-32` see the order of bytes from the mark.
            codec = found.removesuffix("-LE").removesuffix("-BE").lower()
            hint = decoding.other_encoding_hint(codec, has_option=encoding is not None)
            raise DocumentError(
                transcoding.reason_of(expected),
                f"Expected {expected.upper()}, found the byte order mark of {found} "
                f"({mark.hex(' ')}). {hint}",
            )


class LongLine(NamedTuple):
    """A line that was passed over.

    Attributes:
        begin: its first bytes.
        num_bytes: its length, the line end included.
    """

    begin: bytes
    num_bytes: int


def lines(stream: io.BufferedReader, max_bytes: int) -> Iterator[bytes | LongLine]:
    """The lines of a stream with their ends, holding at most `max_bytes` of one.

    Yields:
        Each line, or a `LongLine` for one that is longer.
    """
    while line := stream.readline(_BUFFER_BYTES):
        if line.endswith(b"\n") or len(line) < _BUFFER_BYTES:
            yield line if len(line) <= max_bytes else _long(line, len(line))
            continue
        begin, parts, num_bytes = line[:_SHOWN_BYTES], [line], len(line)
        while not line.endswith(b"\n") and (line := stream.readline(_BUFFER_BYTES)):
            num_bytes += len(line)
            if num_bytes <= max_bytes:
                parts.append(line)
            else:
                parts.clear()
        yield b"".join(parts) if num_bytes <= max_bytes else _long(begin, num_bytes)


def _long(line: bytes, num_bytes: int) -> LongLine:
    return LongLine(line[:_SHOWN_BYTES], num_bytes)


def read_all(stream: io.BufferedReader, max_bytes: int) -> bytes:
    """The rest of a stream, which is one document.

    Raises:
        DocumentError: if it is longer than `max_bytes`, of which no more is held.
    """
    parts, num_bytes = [], 0
    while part := stream.read(_BUFFER_BYTES):
        num_bytes += len(part)
        if num_bytes > max_bytes:
            raise too_long(max_bytes)
        parts.append(part)
    return b"".join(parts)
