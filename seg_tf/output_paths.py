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
    is_name = value and not value.endswith("/") and not path.is_dir()
    if not (is_name and path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise ValueError(
            f"`--{flag}` must name a file, in a folder that exists and may be written "
            f"to. Received: {value!r}"
        )
    return path


def folder_path(value: str, flag: str = "output_dir") -> pathlib.Path:
    """The path of a folder for results, which may not exist yet."""
    folder = local_path(value, flag)
    parents = (folder, *folder.absolute().parents)
    existing = next(path for path in parents if path.exists())
    if not (value and existing.is_dir() and os.access(existing, os.W_OK)):
        raise ValueError(
            f"`--{flag}` must name a folder that exists or can be made, and may be "
            f"written to. Received: {value!r}, in {existing}"
        )
    return folder


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
    """Yields a folder to write into, which becomes `folder` if the block succeeds."""
    check_new_folder(folder)
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with files.written_aside(folder, overwrite=False) as unfinished:
        unfinished.mkdir()
        yield unfinished
