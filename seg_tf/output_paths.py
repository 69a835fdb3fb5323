"""Output paths given by flags: refused before long work if they cannot be written.

Inputs may be URLs; results are locked, renamed and synced, which only a file system can
do. All functions raise a ValueError that names the flag.
"""

import contextlib
import os
import pathlib
from collections.abc import Iterator

from seg_tf import files


def local_path(value: str, flag: str, kind: str = "folder") -> pathlib.Path:
    """The path of a result, a "folder" or "file", which must not be a URL."""
    if "://" in value:
        raise ValueError(
            f"`--{flag}` must be a {kind} of this machine or of a shared file system. "
            f"Received: {value!r}"
        )
    return pathlib.Path(value)


def file_path(value: str, flag: str) -> pathlib.Path:
    """The path of a file to write or replace, in an existing, writable folder."""
    path = local_path(value, flag, "file")
    if not value:
        reason = "which is no name"
    elif path.is_dir():
        reason = "which is a folder"
    elif value.endswith("/"):
        reason = "which ends as a folder does"
    elif not path.parent.is_dir():
        reason = "whose folder does not exist"
    elif not os.access(path.parent, os.W_OK):
        reason = "whose folder may not be written to"
    else:
        return path
    raise ValueError(
        f"`--{flag}` must name a file, in a folder that exists. Received: "
        f"{value or repr(value)}, {reason}"
    )


def folder_path(value: str, flag: str = "output_dir") -> pathlib.Path:
    """The path of a folder for results, which may not exist yet."""
    folder = local_path(value, flag)
    parents = (folder, *folder.absolute().parents)
    existing = next(path for path in parents if path.exists())
    if not value:
        reason = "which is no name"
    elif not existing.is_dir():
        reason = f"and {existing} is a file"
    elif not os.access(existing, os.W_OK):
        reason = f"and {existing} may not be written to"
    else:
        return folder
    raise ValueError(
        f"`--{flag}` must name a folder, which is made if it does not exist. "
        f"Received: {value or repr(value)}, {reason}"
    )


def check_new_folder(folder: pathlib.Path) -> None:
    """Raises ValueError unless a folder is new or empty, and nobody writes it."""
    files.check_not_in_use(folder.absolute())
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(
            "`--output_dir` must be a folder that is new or empty. Received: "
            f"{folder}, which is in use"
        )


@contextlib.contextmanager
def new_folder(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a folder to write into, which becomes `folder` if the block succeeds.

    Raises:
        ValueError: if `folder` is not new or empty, or another process writes it.
    """
    check_new_folder(folder)
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with files.written_aside(folder, overwrite=False) as unfinished:
        unfinished.mkdir()
        yield unfinished
