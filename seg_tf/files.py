"""Writes files and folders atomically, locks folders, and computes checksums."""

import contextlib
import errno
import fcntl
import glob
import hashlib
import json
import os
import pathlib
import shutil
import stat
import uuid
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

# Prefix of the names of unfinished files and of files to be removed.
_ASIDE_PREFIX = ".aside-"
_REPLACED_FOLDER = ".replaced"
_LOCK_FILE = ".lock"


def cache_dir() -> pathlib.Path:
    """Returns the project's folder in the user's cache, by default ~/.cache/seg_tf."""
    return pathlib.Path(
        os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "seg_tf"
    )


def sync(path: pathlib.Path) -> None:
    """Flushes the content of a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def remove_folder(path: pathlib.Path) -> None:
    """Removes a folder atomically: renames it before its files are removed."""
    with folder_aside(path.parent) as aside:
        os.replace(path, aside / path.name)


def remove_leftovers(folder: pathlib.Path) -> None:
    """Cleans up after killed writers in `folder`. No process may be writing there."""
    for path in folder.glob(f"{_ASIDE_PREFIX}*"):
        _discard(path)


def _discard(aside: pathlib.Path) -> None:
    """Removes unfinished output and restores a folder whose replacement is missing."""
    if not aside.is_dir():
        aside.unlink(missing_ok=True)
        return
    for replaced in (aside / _REPLACED_FOLDER).glob("*"):
        if not os.path.lexists(aside.parent / replaced.name):
            os.replace(replaced, aside.parent / replaced.name)
    shutil.rmtree(aside, ignore_errors=True)


def check_room(folder: pathlib.Path, num_bytes: int) -> None:
    """Raises OSError unless `num_bytes` bytes can be reserved in a folder.

    Without this check, a full disk would make HDF5 abort the process. File systems that
    cannot reserve space are not checked.
    """
    try:
        with folder_aside(folder) as aside, open(aside / "reservation", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, num_bytes)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # unsupported here
            reason = f"{error.strerror} ({num_bytes:,} bytes needed)"
            raise OSError(error.errno, reason) from error


@contextlib.contextmanager
def written_aside(
    path: pathlib.Path, *, overwrite: bool = True
) -> Iterator[pathlib.Path]:
    """Context manager that yields a temporary path and renames it to `path` on success.

    While the block runs, no other process can write to `path` with this function. If
    the block raises an error, `path` is unchanged. If the process is killed, the next
    call for `path` removes the leftovers or restores the previous folder. Without
    `overwrite`, existing files and non-empty folders are not replaced.

    Raises:
        ValueError: if `path` is being written, or exists and `overwrite` is False.
        IsADirectoryError: if a file would replace a folder.
    """
    with _writing(path):
        if not overwrite:
            _check_absent(path)
        with folder_aside(path.parent) as aside:
            yield aside / path.name
            _publish(aside / path.name, path)


def _check_absent(path: pathlib.Path) -> None:
    if path.exists() and (path.is_file() or any(path.iterdir())):
        raise ValueError(
            "The output must be new, or a folder that is empty. Nothing was "
            f"changed. Received: {path}, which exists"
        )


@contextlib.contextmanager
def new_folder(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Context manager that yields a temporary folder, renamed to `folder` on success.

    Like `written_aside` without `overwrite`. Missing parent folders are created.
    """
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(folder, overwrite=False) as unfinished:
        unfinished.mkdir()
        yield unfinished


def check_new_folder(folder: pathlib.Path) -> None:
    """Raises ValueError if a folder is being written, is a file or is not empty."""
    check_not_in_use(folder.absolute())
    _check_absent(folder)


def check_not_in_use(path: pathlib.Path) -> None:
    """Raises ValueError if `path` is being written. Otherwise removes any leftovers."""
    if _lock_path(path).exists():
        with _writing(path):
            pass


def being_written(folder: pathlib.Path, names: Container[str]) -> list[str]:
    """Returns those `names` whose files in `folder` other processes are writing.

    Removes the leftovers of killed processes that were writing the remaining names.
    """
    in_use = []
    for lock in folder.glob(f"{_ASIDE_PREFIX}*{_LOCK_FILE}"):
        name = lock.name.removeprefix(_ASIDE_PREFIX).removesuffix(_LOCK_FILE)
        if name in names:
            try:
                check_not_in_use(folder / name)
            except ValueError:
                in_use.append(name)
    return in_use


