"""Whole files copied to and from buckets, and checked.

An object of a bucket appears whole or not at all, and so does a local file.
"""

import contextlib
import io
import itertools
import os
import pathlib
import uuid
from collections.abc import Callable, Iterator
from typing import BinaryIO, TypeVar

from seg_tf import file_listing, files, remote_calls

_CHUNK = 1 << 22

_T = TypeVar("_T")
_File = TypeVar("_File", bound=BinaryIO)


def read_bytes(url: str) -> bytes | None:
    """Content of a small file; None if there is none.

    Raises:
        OSError: if it cannot be read, after several attempts.
    """
    try:
        return _copy(url, io.BytesIO, io.BytesIO.getvalue)
    except FileNotFoundError:
        return None


def download(
    url: str, path: pathlib.Path, size: int | None = None, sha256: str | None = None
) -> None:
    """Copies a file of a bucket to the disk.

    Args:
        url: the file.
        path: where it goes, in a folder that nobody else writes to.
        size: its bytes, if they are known.
        sha256: its checksum, if it is known.

    Raises:
        FileNotFoundError: if there is no such file.
        OSError: if it cannot be copied, or is another, after several attempts.
    """

    @contextlib.contextmanager
    def new_part() -> Iterator[BinaryIO]:
        part = path.with_name(uuid.uuid4().hex)
        try:
            with open(part, "xb") as file:
                yield file
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    def check(part: BinaryIO) -> str:
        part.flush()
        if size is not None and (found := part.tell()) != size:
            raise OSError(f"expected {size} bytes, found {found}")
        if sha256 is not None and (
            (found := files.checksum(pathlib.Path(part.name))) != sha256
        ):
            raise OSError(f"expected the sha256 {sha256}, found {found}")
        return part.name

    os.replace(_copy(url, new_part, check), path)


def _copy(
    url: str,
    new_target: Callable[[], contextlib.AbstractContextManager[_File]],
    finish: Callable[[_File], _T],
) -> _T:
    """Copies a file into a target, new in each attempt, and calls `finish` with it."""
    remote = file_listing.to_path(url)
    # One request over HTTP: not every server has parts of files.
    block_size = 0 if remote.protocol in ("http", "https") else _CHUNK
    num_bytes = 0

    def attempt() -> _T:
        nonlocal num_bytes
        with (
            remote.fs.open(remote.path, "rb", block_size=block_size) as source,
            new_target() as target,
        ):
            while chunk := source.read(_CHUNK):
                target.write(chunk)
                num_bytes += len(chunk)
            return finish(target)

    return _insistently(url, attempt, lambda: num_bytes)


def upload(path: pathlib.Path, url: str) -> None:
    """Copies a file of the disk to a bucket.

    Raises:
        OSError: if it cannot be copied, after several attempts.
    """
    remote = file_listing.to_path(url)

    def attempt() -> None:
        remote.fs.put_file(str(path), remote.path)
        expected, found = path.stat().st_size, remote.fs.size(remote.path)
        if found != expected:
            raise OSError(f"expected {expected} bytes, found {found}")

    # How much is sent is not known: it is left to the library when to give up.
    _insistently(url, attempt, itertools.count().__next__)


def remove(url: str) -> None:
    """Removes a file of a bucket, if it is there."""
    remote = file_listing.to_path(url)
    try:
        _insistently(url, lambda: remote.fs.rm_file(remote.path))
    except FileNotFoundError:
        return


def _insistently(
    url: str, attempt: Callable[[], _T], progress: Callable[[], int] = lambda: 0
) -> _T:
    try:
        return remote_calls.insistently(url, attempt, progress)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise OSError(f"{url}: {str(error) or type(error).__name__}") from error
