"""Text of other encodings as a stream of UTF-8, decoded a chunk at a time."""

import codecs
import io

from data_pipelines.readers.errors import DocumentError
from data_pipelines.readers.io.chunked_stream import ChunkedStream

UTF_8 = "utf-8"
_CHUNK_BYTES = 1 << 16
_MARK_UNDECODABLE = "data_pipelines.mark_undecodable"
_LOW_SURROGATES = 0xDC00


def codec_name(encoding: str) -> str:
    """Python's name of an encoding; all of UTF-8 (`utf8`, `utf-8-sig`) is `"utf-8"`.

    Raises:
        ValueError: if Python has no such encoding of text.
    """
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
    """Error handler: a low surrogate for each byte that cannot be decoded."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data = error.object[error.start : error.end]
    return "".join(chr(_LOW_SURROGATES + byte) for byte in data), error.end


codecs.register_error(_MARK_UNDECODABLE, _mark_undecodable)


def undecodable_byte(data: bytes, index: int) -> int:
    """The byte of the file that `Transcoded` marked at `index` of its stream."""
    return ((data[index + 1] & 0x03) << 6) | (data[index + 2] & 0x3F)


class Transcoded(ChunkedStream):
    """A stream of text in UTF-8, whatever encoding its file is in.

    A byte that cannot be decoded becomes the three bytes of a surrogate, which UTF-8
    does not allow: so the one document is rejected that holds it, as in UTF-8 files.

    Args:
        file: the file's bytes, decompressed.
        encoding: what `codec_name` returns.
    """

    def __init__(self, file: io.BufferedIOBase, encoding: str):
        super().__init__(file)
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)(_MARK_UNDECODABLE)
        self._is_at_end = False

    def make_chunk(self) -> bytes | None:
        if self._is_at_end:
            return None
        chunk = self._file.read1(_CHUNK_BYTES)
        self._is_at_end = not chunk
        try:
            text = self._decoder.decode(chunk, final=self._is_at_end)
        except UnicodeError as error:
            raise DocumentError(
                reason_of(self._encoding),
                f"Expected {self._encoding}, found: {error}.",
            ) from error
        return text.encode("utf-8", "surrogatepass")


def reason_of(encoding: str) -> str:
    """The reason of a rejection: `not_utf8`, `not_cp1252`, `not_utf_16_le`."""
    if encoding == UTF_8:
        return "not_utf8"
    return "not_" + "".join(c if c.isalnum() else "_" for c in encoding)
