"""Folders that many test files read and none changes, made once for all processes."""

import os
import pathlib
from collections.abc import Callable

import filelock
import pytest


def made_once(
    factory: pytest.TempPathFactory, name: str, write: Callable[[pathlib.Path], object]
) -> pathlib.Path:
    """Returns the folder of that name; the first process that asks writes it.

    Args:
        factory: whose folders all workers share.
        name: of the folder.
        write: fills an empty folder.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder = root / name
    with filelock.FileLock(root / f"{name}.lock"):
        if not folder.exists():
            # What a failure leaves behind has another name.
            unfinished = factory.mktemp(name)
            write(unfinished)
            unfinished.rename(folder)
    return folder
