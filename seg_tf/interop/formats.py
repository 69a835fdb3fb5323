"""The formats of checkpoints that can be read, and their detection."""

import pathlib

from seg_tf.interop import (
    hugging_face_folders,
    keras_hub_presets,
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
}


def open_model(path: pathlib.Path) -> ForeignModel:
    """Opens a foreign checkpoint, whichever format it is in.

    Args:
        path: a folder, or the prefix of a TensorFlow checkpoint's files.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if it is in no format that can be read, or damaged.
    """
    if path.is_dir():
        if hugging_face_folders.is_one(path):
            return hugging_face_folders.read(path)
        if keras_hub_presets.is_one(path):
            return keras_hub_presets.read(path)
    prefix = tensorflow_checkpoints.find_prefix(path)
    if prefix is None:
        kinds = "; ".join(FORMATS.values())
        what = "a folder with none of them" if path.is_dir() else "which is not there"
        raise ForeignWeightsError(
            f"`--from` must be one of: {kinds}. Received: {path}, {what}"
        )
    return tensorflow_checkpoints.read(prefix)
