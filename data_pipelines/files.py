"""Files that either stand whole under their final name or not at all."""

import contextlib
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

_ASIDE_SUFFIX = ".unfinished"


@contextlib.contextmanager
def written_aside(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Gives a name to write to; renames it to `path` when the block succeeds.

    When the block raises (a full disk, an interrupt), the file is removed and
    whatever stood under `path` before stays as it was.
    """
    aside = path.with_name(path.name + _ASIDE_SUFFIX)
    try:
        yield aside
        with open(aside, "rb") as written:
            # Without this a crash of the machine could leave an empty file
            # under the final name, after the rename reached the disk first.
            os.fsync(written.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes `value` as readable JSON that is the same for equal values."""
    with written_aside(path) as aside:
        aside.write_text(
            json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def read_json(path: pathlib.Path) -> Any:
    """Reads a JSON file.

    Raises:
        ValueError: if it is not JSON, naming file, line and column.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}"
        ) from error


def remove_unfinished(folder: pathlib.Path) -> None:
    """Removes what a killed process left aside in `folder`."""
    for path in folder.glob(f"*{_ASIDE_SUFFIX}"):
        path.unlink()


def sha256(path: pathlib.Path) -> str:
    """SHA-256 of a file's bytes, as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
