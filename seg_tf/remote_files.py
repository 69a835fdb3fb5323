"""Files at URLs, read with fsspec: paths, whole copies, and calls that are retried.

An object of a bucket appears whole or not at all, and so does a local copy. What fails
for a passing reason (a server's error, a lost connection, a file cut off) is tried
again after a growing pause. A server that has stopped sending is tried twice.
"""

import concurrent.futures
import contextlib
import io
import itertools
import logging
import os
import pathlib
import re
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, TypeVar

from seg_tf import files

if TYPE_CHECKING:
    import upath

Path: TypeAlias = "pathlib.Path | upath.UPath"
"""A local file, or one at a URL: `stat`, `open`, `name` and `suffix` are alike."""

ATTEMPTS = 6
# Seconds before the second attempt; each later pause is twice as long.
_PAUSE = 0.5
STALL_SECONDS = 60.0
"""A server that sends no byte for this long is given up."""
# Another attempt would fail in the same way.
_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError)
_CHUNK = 1 << 22
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)

_T = TypeVar("_T")
_File = TypeVar("_File", bound=BinaryIO)


def is_url(text: str) -> bool:
    """Recognises a URL, unless there is a file of that very name."""
    return bool(_URL.match(text)) and not os.path.exists(text)


def to_path(path: "str | os.PathLike[str] | Path") -> Path:
    """A path as an object; one of a URL, such as `gs://bucket/file`, is a `UPath`.

    Raises:
        ValueError: if the package that reads such URLs is not installed, naming it.
    """
    if not isinstance(path, str):
        return pathlib.Path(path) if isinstance(path, os.PathLike) else path
    return remote_path(path) if is_url(path) else pathlib.Path(os.path.expanduser(path))


def remote_path(url: str) -> "upath.UPath":
    """The path at a URL; errors are those of `to_path`."""
    # Imported late: most corpora are on a disk.
    import upath

    scheme, separator, rest = url.partition("://")
    url = scheme.lower() + separator + rest
    try:
        options: dict[str, Any] = {}
        if scheme.lower() in ("http", "https"):
            import aiohttp

            # A file may take long, as long as bytes arrive.
            timeout = aiohttp.ClientTimeout(sock_read=STALL_SECONDS)
            options["client_kwargs"] = {"timeout": timeout}
        with warnings.catch_warnings():
            # About protocols that only fsspec knows.
            warnings.simplefilter("ignore", UserWarning)
            path = upath.UPath(url, **options)
        _ = path.fs  # Does not connect yet, but needs the package.
    except (ImportError, ValueError, OSError) as error:
        needs = ""
        if scheme.lower() in ("hdfs", "viewfs"):
            needs = " It needs Hadoop: set JAVA_HOME, HADOOP_HOME and CLASSPATH."
        raise ValueError(
            f"The input must be a URL of a kind that can be read here. {error}."
            f"{needs} Received: {url!r}"
        ) from error
    return path


def read_bytes(url: str) -> bytes | None:
    """Content of a small file, or None; an OSError after several failed attempts."""
    try:
        return _copy(url, io.BytesIO, io.BytesIO.getvalue)
    except FileNotFoundError:
        return None


