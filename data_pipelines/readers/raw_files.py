"""Local and remote files as raw bytes, hashed while they are read."""

import contextlib
import dataclasses
import hashlib
import io
import pathlib
from collections.abc import Callable, Mapping
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
    """Opens a local or remote file, seekable; a `HashedFile` is hashed on the way.

    Raises:
        UnreachableError: on opening, reading or seeking, if the file is remote.
        OSError: if it is local.
    """
    if isinstance(path, HashedFile):
        return _Hashed(open_raw(path.path), path.checksum)
    return io.FileIO(path) if isinstance(path, pathlib.Path) else _Remote(path)


def version(path: file_listing.Path) -> tuple:
    """Size, times and inode, one of which changes when a file is written to.

    Raises `UnreachableError` or `OSError` as `open_raw` does.
    """
    is_local = isinstance(path, pathlib.Path)
    status = path.stat() if is_local else _reach(path, path.stat)
    return status.st_size, status.st_mtime, status.st_ctime, status.st_ino


class RunningChecksum:
    """SHA-256 of the first `num_bytes` bytes of a file, as far as it has been read.

    Args:
        known: number of first bytes -> their SHA-256, from earlier reads. The first
            mismatch is the attribute `difference`: `(number of first bytes, expected,
            actual)`.
    """

    def __init__(self, known: Mapping[int, str] | None = None):
        self._hash = hashlib.sha256()
        self._known = sorted((known or {}).items(), reverse=True)
        self.num_bytes = 0
        self.difference: tuple[int, str, str] | None = None

    def hexdigest(self) -> str:
        """The checksum so far, in hexadecimal."""
        return self._hash.hexdigest()

    def add(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Hashes bytes read at a position of the file.

        Bytes that were hashed before are skipped, and so are bytes after a gap, which
        `read_rest` reads later.
        """
        seen = self.num_bytes - position
        if not 0 <= seen < len(data):
            return
        data = memoryview(data)[seen:]
        while self._known and self._known[-1][0] <= self.num_bytes + len(data):
            rest = self._known[-1][0] - self.num_bytes
            self._update(data[:rest])
            data = data[rest:]
            self._compare()
        self._update(data)

    def read_rest(
        self,
        path: file_listing.Path,
        on_read: Callable[[int], object] = lambda num_bytes: None,
    ) -> None:
        """Hashes the bytes of a file that were not read; `on_read` gets their numbers.

        Raises an `OSError` if the file cannot be read.
        """
        with open_raw(path) as raw:
            raw.seek(self.num_bytes)
            while chunk := raw.read(_CHUNK_BYTES):
                self.add(self.num_bytes, chunk)
                on_read(len(chunk))
        if self._known:  # The file has become shorter.
            self._compare()

    def _update(self, data: memoryview) -> None:
        self._hash.update(data)
        self.num_bytes += len(data)

    def _compare(self) -> None:
        length, expected = self._known.pop()
        if self.hexdigest() != expected and self.difference is None:
            self.difference = length, expected, self.hexdigest()


@dataclasses.dataclass(frozen=True)
class HashedFile:
    """A path, with its attributes, whose bytes are hashed while they are read."""

    path: file_listing.Path
    checksum: RunningChecksum

    def __getattr__(self, name: str) -> Any:
        return getattr(self.path, name)

    def __str__(self) -> str:
        return str(self.path)


class _Hashed(io.RawIOBase):
    """A raw file that passes the bytes it reads to a checksum."""

    def __init__(self, raw: io.RawIOBase, checksum: RunningChecksum):
        super().__init__()
        self._raw, self._checksum = raw, checksum
        self.seek, self.tell = raw.seek, raw.tell
        self.readable, self.seekable = raw.readable, raw.seekable

    def readinto(self, buffer: bytearray | memoryview) -> int:
        position = self._raw.tell()
        size = self._raw.readinto(buffer)
        self._checksum.add(position, memoryview(buffer)[:size])
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()


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
        self._path, self._position = path, 0
        self._file = _reach(path, lambda: path.open("rb"))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:
        data = self._call(lambda file: file.read(len(buffer)))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = self._call(lambda file: file.seek(offset, whence))
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        if not self.closed and "_file" in vars(self):
            with contextlib.suppress(Exception):  # Nothing was written.
                self._file.close()
        super().close()

    def _call(self, call: Callable[[Any], Any]) -> Any:
        def attempt() -> tuple[Any, Any]:
            # An attempt that stalled may still be using the last one's file.
            file, self._file = self._file, None
            if file is None:
                file = self._path.open("rb", block_size=_BLOCK_BYTES)
                file.seek(self._position)
            try:
                return file, call(file)
            except Exception:
                with contextlib.suppress(Exception):
                    file.close()
                raise

        self._file, result = _reach(self._path, attempt)
        return result
