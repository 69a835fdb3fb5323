"""Writes an exported model: a folder that is whole under its name or not there."""

import contextlib
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from seg_tf import files
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.export import onnx_file
from seg_tf.export.served_model import ServedModel

DESCRIPTION_FILE = "export.json"
SAVED_MODEL = "saved_model"
ONNX = "onnx"
# One of them is in each folder that was written here.
_MODEL_FILES = ("saved_model.pb", onnx_file.FILE_NAME)
_FORMAT_VERSION = 1


def check_output_dir(folder: pathlib.Path, overwrite: bool) -> None:
    """Makes sure, before long work, that an exported model can become a folder.

    Args:
        folder: the folder to be.
        overwrite: whether an exported model that is there is replaced.

    Raises:
        ValueError: if something is in the way of it or of a folder that it lies in, or
            another process writes it.
    """
    files.check_not_in_use(folder.absolute())
    parents = folder.absolute().parents
    nearest = next(parent for parent in parents if parent.exists())
    if folder.exists() and not folder.is_dir():
        reason = "which is a file"
    elif not nearest.is_dir():
        reason = f"and {nearest} is no folder"
    elif not folder.exists() or not any(folder.iterdir()):
        return
    elif not any((folder / name).is_file() for name in _MODEL_FILES):
        # Whatever it is, it was not written here: it stays.
        reason = "which holds other files"
    elif not overwrite:
        reason = "which holds an exported model; --overwrite replaces it"
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
    formats: Sequence[str] = (SAVED_MODEL,),
) -> None:
    """Writes a model in some formats, and `export.json` about what it was made of.

    Args:
        model: what is saved.
        folder: the folder to be.
        pretrained: the checkpoint, or the saved task, that it is of.
        settings: further entries of `export.json`.
        overwrite: whether an exported model that is there is replaced.
        formats: "saved_model", "onnx" or both. The ONNX file contains only
            `encode_ids`, and is compared with the model.

    Raises:
        ValueError: as `check_output_dir` and `check_formats`, and if the ONNX file does
            not compute what the model computes. Nothing is left then.
    """
    check_output_dir(folder, overwrite)
    check_formats(formats)
    description = {
        "format_version": _FORMAT_VERSION,
        "checkpoint": str(pretrained.folder),
        "run": pretrained.config.name,
        "checkpoint_weights_sha256": pretrained.weights_checksum,
        "vocab_sha256": pretrained.vocabulary.checksum,
        "sentence_parameters_sha256": pretrained.sentence_parameters.checksum,
        **pretrained.normalization.described(),
        "signatures": list(model.functions) if SAVED_MODEL in formats else [],
        **settings,
    }
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        files.written_aside(folder, overwrite=overwrite) as unfinished,
        _quiet(),
    ):
        if SAVED_MODEL in formats:
            tf.saved_model.save(
                model, str(unfinished), signatures=dict(model.functions)
            )
        unfinished.mkdir(parents=True, exist_ok=True)
        differences = {}
        if ONNX in formats:
            content, differences[ONNX] = onnx_file.convert(model, pretrained.vocabulary)
            (unfinished / onnx_file.FILE_NAME).write_bytes(content)
        description["largest_differences"] = differences
        files.write_json(unfinished / DESCRIPTION_FILE, description)


def check_formats(formats: Sequence[str]) -> None:
    """Checks that formats exist and that their packages are installed.

    Raises:
        ValueError: if there is no format, one is unknown, or a package is missing.
    """
    if not formats or not {SAVED_MODEL, ONNX}.issuperset(formats):
        raise ValueError(
            f"`formats` must be {SAVED_MODEL}, {ONNX} or both. Received: "
            f"{','.join(formats) or 'none'}"
        )
    if ONNX in formats:
        onnx_file.check_packages()


def describe(folder: pathlib.Path) -> dict[str, Any]:
    """Reads `export.json` of an exported model."""
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
