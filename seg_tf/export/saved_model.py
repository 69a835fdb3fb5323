"""Writes exported models. A folder appears complete or not at all."""

import contextlib
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from seg_tf import files
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.export import onnx_file
from seg_tf.export.served import ServedModel

DESCRIPTION_FILE = "export.json"
SAVED_MODEL = "saved_model"
ONNX = "onnx"
_FORMAT_VERSION = 1


def check_output_dir(folder: pathlib.Path, overwrite: bool) -> None:
    """Raises ValueError if a folder is in use, or is neither new nor empty.

    If `overwrite` is True, the folder may also contain an exported model.
    """
    files.check_not_in_use(folder.absolute())
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    names = ("saved_model.pb", onnx_file.FILE_NAME)
    if not any((folder / name).is_file() for name in names):
        reason = "which is not an exported model"
    elif not overwrite:
        reason = "which contains an exported model; --overwrite replaces it"
    else:
        return
    raise ValueError(
        f"`--output_dir` must name a new folder. Received: {folder}, {reason}"
    )


def check_formats(formats: Sequence[str]) -> None:
    """Raises ValueError if there is no format, or one is unknown or lacks packages."""
    if not formats or not {SAVED_MODEL, ONNX}.issuperset(formats):
        raise ValueError(
            f"`formats` must be {SAVED_MODEL}, {ONNX} or both. Received: "
            f"{','.join(formats) or 'none'}"
        )
    if ONNX in formats:
        onnx_file.check_packages()


def write(
    model: ServedModel,
    folder: pathlib.Path,
    pretrained: Pretrained,
    settings: Mapping[str, Any],
    *,
    overwrite: bool = False,
    formats: Sequence[str] = (SAVED_MODEL,),
) -> None:
    """Exports a model and writes an `export.json` that describes its origin.

    Args:
        model: `ServedModel` to export.
        folder: path. A new or empty folder, or one with an exported model to replace.
        pretrained: the checkpoint or saved task that the model was loaded from.
        settings: dict. Further entries of `export.json`.
        overwrite: bool. Whether to replace an exported model in `folder`.
        formats: "saved_model", "onnx" or both. The ONNX file only contains
            `encode_ids`, and its outputs are compared with the model's.

    Raises:
        ValueError: if the folder is in use or has other content, a format is unknown or
            lacks packages, or the ONNX file is not accurate. Then nothing is written.
    """
    check_output_dir(folder, overwrite)
    check_formats(formats)
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with files.written_aside(folder, overwrite=overwrite) as unfinished, _quiet():
        if SAVED_MODEL in formats:
            signatures = dict(model.functions)
            tf.saved_model.save(model, str(unfinished), signatures=signatures)
        unfinished.mkdir(parents=True, exist_ok=True)
        differences = {}
        if ONNX in formats:
            content, differences[ONNX] = onnx_file.convert(model, pretrained.vocabulary)
            (unfinished / onnx_file.FILE_NAME).write_bytes(content)
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
            "largest_differences": differences,
        }
        files.write_json(unfinished / DESCRIPTION_FILE, description)


def describe(folder: pathlib.Path) -> dict[str, Any]:
    """Reads the `export.json` of an exported model."""
    return files.read_json(folder / DESCRIPTION_FILE)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)
