"""Writes a SavedModel: a folder that stands whole under its name or not at all."""

import contextlib
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from seg_tf import files
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.export.served_model import ServedModel

DESCRIPTION_FILE = "export.json"
_SAVED_MODEL_FILE = "saved_model.pb"
_FORMAT_VERSION = 1


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
    model: ServedModel,
    folder: pathlib.Path,
    pretrained: Pretrained,
    settings: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> None:
    """Writes a SavedModel, and `export.json` about what it was made of.

    Args:
        model: what is saved.
        folder: the folder to be.
        pretrained: the checkpoint, or the saved task, that it is of.
        settings: further entries of `export.json`.
        overwrite: whether a SavedModel that is there is replaced.

    Raises:
        ValueError: as `check_output_dir`.
    """
    check_output_dir(folder, overwrite)
    description = {
        "format_version": _FORMAT_VERSION,
        "checkpoint": str(pretrained.folder),
        "run": pretrained.config.name,
        "checkpoint_weights_sha256": pretrained.weights_checksum,
        "vocab_sha256": pretrained.vocabulary.checksum,
        "lower_case": pretrained.lower_case,
        "signatures": list(model.functions),
        **settings,
    }
    with files.written_aside(folder.absolute()) as unfinished:
        with _quiet():
            tf.saved_model.save(
                model, str(unfinished), signatures=dict(model.functions)
            )
        files.write_json(unfinished / DESCRIPTION_FILE, description)


def describe(folder: pathlib.Path) -> dict[str, Any]:
    """Reads `export.json` of a SavedModel."""
    return json.loads((folder / DESCRIPTION_FILE).read_text(encoding="utf-8"))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides what TensorFlow says of every file and name, but no warning."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)
