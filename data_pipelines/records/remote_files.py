"""Whole files copied to and from buckets, and checked.

An object of a bucket appears whole or not at all; a local file is written aside.
"""

import pathlib
import shutil
from collections.abc import Callable
from typing import TypeVar

from seg_tf import file_listing, files, remote_calls

_CHUNK = 1 << 22

_T = TypeVar("_T")


def read_bytes(url: str) -> bytes | None:
    """Content of a small file; None if there is none.

    Raises:
        OSError: if it cannot be read, after several attempts.
    """
    remote = file_listing.to_path(url)
    try:
        return _insistently(url, remote.read_bytes)
    except FileNotFoundError:
        return None


def download(
    url: str, path: pathlib.Path, size: int | None = None, sha256: str | None = None
) -> None:
    """Copies a file of a bucket to the disk.

    Args:
        url: the file.
        path: where it goes.
        size: its bytes, if they are known.
        sha256: its checksum, if it is known.

    Raises:
        FileNotFoundError: if there is no such file.
        OSError: if it cannot be copied, or is another, after several attempts.
    """
    remote = file_listing.to_path(url)

    def attempt() -> None:
        with files.written_aside(path) as aside:
            with remote.open("rb") as source, open(aside, "wb") as target:
                shutil.copyfileobj(source, target, _CHUNK)
            found = aside.stat().st_size
            expected = remote.stat().st_size if size is None else size
            if found != expected:
                raise OSError(f"expected {expected} bytes, found {found}")
            if sha256 is not None and (other := files.checksum(aside)) != sha256:
                raise OSError(f"expected the sha256 {sha256}, found {other}")

    _insistently(url, attempt)


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

    _insistently(url, attempt)


def size(url: str) -> int | None:
    """Bytes of a file of a bucket; None if there is none."""
    remote = file_listing.to_path(url)

    def attempt() -> int:
        remote.fs.invalidate_cache()
        return remote.fs.size(remote.path)

    try:
        return _insistently(url, attempt)
    except FileNotFoundError:
        return None


def remove(url: str) -> None:
    """Removes a file of a bucket, if it is there."""
    remote = file_listing.to_path(url)
    try:
        _insistently(url, lambda: remote.fs.rm_file(remote.path))
    except FileNotFoundError:
        return


def _insistently(url: str, attempt: Callable[[], _T]) -> _T:
    try:
        return remote_calls.insistently(url, attempt)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise OSError(f"{url}: {error}") from error
