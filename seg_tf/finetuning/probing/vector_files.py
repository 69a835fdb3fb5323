"""Vectors of the texts of a task, computed once and kept in a folder.

  settings.json    what the vectors depend on: encoder, vocabulary, texts, how they lie
  part-00000.npy   float32 `(rows, T, D)`, and so on

Each file is written aside and renamed. A killed job continues with the parts that are
missing; another encoder, or other texts, are refused.

Shape key: E examples, N texts of each, T texts of a row, D width.
"""

import contextlib
import hashlib
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from seg_tf import command_line, files
from seg_tf.config import differing_settings
from seg_tf.finetuning.probing.frozen_encoder import FrozenEncoder

SETTINGS_FILE = "settings.json"
FORMAT_VERSION = 1
_ROWS_OF_PART = 4_096

# A number of rows -> a bar with `update`, to be used in a `with`.
Progress = Callable[[int], contextlib.AbstractContextManager[Any]]


def progress_of(description: str) -> Progress:
    """A bar with the time left, on stderr."""
    return lambda total: command_line.progress_bar(total, description, " rows")


def sentence_vectors(
    encoder: FrozenEncoder,
    examples: Sequence[tuple[str, ...]],
    folder: pathlib.Path,
    progress: Progress | None = None,
    report: Callable[[str], Any] = print,
    rows_of_part: int = _ROWS_OF_PART,
) -> np.ndarray:
    """The vector of every text of every example, from the folder as far as it has them.

    Rows that occur several times are encoded once. Of several processes that want the
    same vectors one makes them; the others wait.

    Args:
        encoder: the encoder.
        examples: at least one, each of as many texts as the encoder was told.
        folder: where the vectors of these examples are kept, and of no others.
        progress: makes a bar for a number of rows; None shows `folder` beside it.
        report: called with a line of text if rows were cut.
        rows_of_part: rows of a file; what a killed job has to do again is less.

    Returns:
        float32 array `(E, N, D)`.

    Raises:
        ValueError: if an example has another number of texts, or the folder holds
            other vectors.
    """
    for number, example in enumerate(examples):
        if len(example) != encoder.num_texts:
            raise ValueError(
                f"`examples` must have {encoder.num_texts} texts each. Received: "
                f"{len(example)} in example {number}"
            )
    rows = encoder.rows_of(examples)
    # In the order of their first occurrence.
    number_of = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    description = {
        "format_version": FORMAT_VERSION,
        "num_rows": len(number_of),
        "rows_of_part": rows_of_part,
        "texts_sha256": _checksum(number_of),
        **encoder.describe(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder):
        _begin(folder, description)
        paths = [
            folder / f"part-{number:05d}.npy"
            for number in range(-(-len(number_of) // rows_of_part))
        ]
        if not all(path.exists() for path in paths):
            files.remove_leftovers(folder)
            with (progress or progress_of(str(folder)))(len(number_of)) as bar:
                _encode(encoder, list(number_of), paths, rows_of_part, bar, report)
        of_rows = np.concatenate([np.load(path) for path in paths])
    if len(of_rows) != len(number_of):
        raise ValueError(
            f"`folder` must hold vectors of {len(number_of):,} rows. Received: "
            f"{folder}, with {len(of_rows):,}. Remove it to have them made again"
        )
    vectors = of_rows[[number_of[row] for row in rows]]
    return vectors.reshape(len(examples), encoder.num_texts, -1)


def _begin(folder: pathlib.Path, description: dict[str, Any]) -> None:
    """Makes sure that the folder is of these vectors, or says so in an empty one."""
    path = folder / SETTINGS_FILE
    if not path.exists():
        files.write_json(path, description)
        return
    differences = differing_settings(files.read_json(path), description)
    if differences:
        raise ValueError(
            f"`folder` holds other vectors: {folder}. They differ in "
            + "; ".join(differences)
            + ". Choose another folder, or remove that one"
        )


def _encode(
    encoder: FrozenEncoder,
    rows: Sequence[tuple[str, ...]],
    paths: Sequence[pathlib.Path],
    rows_of_part: int,
    bar: Any,
    report: Callable[[str], Any],
) -> None:
    """Writes the parts that are not there."""
    total_cut, num_encoded = 0, 0
    for number, path in enumerate(paths):
        of_part = rows[number * rows_of_part : (number + 1) * rows_of_part]
        if path.exists():
            bar.update(len(of_part))
            continue
        vectors, num_cut = encoder.encode(of_part, bar.update)
        total_cut += num_cut
        num_encoded += len(of_part)
        with files.written_aside(path) as unfinished:
            np.save(unfinished, vectors)
    if total_cut:
        report(
            f"Longer than a row, so that texts were cut: {total_cut:,} of "
            f"{num_encoded:,} rows encoded now"
        )


def _checksum(rows: Sequence[tuple[str, ...]]) -> str:
    """SHA-256 of texts and of where they end."""
    found = hashlib.sha256()
    for row in rows:
        found.update(json.dumps(row).encode() + b"\n")
    return found.hexdigest()
