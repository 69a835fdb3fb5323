"""Files and folders that stand whole under their final name or not at all."""

import errno
import hashlib
import json
import os
import pathlib
import shutil
from typing import Any

# What is not finished, or no longer wanted, has this in front of its name.
_ASIDE_PREFIX = ".aside-"


def aside(path: pathlib.Path) -> pathlib.Path:
    """The name under which `path` is written before it is finished."""
    return path.with_name(_ASIDE_PREFIX + path.name)


def publish(path: pathlib.Path) -> None:
    """Gives the file or folder at `aside(path)` its final name."""
    unfinished = aside(path)
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
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def check_room(folder: pathlib.Path, num_bytes: int) -> None:
    """Makes sure that `num_bytes` can be written, by reserving them for a moment.

    HDF5 does not survive a disk that fills up while it writes: the process dies.

    Raises:
        OSError: if there is no room.
    """
    reservation = aside(folder / "room")
    try:
        with open(reservation, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, num_bytes)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # cannot reserve
            needed = f"{error.strerror} ({num_bytes:,} bytes needed)"
            raise OSError(error.errno, needed) from error
    finally:
        reservation.unlink(missing_ok=True)


def write_text(path: pathlib.Path, text: str) -> None:
    aside(path).write_text(text, encoding="utf-8")
    publish(path)


def to_json(value: Any) -> str:
    """Readable JSON in the order of the values.

    The order matters: that of a config's index tables is that of their weights.
    """
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def checksum(path: pathlib.Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
