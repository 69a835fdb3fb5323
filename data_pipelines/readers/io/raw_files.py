"""Opens files of this machine and of other ones for their bytes as they are."""

import contextlib
import dataclasses
import hashlib
import io
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from seg_tf import file_listing, remote_files

_CHUNK_BYTES = 1 << 20
# Of a remote file, read by one request; larger ones would look stalled on a slow line.
_BLOCK_BYTES = 1 << 22


class UnreachableError(OSError):
    """A remote file cannot be reached; the file itself may be fine.

    It is no reason to leave a file out of a corpus: it stops whoever reads.
    """


@contextlib.contextmanager
def open_raw(path: file_listing.Path) -> Iterator[io.RawIOBase]:
    """Opens a file's bytes as they are, local or remote; they can be sought in.

    Args:
        path: the file; the bytes of a `HashedFile` are hashed while they are read.

    Raises:
        UnreachableError: on opening, reading or seeking, if the file is a remote one
            and that fails.
        OSError: if it is a local one.
    """
    if isinstance(path, HashedFile):
        with open_raw(path.path) as raw:
            yield _Hashed(raw, path.checksum)
        return
    if _is_local(path):
        file = io.FileIO(path)
    else:
        file = _Remote(path)
    with file:
        yield file


def version(path: file_listing.Path) -> tuple:
    """Numbers that change when a file is written to: size, times, inode.

    A file may have new ones with the same bytes, after a copy for example.

    Raises:
        UnreachableError: if the file is a remote one that cannot be reached.
        OSError: if it is a local one that is not there any more.
    """
    status = path.stat() if _is_local(path) else _reach(path, path.stat)
    return status.st_size, status.st_mtime, status.st_ctime, status.st_ino


class RunningChecksum:
    """SHA-256 of the bytes of a file from its first one to where it is read so far.

    Args:
        known: number of first bytes -> their SHA-256, as found when the file was read
            before.

    Attributes:
        num_bytes: how many bytes are hashed.
        difference: `(number of first bytes, expected, found)` where a known checksum
            is another; None if none is, as far as the file is read.
    """

    def __init__(self, known: Mapping[int, str] | None = None):
        self._hash = hashlib.sha256()
        # From last to first: taken off the end.
        self._known = sorted((known or {}).items(), reverse=True)
        self.num_bytes = 0
        self.difference: tuple[int, str, str] | None = None

    def hexdigest(self) -> str:
        """The checksum of the bytes so far, in hexadecimal."""
        return self._hash.hexdigest()

    def add(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Hashes bytes that were read at a position of the file.

        Bytes that were hashed before are passed over, and so are those after a gap;
        `read_rest` reads what is missing then.
        """
        seen = self.num_bytes - position
        if not 0 <= seen < len(data):
            return
        data = memoryview(data)[seen:]
        while self._known and self._known[-1][0] <= self.num_bytes + len(data):
            length, expected = self._known.pop()
            rest = length - self.num_bytes
            self._update(data[:rest])
            data = data[rest:]
            self._compare(length, expected)
        self._update(data)

    def read_rest(
        self,
        path: file_listing.Path,
        on_read: Callable[[int], object] = lambda num_bytes: None,
    ) -> None:
        """Reads and hashes the bytes of a file that were not hashed yet.

        Args:
            path: the file.
            on_read: called with the number of bytes of each part that was read.

        Raises:
            OSError: if it cannot be read.
        """
        with open_raw(path) as raw:
            raw.seek(self.num_bytes)
            while chunk := raw.read(_CHUNK_BYTES):
                self.add(self.num_bytes, chunk)
                on_read(len(chunk))
        if self._known:  # Of bytes that are not there any more.
            length, expected = self._known.pop()
            self._compare(length, expected)

    def _update(self, data: memoryview) -> None:
        self._hash.update(data)
        self.num_bytes += len(data)

    def _compare(self, length: int, expected: str) -> None:
        found = self.hexdigest()
        if found != expected and self.difference is None:
            self.difference = length, expected, found


@dataclasses.dataclass(frozen=True)
class HashedFile:
    """A path whose bytes are hashed while a reader reads them.

    Attributes:
        path: the file; its attributes are those of this object too.
        checksum: takes the bytes.
    """

    path: file_listing.Path
    checksum: RunningChecksum

    def __getattr__(self, name: str) -> Any:
        return getattr(self.path, name)

    def __str__(self) -> str:
        return str(self.path)


class _Hashed(io.RawIOBase):
    """A raw file whose bytes a `RunningChecksum` takes while they are read."""

    def __init__(self, raw: io.RawIOBase, checksum: RunningChecksum):
        super().__init__()
        self._raw = raw
        self._checksum = checksum

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:
        position = self._raw.tell()
        size = self._raw.readinto(buffer)
        self._checksum.add(position, memoryview(buffer)[:size])
        return size

    def readall(self) -> bytes:
        position = self._raw.tell()
        data = self._raw.readall()
        self._checksum.add(position, data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def close(self) -> None:
        self._raw.close()
        super().close()


def _is_local(path: file_listing.Path) -> bool:
    return isinstance(path, pathlib.Path)


def _reach(path: file_listing.Path, call: Callable[[], Any]) -> Any:
    """Calls what reaches for a remote file, several times if it fails."""
    try:
        return remote_files.with_retries(str(path), call)
    # Each kind of storage raises different exceptions.
    except Exception as error:
        raise UnreachableError(
            f"{path}: cannot be read: {type(error).__name__}: {error}. What "
            "is finished is kept: run the same command again when it can be"
        ) from error


class _Remote(io.RawIOBase):
    """A remote file; whatever goes wrong with it is an UnreachableError."""

    def __init__(self, path: file_listing.Path):
        super().__init__()
        self._path = path
        self._file = _reach(path, lambda: path.open("rb"))
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:
        data = self._reach(lambda file: file.read(len(buffer)))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = self._reach(lambda file: file.seek(offset, whence))
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        # Nothing was written, so nothing is lost where closing fails.
        if not self.closed and "_file" in vars(self):
            with contextlib.suppress(Exception):
                self._file.close()
        super().close()

    def _reach(self, call: Callable[[Any], Any]) -> Any:
        def attempt() -> tuple[Any, Any]:
            # Nothing that an attempt which stalled still has.
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
