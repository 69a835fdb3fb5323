"""Writes a SavedModel: a folder that stands whole under its name or not at all."""

import contextlib
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from seg_tf import files
from seg_tf.export.served_encoder import ServedModel

DESCRIPTION_FILE = "export.json"
_SAVED_MODEL_FILE = "saved_model.pb"


def check_output_dir(folder: pathlib.Path, overwrite: bool) -> None:
    """Makes sure, before long work, that a SavedModel can become a folder.

    Args:
        folder: where it shall stand.
        overwrite: whether a SavedModel that stands there is replaced.

    Raises:
        ValueError: if something is in the way of it or of a folder that it lies in.
    """
    parents = folder.absolute().parents
    nearest = next(parent for parent in parents if parent.exists())
    if folder.exists() and not folder.is_dir():
        reason = "which is a file"
    elif not nearest.is_dir():
        reason = f"and {nearest} is no folder"
    elif not folder.exists() or not any(folder.iterdir()):
        return
    elif not (folder / _SAVED_MODEL_FILE).is_file():
        # Whatever it is, it was not written here: it stays.
        reason = "which holds other files"
    elif not overwrite:
        reason = "which holds a SavedModel; --overwrite replaces it"
    else:
        return
    raise ValueError(
        f"`--output_dir` must name a new folder. Received: {folder}, {reason}"
    )


def write(
    model: ServedModel, folder: pathlib.Path, description: Mapping[str, Any]
) -> None:
    """Writes a SavedModel, and beside its graph what it was made of.

    Args:
        model: what is saved.
        folder: where; what stands there is replaced.
        description: becomes `export.json`.
    """
    with files.written_aside(folder.absolute()) as unfinished:
        with _quiet():
            tf.saved_model.save(
                model, str(unfinished), signatures=dict(model.functions)
            )
        files.write_json(unfinished / DESCRIPTION_FILE, dict(description))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides what TensorFlow says of every file and name, but no warning."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)
