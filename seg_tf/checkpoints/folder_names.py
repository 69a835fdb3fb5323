"""Names of checkpoint folders; listing a run's checkpoints needs no TensorFlow."""

import pathlib
import re

_NAME = re.compile(r"update-(\d{8,})")


def name(updates: int) -> str:
    """`update-00001000` for 1,000 updates done."""
    return f"update-{updates:08d}"


def updates_of(folder: pathlib.Path) -> int | None:
    """Updates in the name of a folder; None if it is not that of a checkpoint."""
    match = _NAME.fullmatch(folder.name)
    return int(match[1]) if match else None


def existing(folder: pathlib.Path) -> list[int]:
    """Updates of the checkpoints that lie in `folder`, rising."""
    if not folder.is_dir():
        return []
    found = (updates_of(path) for path in folder.iterdir())
    return sorted(updates for updates in found if updates is not None)
