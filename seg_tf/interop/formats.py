"""The formats of checkpoints that can be read, and their detection."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable

from seg_tf.checkpoints import folders
from seg_tf.interop import (
    hub,
    hugging_face_folders,
    keras_hub_presets,
    own_checkpoints,
    tensorflow_checkpoints,
)
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.foreign_model import ForeignModel

FORMATS = {
    tensorflow_checkpoints.GOOGLE: "a TF 1 checkpoint of BERT's authors, with "
    "bert_config.json",
    tensorflow_checkpoints.OFFICIAL: "a TF 2 checkpoint of tf-models-official",
    hugging_face_folders.HUGGING_FACE: "a folder with config.json and "
    "model.safetensors or pytorch_model.bin",
    hugging_face_folders.SEGABERT: "the same, as SegaBERT's authors released it",
    keras_hub_presets.KERAS_HUB: "a preset folder of keras-hub's BertBackbone",
    own_checkpoints.SEG_TF: "a checkpoint of this package",
}


def open_model(
    source: str | pathlib.Path,
    vocab_file: pathlib.Path | None = None,
    lower_case: bool | None = None,
) -> ForeignModel:
    """Opens a foreign checkpoint, whichever format it is in.

    Args:
        source: a folder, the prefix of a TensorFlow checkpoint's files, or a model of
            the hub, `hf://organisation/name`, which is downloaded.
        vocab_file: the vocabulary of a checkpoint of this package that holds none.
        lower_case: the casing of one that does not say.

    Raises:
        OSError: if a file cannot be read.
        CheckpointError: if a checkpoint of this package is damaged, or has another
            vocabulary or casing.
        ForeignWeightsError: if it is in no format that can be read, or damaged, or
            cannot be downloaded.
    """
    if isinstance(source, str) and hub.is_url(source):
        folder = hub.download(source)
        foreign = open_model(folder)
        note = f"downloaded as {source}, revision {folder.name}"
        return dataclasses.replace(foreign, notes=(*foreign.notes, note))
    path = pathlib.Path(source)
    if folders.is_checkpoint(path):
        return own_checkpoints.read(path, vocab_file, lower_case)
    read = _reader(path)
    if read is None:
        kinds = "; ".join(FORMATS.values())
        what = "a folder with none of them" if path.is_dir() else "which is not there"
        raise ForeignWeightsError(
            f"`--from` must be one of: {kinds}; or hf://organisation/name. Received: "
            f"{path}, {what}"
        )
    return read()


def can_open(source: str) -> bool:
    """True for a model of the hub and for files of a format, whole or damaged."""
    path = pathlib.Path(source)
    return hub.is_url(source) or folders.is_checkpoint(path) or bool(_reader(path))


def _reader(path: pathlib.Path) -> Callable[[], ForeignModel] | None:
    """Opens files of another program at a path; None if they are of no format."""
    if path.is_dir():
        for kind in (hugging_face_folders, keras_hub_presets):
            if kind.is_one(path):
                return functools.partial(kind.read, path)
    prefix = tensorflow_checkpoints.find_prefix(path)
    return prefix and functools.partial(tensorflow_checkpoints.read, prefix)
