"""Opens files of this machine and of other ones for their bytes as they are."""

import contextlib
import io
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from seg_tf import file_listing


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