def download(
    url: str, path: pathlib.Path, size: int | None = None, sha256: str | None = None
) -> None:
    """Copies a remote file to the disk.

    Args:
        url: the file.
        path: the copy, in a folder that no other process writes to.
        size: number of bytes to expect; None accepts any.
        sha256: checksum to expect; None accepts any.

    Raises:
        FileNotFoundError: if there is no such file.
        OSError: if it cannot be copied, or differs, after several attempts.
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
        if size is not None and part.tell() != size:
            raise OSError(f"expected {size} bytes, found {part.tell()}")
        if sha256 is not None:
            checksum = files.checksum(pathlib.Path(part.name))
            if checksum != sha256:
                raise OSError(f"expected the sha256 {sha256}, found {checksum}")
        return part.name

    os.replace(_copy(url, new_part, check), path)


def _copy(
    url: str,
    new_target: Callable[[], contextlib.AbstractContextManager[_File]],
    finish: Callable[[_File], _T],
) -> _T:
    """Copies a file into a target, new in each attempt, and calls `finish` with it."""
    remote = remote_path(url)
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

    return _named_retries(url, attempt, lambda: num_bytes)


def upload(path: pathlib.Path, url: str) -> None:
    """Copies a local file to a URL; an OSError after several failed attempts."""
    remote = remote_path(url)

    def attempt() -> None:
        remote.fs.put_file(str(path), remote.path)
        expected, actual = path.stat().st_size, remote.fs.size(remote.path)
        if actual != expected:
            raise OSError(f"expected {expected} bytes, found {actual}")

    # The number of bytes sent is unknown: the library decides when to give up.
    _named_retries(url, attempt, itertools.count().__next__)


def remove(url: str) -> None:
    """Removes a remote file, if it exists."""
    remote = remote_path(url)
    with contextlib.suppress(FileNotFoundError):
        _named_retries(url, lambda: remote.fs.rm_file(remote.path))


def _named_retries(
    url: str, attempt: Callable[[], _T], progress: Callable[[], int] = lambda: 0
) -> _T:
    """`with_retries`, whose last error is an OSError that names the URL."""
    try:
        return with_retries(url, attempt, progress)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise OSError(f"{url}: {str(error) or type(error).__name__}") from error


def with_retries(
    url: str, attempt: Callable[[], _T], progress: Callable[[], int] = lambda: 0
) -> _T:
    """Calls until the call succeeds, at most `ATTEMPTS` times.

    Each attempt runs in a thread, which is left behind if it stalls: attempts must not
    share state.

    Args:
        url: what the call is about, for messages.
        attempt: the call; each library has its own errors for a lost connection.
        progress: changes while a long attempt is not stalled.

    Raises:
        Exception: of the last attempt, or one that every attempt would raise (no such
            file, no permission).
        TimeoutError: if the server sent nothing for `STALL_SECONDS` in all.
    """
    has_stalled = False
    for number in range(1, ATTEMPTS + 1):
        try:
            return _watched(attempt, progress)
        except _LASTING:
            raise
        except Exception as error:
            if isinstance(error, _StalledError):
                if has_stalled:
                    raise TimeoutError(
                        f"the server sent nothing for {STALL_SECONDS:g} s, given up"
                    ) from None
                has_stalled = True
            if number == ATTEMPTS:
                raise
            pause = _PAUSE * 2 ** (number - 1)
            logging.warning(
                "%s: attempt %d of %d failed (%s: %s); again in %g s",
                *(url, number, ATTEMPTS, type(error).__name__, error, pause),
            )
            time.sleep(pause)
    raise AssertionError("unreachable")


class _StalledError(TimeoutError):
    """A server sent nothing for half of `STALL_SECONDS`."""


def _watched(attempt: Callable[[], _T], progress: Callable[[], int]) -> _T:
    """Calls; raises _StalledError if it neither returns nor makes progress."""
    outcome: concurrent.futures.Future[_T] = concurrent.futures.Future()

    def run() -> None:
        try:
            outcome.set_result(attempt())
        except BaseException as error:
            outcome.set_exception(error)

    seconds, before = STALL_SECONDS / 2, progress()
    threading.Thread(target=run, daemon=True).start()
    while not concurrent.futures.wait([outcome], seconds).done:
        if (now := progress()) == before:
            raise _StalledError(f"the server sent nothing for {seconds:g} s")
        before = now
    try:
        return outcome.result()
    except FileNotFoundError as error:
        if (fault := _fault_behind(error)) is None:
            raise
        raise OSError(f"{type(fault).__name__}: {fault}") from error


def _fault_behind(error: FileNotFoundError) -> BaseException | None:
    """The fault that fsspec took for a missing file, such as an HTTP status of 500."""
    cause = error.__cause__
    if isinstance(cause, FileNotFoundError):
        return _fault_behind(cause)
    if type(cause).__module__.partition(".")[0] == "aiohttp":
        return None if getattr(cause, "status", None) in (404, 410) else cause
    return cause if isinstance(cause, OSError) else None
