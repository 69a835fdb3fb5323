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
        return _FailingFile(file.getvalue()) if mode == "rb" else file


class _FailingFile(io.BytesIO):
    def read(self, size=-1):
        if self.tell() >= _BYTES_BEFORE and FailingFileSystem.error is not None:
            raise FailingFileSystem.error
        if FailingFileSystem.error is not None or size > _BYTES_BEFORE:
            size = min(size, _BYTES_BEFORE) if size >= 0 else _BYTES_BEFORE
        return super().read(size)
