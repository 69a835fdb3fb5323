"""A remote file system that loses its connection in the middle of a file."""

import io

from fsspec.implementations.memory import MemoryFileSystem

_BYTES_BEFORE = 16_384


class FailingFileSystem(MemoryFileSystem):
    """The files of `memory://` under `failing://`.

    Attributes:
        error: what reading raises after 16 KiB of a file; None reads it all.
    """

    protocol = "failing"
    error: Exception | None = None

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(str(path).replace("failing://", "memory://"))

    def unstrip_protocol(self, name):
        return f"failing:/{self._strip_protocol(name)}"

    def _open(self, path, mode="rb", **options):
        file = super()._open(path, mode, **options)
        if mode != "rb" or self.error is None:
            return file
        return _FailingFile(file.getvalue(), self.error)


class _FailingFile(io.BytesIO):
    def __init__(self, content: bytes, error: Exception):
        super().__init__(content)
        self._error = error

    def read(self, size=-1):
        if self.tell() >= _BYTES_BEFORE:
            raise self._error
        return super().read(min(size, _BYTES_BEFORE) if size >= 0 else _BYTES_BEFORE)
