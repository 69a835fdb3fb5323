"""`log.jsonl`: one JSON object per log interval and per validation."""

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from seg_tf import files

TRAIN = "train"
VALIDATION = "validation"


class RunLog:
    """Appends rows, each under the number of updates done.

    Args:
        path: the file. A log that is there is continued.
        updates: updates that are done when the run starts or continues. Rows that
            a previous process wrote after them are dropped, since they will be
            written again.
        validated: whether the validation after `updates` is done too.

    Attributes:
        has_rows: whether the log has any.
        validations: its rows of validations.
    """

    def __init__(self, path: pathlib.Path, updates: int = 0, validated: bool = False):
        self.path = path
        kept = [row for row in read(path) if _is_done(row, updates, validated)]
        self._kept = kept
        self.validations = [row for row in kept if row["kind"] == VALIDATION]
        self.has_rows = bool(kept)
        files.write_text(path, "".join(_line(row) for row in kept))

    def last_kept(self, name: str) -> float | None:
        """Value of the last row of a previous process that has one and was kept."""
        return next((row[name] for row in reversed(self._kept) if name in row), None)

    def write(self, kind: str, updates: int, values: Mapping[str, Any]) -> None:
        row = {"kind": kind, "updates": updates, **values}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(_line(row))
            file.flush()
            # A checkpoint must not outlive the rows before it.
            os.fsync(file.fileno())
        self.has_rows = True
        if kind == VALIDATION:
            self.validations.append(row)


def read(path: pathlib.Path) -> list[dict[str, Any]]:
    """Rows of a log, in order; none where there is no log.

    A last line that was cut off when its process was killed is left out.

    Raises:
        ValueError: if any other line is not JSON, naming the line.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number == len(lines):  # no newline after it: never finished
                break
            raise ValueError(f"{path}:{number}: not valid JSON: {error.msg}") from error
    return rows


def _is_done(row: Mapping[str, Any], updates: int, validated: bool) -> bool:
    if row["kind"] == VALIDATION and not validated:
        return row["updates"] < updates
    return row["updates"] <= updates


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
