"""A stream of bytes that are made from those of a file, a chunk at a time."""

import io


class ChunkedStream(io.RawIOBase):
    """Base class of decompressed and of transcoded files.

    Args:
        file: the file's bytes. Closed with this stream.
    """

    def __init__(self, file: io.RawIOBase | io.BufferedIOBase):
        super().__init__()
        self._file = file
        self._ready = memoryview(b"")
        self._position = 0

    def make_chunk(self) -> bytes | None:
        """Makes the next bytes, which may be none yet; None at the end."""
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: bytearray | memoryview) -> int:
        while not self._ready:
            chunk = self.make_chunk()
            if chunk is None:
                return 0
            self._ready = memoryview(chunk)
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        self._position += size
        return size