def _publish(unfinished: pathlib.Path, path: pathlib.Path) -> None:
    """Renames a finished file or folder to `path`, moving an old folder aside first."""
    if path.is_dir() and not unfinished.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder is in the way", str(path))
    for part in (*unfinished.rglob("*"), unfinished):
        sync(part)
    if path.is_dir():
        # If interrupted after this line, `_discard` restores the old folder.
        replaced = unfinished.parent / _REPLACED_FOLDER / path.name
        replaced.parent.mkdir()
        os.replace(path, replaced)
    os.replace(unfinished, path)
    sync(path.parent)


def _lock_path(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(f"{_ASIDE_PREFIX}{path.name}{_LOCK_FILE}")


@contextlib.contextmanager
def _writing(path: pathlib.Path) -> Iterator[None]:
    """Locks `path` and removes leftovers, or raises ValueError if it is locked."""
    lock_path = _lock_path(path)
    in_use = ValueError(
        "The output must not be in use. Nothing was changed. Received: "
        f"{path}, which another process is writing now"
    )
    with contextlib.ExitStack() as stack:
        while True:
            is_new = not lock_path.exists()
            lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            closing = stack.enter_context(contextlib.ExitStack())
            closing.callback(os.close, lock)
            closing.enter_context(_held(lock, fcntl.LOCK_EX, in_use))
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), os.stat(lock_path)):
                    break
            closing.close()  # The previous holder removed the file, so try again.
        stack.callback(lock_path.unlink, missing_ok=True)
        if not is_new:
            name = glob.escape(path.name)
            for place in (name, f"{_REPLACED_FOLDER}/{name}"):
                for leftover in path.parent.glob(f"{_ASIDE_PREFIX}*/{place}"):
                    parents = leftover.relative_to(path.parent).parts
                    _discard(path.parent / parents[0])
        yield


@contextlib.contextmanager
def folder_aside(parent: pathlib.Path) -> Iterator[pathlib.Path]:
    """Context manager that yields a temporary folder in `parent`, removed on exit."""
    folder = parent / f"{_ASIDE_PREFIX}{uuid.uuid4().hex}"
    folder.mkdir()
    try:
        yield folder
    finally:
        _discard(folder)


@contextlib.contextmanager
def locked(folder: pathlib.Path, refusal: Exception | None = None) -> Iterator[None]:
    """Context manager that locks an existing folder for one process.

    If another process has locked it, raises `refusal`, or waits if `refusal` is None.
    The lock file is left behind on purpose, since waiting processes have it open.
    """
    with (
        open(folder / _LOCK_FILE, "w") as lock,
        _held(lock.fileno(), fcntl.LOCK_EX, refusal),
    ):
        yield


@contextlib.contextmanager
def locked_for_reading(folder: pathlib.Path, refusal: Exception) -> Iterator[None]:
    """Context manager that holds a shared lock, so that a folder cannot be `locked`.

    If another process has `locked` the folder, raises `refusal`. If the lock file
    cannot be opened, holds no lock.
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
        # Closing the file is not enough: a child process that is being started has a
        # copy of the descriptor, and with it the lock, until it executes its program.
        fcntl.flock(lock, fcntl.LOCK_UN)


def write_bytes(path: pathlib.Path, content: bytes) -> None:
    with written_aside(path) as unfinished:
        unfinished.write_bytes(content)


def write_text(path: pathlib.Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: pathlib.Path, value: Any) -> None:
    write_text(path, to_json(value))


def write_json_lines(path: pathlib.Path, records: Iterable[Any]) -> None:
    """Writes each record as a line of JSON."""
    with written_aside(path) as aside, open(aside, "w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def check_regular(path: pathlib.Path, max_bytes: int | None = None) -> None:
    """Raises ValueError if a file is not regular or has more than `max_bytes` bytes."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path}: must be a regular file")
    if max_bytes is not None and status.st_size > max_bytes:
        raise ValueError(
            f"{path}: must not have more than {max_bytes:,} bytes. Received: "
            f"{status.st_size:,} bytes"
        )


def read_json(path: pathlib.Path, max_bytes: int | None = None) -> Any:
    """Reads a regular JSON file. Raises ValueError if it is invalid or too large."""
    check_regular(path, max_bytes)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}"
        ) from error
    # Invalid UTF-8, a number with thousands of digits, or deeply nested brackets.
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not valid JSON: {error}") from error


def to_json(value: Any) -> str:
    """Formats a value as indented JSON. Keeps the order of keys."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def checksum(path: pathlib.Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_checksum(values: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of a dict's JSON, excluding the entry `checksum`."""
    content = {name: value for name, value in values.items() if name != "checksum"}
    return hashlib.sha256(to_json(content).encode()).hexdigest()
