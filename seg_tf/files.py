"""Files and folders that appear whole under their final name or not at all."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import uuid
from collections.abc import Iterator
from typing import Any

# What is not finished, or no longer wanted, has this in front of its name.
_ASIDE_PREFIX = ".aside-"
_LOCK_FILE = ".lock"


def cache_dir() -> pathlib.Path:
    """The user's folder for what can be made again: `$XDG_CACHE_HOME/seg_tf`."""
    return pathlib.Path(
        os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "seg_tf"
    )


def aside(path: pathlib.Path) -> pathlib.Path:
    """The name under which `path` is written before it is finished."""
    return path.with_name(_ASIDE_PREFIX + path.name)


def publish(path: pathlib.Path) -> None:
    """Gives the file or folder at `aside(path)` its final name.

    Raises:
        IsADirectoryError: if a file would take the place of a folder.
    """
    unfinished = aside(path)
    if path.is_dir() and not unfinished.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder is in the way", str(path))
    parts = (
        [*unfinished.rglob("*"), unfinished] if unfinished.is_dir() else [unfinished]
    )
    for part in parts:
        sync(part)
    if path.is_dir():
        remove_folder(path)
    os.replace(unfinished, path)
    sync(path.parent)


def sync(path: pathlib.Path) -> None:
    """Waits until a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(path: pathlib.Path) -> None:
    """Removes a folder; killed on the way, no half of it keeps the final name."""
    doomed = path.with_name(f"{_ASIDE_PREFIX}removed-{path.name}")
    shutil.rmtree(doomed, ignore_errors=True)
    os.replace(path, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def remove_leftovers(folder: pathlib.Path) -> None:
    """Removes what a killed process left aside in `folder`."""
    for path in folder.glob(f"{_ASIDE_PREFIX}*"):
        _remove(path)


def _remove(path: pathlib.Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def check_room(folder: pathlib.Path, num_bytes: int) -> None:
    """Makes sure that `num_bytes` can be written, by reserving them for a moment.

    HDF5 does not survive a disk that fills up while it writes: the process dies.

    Raises:
        OSError: if there is not enough space.
    """
    reservation = aside(folder / "reservation")
    try:
        with open(reservation, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, num_bytes)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # cannot reserve
            needed = f"{error.strerror} ({num_bytes:,} bytes needed)"
            raise OSError(error.errno, needed) from error
    finally:
        reservation.unlink(missing_ok=True)


@contextlib.contextmanager
def written_aside(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Gives a name to write to; what is there becomes `path` if the block succeeds.

    When the block raises (a full disk, an interrupt), it is removed and whatever was
    under `path` before stays as it was.
    """
    unfinished = aside(path)
    if unfinished.is_dir():  # of a killed process; a file is written over
        _remove(unfinished)
    try:
        yield unfinished
        publish(path)
    except BaseException:
        _remove(unfinished)
        raise


@contextlib.contextmanager
def folder_aside(parent: pathlib.Path) -> Iterator[pathlib.Path]:
    """Makes an empty folder that no other process has, removed after the block."""
    folder = aside(parent / uuid.uuid4().hex)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def locked(folder: pathlib.Path, refusal: Exception | None = None) -> Iterator[None]:
    """Keeps other processes that ask for it out of a folder while the block runs.

    The lock is a file of the folder that stays: were it removed, a process that waits
    for it and one that makes it anew would both hold a lock.

    Args:
        folder: an existing folder.
        refusal: what to raise if another process is in it; None waits until none is.

    Raises:
        Exception: `refusal`.
    """
    with (
        open(folder / _LOCK_FILE, "w") as lock,
        _held(lock.fileno(), fcntl.LOCK_EX, refusal),
    ):
        yield


@contextlib.contextmanager
def locked_for_reading(folder: pathlib.Path, refusal: Exception) -> Iterator[None]:
    """Keeps processes that want a folder `locked` out of it while the block runs.

    Any number of processes may read at a time. A folder that has no lock file and may
    not be written to is read without one, as is one that does not exist.

    Args:
        folder: the folder.
        refusal: what to raise if a process has it locked.

    Raises:
        Exception: `refusal`.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            lock = os.open(folder / _LOCK_FILE, os.O_RDONLY | os.O_CREAT, 0o666)
            stack.callback(os.close, lock)
            stack.enter_context(_held(lock, fcntl.LOCK_SH, refusal))
        yield


@contextlib.contextmanager
def _held(lock: int, kind: int, refusal: Exception | None) -> Iterator[None]:
    try:
        fcntl.flock(lock, kind | (fcntl.LOCK_NB if refusal else 0))
    except BlockingIOError:
        raise refusal from None
    try:
        yield
    finally:
        # Closing the file would not do: a process that is being started has a copy of
        # its descriptor until it runs its own program, and holds the lock by it.
        fcntl.flock(lock, fcntl.LOCK_UN)


def write_text(path: pathlib.Path, text: str) -> None:
    with written_aside(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def write_json(path: pathlib.Path, value: Any) -> None:
    write_text(path, to_json(value))


def read_json(path: pathlib.Path) -> Any:
    """Reads a JSON file.

    Raises:
        ValueError: if it is not JSON, naming the file and, for bad syntax, line and
            column.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: expected UTF-8, found byte 0x{error.object[error.start]:02X} at "
            f"byte {error.start}"
        ) from error
    # A number of thousands of digits, or brackets in brackets without end.
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not valid JSON: {error}") from error


def to_json(value: Any) -> str:
    """Readable JSON in the order of the values.

    The order matters: that of a config's index tables is that of their weights.
    """
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def checksum(path: pathlib.Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
