"""Limit on the files that a process may have open, and shards within it."""

import errno
import os
import resource

_MOST_SHARDS = 4096
_ENOUGH = 256
"""Open files with which any number of shards is read."""


def shards_at_once() -> int:
    """The most shards that a reader keeps open, with two files each.

    A quarter of the limit: a run has a reader for each split, and other files.
    """
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return _MOST_SHARDS
    return min(max(soft // 8, 1), _MOST_SHARDS)


def open_to_read(path: str | os.PathLike) -> int:
    """Opens a file; returns its descriptor.

    Raises:
        OSError: if it cannot be opened; where the limit is the reason, with the limit
            and how to raise it.
    """
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        raise OSError(
            f"{path}: could not be opened: this process may have {soft} files open at "
            f"once (`ulimit -n`; at most {hard} without the administrator), and all "
            f"are in use. Reading records needs {_ENOUGH}, for any number of shards. "
            "Run `ulimit -n 65536` before the command, or start the container with "
            "`--ulimit nofile=65536`"
        ) from error
