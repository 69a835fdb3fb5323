"""A folder that is written aside and appears whole under its name or not at all."""

import contextlib
import pathlib
from collections.abc import Iterator

from seg_tf import files


def check(folder: pathlib.Path) -> None:
    """Raises ValueError unless a folder is new or empty, and nobody writes it."""
    files.check_not_in_use(folder.absolute())
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(
            "`--output_dir` must be a folder that is new or empty. Received: "
            f"{folder}, which is in use"
        )


@contextlib.contextmanager
def written_aside(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Gives a folder to write into; it becomes `folder` when the block succeeds.

    Args:
        folder: new or empty.

    Raises:
        ValueError: if it is not, or another process writes it.
    """
    check(folder)
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with files.written_aside(folder, overwrite=False) as aside:
        aside.mkdir()
        yield aside
