"""Local and remote files as raw bytes."""

import hashlib
import io
import pathlib
from collections.abc import Callable
from typing import Any

from seg_tf import file_listing, remote_files

_CHUNK_BYTES = 1 << 20
# Bytes per request to a remote file; larger requests would look stalled on a slow line.
_BLOCK_BYTES = 1 << 22


class UnreachableError(OSError):
    """A remote file cannot be reached. The file itself may be fine.

    Reading stops: the file must not be left out of a corpus for this reason.
    """


def open_raw(path: file_listing.Path) -> io.RawIOBase:
    """Opens a local or remote file, seekable.

    Errors are OSErrors if it is local, and UnreachableErrors if it is remote.
    """
    return io.FileIO(path) if isinstance(path, pathlib.Path) else _Remote(path)


def version(path: file_listing.Path) -> tuple:
    """Size, times and inode; one changes when a file is written to."""
    is_local = isinstance(path, pathlib.Path)
    status = path.stat() if is_local else _reach(path, path.stat)
    return status.st_size, status.st_mtime, status.st_ctime, status.st_ino


def checksum(
    path: file_listing.Path, on_read: Callable[[int], object] = lambda num_bytes: None
) -> str:
    """SHA-256 of a file, in hexadecimal; `on_read` receives the sizes of its parts."""
    digest = hashlib.sha256()
    with open_raw(path) as raw:
        while chunk := raw.read(_CHUNK_BYTES):
            digest.update(chunk)
            on_read(len(chunk))
    return digest.hexdigest()


def _reach(path: file_listing.Path, call: Callable[[], Any]) -> Any:
    """Calls storage, with retries; each kind of storage has its own exceptions."""
    try:
        return remote_files.with_retries(str(path), call)
    except Exception as error:
        raise UnreachableError(
            f"{path}: cannot be read: {type(error).__name__}: {error}. What "
            "is finished is kept: run the same command again when it can be"
        ) from error


class _Remote(io.RawIOBase):
    """A remote file, which is opened anew after a failure."""

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
            # An attempt that stalled may still be using the last one's file.
            file, self._file = self._file, None
            file = file or self._path.open("rb", block_size=_BLOCK_BYTES)
            if file.tell() != self._position:
                file.seek(self._position)
            return file, file.read(len(buffer))

        self._file, data = _reach(self._path, attempt)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
