"""Reads and writes files at URLs with fsspec, and retries failed operations.

Local copies and uploads to object stores appear atomically. Temporary failures (server
errors, lost connections, truncated files) are retried after increasing pauses.
"""

import contextlib
import logging
import os
import pathlib
import re
import time
import uuid
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from seg_tf import files

if TYPE_CHECKING:
    import upath

Path: TypeAlias = "pathlib.Path | upath.UPath"
"""A local path or URL. Both have `stat`, `open`, `name` and `suffix`."""

ATTEMPTS = 6
# Seconds before the second attempt. Each later pause is twice as long.
_PAUSE = 0.5
# An attempt fails if the server sends no data for this long.
STALL_SECONDS = 30.0
# Errors for which another attempt would fail in the same way.
_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)

_T = TypeVar("_T")


def is_url(text: str) -> bool:
    """Returns whether a text is a URL and not an existing local path."""
    return bool(_URL.match(text)) and not os.path.exists(text)


def to_path(path: "str | os.PathLike[str] | Path") -> Path:
    """Converts a string or path object to a `Path`, which is a `UPath` for a URL.

    Raises ValueError if the URL's protocol is unknown or needs a missing package.
    """
    if not isinstance(path, str):
        return pathlib.Path(path) if isinstance(path, os.PathLike) else path
    return remote_path(path) if is_url(path) else pathlib.Path(os.path.expanduser(path))


def remote_path(url: str) -> "upath.UPath":
    """Returns the `UPath` of a URL. Raises ValueError for an unsupported protocol."""
    # Imported late, because most corpora are local.
    import upath

    scheme, separator, rest = url.partition("://")
    url = scheme.lower() + separator + rest
    try:
        options: dict[str, Any] = {}
        # A file may take long, provided that data keeps arriving.
        if scheme.lower() in ("http", "https"):
            import aiohttp

            timeout = aiohttp.ClientTimeout(sock_read=STALL_SECONDS)
            options["client_kwargs"] = {"timeout": timeout}
        elif scheme.lower() == "s3":
            options["config_kwargs"] = {"read_timeout": STALL_SECONDS}
        with warnings.catch_warnings():
            # upath warns about protocols that only fsspec implements.
            warnings.simplefilter("ignore", UserWarning)
            path = upath.UPath(url, **options)
        _ = path.fs  # Does not connect yet, but imports the package.
    except (ImportError, ValueError, OSError) as error:
        raise ValueError(
            "The input must be a URL with a supported protocol. "
            f"{error}. Received: {url!r}"
        ) from error
    return path


def read_bytes(url: str) -> bytes | None:
    """Returns the content of a small remote file, or None if it does not exist.

    Raises OSError if the file cannot be read in `ATTEMPTS` attempts.
    """
    remote = remote_path(url)
    try:
        return _named_retries(url, lambda: remote.fs.cat_file(remote.path))
    except FileNotFoundError:
        return None


def download(
    url: str, path: pathlib.Path, size: int | None = None, sha256: str | None = None
) -> None:
    """Copies a remote file to `path`. No other process may write to its folder.

    Raises FileNotFoundError if the file does not exist, and OSError if all attempts
    fail. An attempt also fails if the copy's size in bytes or SHA-256 is wrong.
    """
    remote = remote_path(url)
    part = path.with_name(uuid.uuid4().hex)

    def attempt() -> None:
        remote.fs.get_file(remote.path, str(part))
        num_bytes = part.stat().st_size
        if size is not None and num_bytes != size:
            raise OSError(f"expected {size} bytes, found {num_bytes}")
        if sha256 is not None and (checksum := files.checksum(part)) != sha256:
            raise OSError(f"expected the sha256 {sha256}, found {checksum}")

    try:
        _named_retries(url, attempt)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def upload(path: pathlib.Path, url: str) -> None:
    """Copies a local file to a URL. Raises OSError after several failed attempts."""
    remote = remote_path(url)

    def attempt() -> None:
        remote.fs.put_file(str(path), remote.path)
        expected, actual = path.stat().st_size, remote.fs.size(remote.path)
        if actual != expected:
            raise OSError(f"expected {expected} bytes, found {actual}")

    _named_retries(url, attempt)


def remove(url: str) -> None:
    """Removes a remote file if it exists. Raises OSError after failed attempts."""
    remote = remote_path(url)
    with contextlib.suppress(FileNotFoundError):
        _named_retries(url, lambda: remote.fs.rm_file(remote.path))


def _named_retries(url: str, attempt: Callable[[], _T]) -> _T:
    """Calls `with_retries`. Converts all errors but FileNotFoundError to OSError."""
    try:
        return with_retries(url, attempt)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise OSError(f"{url}: {str(error) or type(error).__name__}") from error


def with_retries(url: str, attempt: Callable[[], _T]) -> _T:
    """Calls `attempt` until it succeeds, at most `ATTEMPTS` times. Returns its result.

    Raises the error of the last attempt. Errors that would recur, such as a missing
    file or permission, are raised immediately. `url` is used in log messages.
    """
    for number in range(1, ATTEMPTS + 1):
        try:
            return attempt()
        # Each library raises different errors for a lost connection.
        except Exception as error:
            fault: BaseException = error
            if isinstance(error, FileNotFoundError):
                fault = _fault_behind(error) or error
            if fault is error and isinstance(error, _LASTING):
                raise
            text = f"{type(fault).__name__}: {fault}"
            if number == ATTEMPTS:
                if fault is error:
                    raise
                raise OSError(text) from error
            pause = _PAUSE * 2 ** (number - 1)
            logging.warning(
                "%s: attempt %d of %d failed (%s); again in %g s",
                *(url, number, ATTEMPTS, text, pause),
            )
            time.sleep(pause)
    raise AssertionError("unreachable")


def _fault_behind(error: FileNotFoundError) -> BaseException | None:
    """Returns the real error if fsspec misreported it as a missing file, else None."""
    cause = error.__cause__
    if isinstance(cause, FileNotFoundError):
        return _fault_behind(cause)
    if type(cause).__module__.partition(".")[0] == "aiohttp":
        return None if getattr(cause, "status", None) in (404, 410) else cause
    return cause if isinstance(cause, OSError) else None
