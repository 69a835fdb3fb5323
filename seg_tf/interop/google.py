"""Reads BERT from TF 1 checkpoints, the format in which its authors released it."""

import pathlib
import re

import tensorflow as tf

from seg_tf.interop import weights
from seg_tf.interop.weights import ForeignModel, ForeignWeightsError

FORMAT = "google"
CONFIG_FILE = "bert_config.json"
DOWNLOADS = ("*.index", "*.data-*")
_OPTIMIZER = re.compile(r"/(adam|lamb)_|^global_step")


def matches(path: pathlib.Path) -> bool:
    """Returns whether a path is a checkpoint or contains one or `bert_config.json`."""
    return (path / CONFIG_FILE).is_file() or _find_prefix(path) is not None


def read(path: pathlib.Path) -> ForeignModel:
    """Reads a checkpoint, its `bert_config.json` and, if it exists, its `vocab.txt`.

    Raises `ForeignWeightsError` if a file is damaged or the model is not supported.
    """
    prefix = _find_prefix(path)
    if prefix is None:
        raise ForeignWeightsError(f"{path}: must have a checkpoint. Found: no *.index")
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        tensors = {
            name: reader.get_tensor(name)
            for name in reader.get_variable_to_shape_map()
            if not _OPTIMIZER.search(name)
        }
    # TensorFlow raises any of these for damaged files.
    except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
        raise ForeignWeightsError(
            f"{prefix}: damaged, cut short or not a TensorFlow checkpoint: "
            f"{str(error).strip().partition(chr(10))[0]}"
        ) from error
    vocabulary = prefix.with_name("vocab.txt")
    return ForeignModel(
        format=FORMAT,
        source=str(prefix),
        tensors=tensors,
        names=weights.GOOGLE,
        model=weights.read_model(
            prefix.with_name(CONFIG_FILE),
            tensors,
            weights.GOOGLE,
            ("position_index", "token_type"),
            plain_gelu=True,
        ),
        vocabulary=vocabulary if vocabulary.is_file() else None,
        files=tuple(
            file
            for file in sorted(prefix.parent.glob(f"{prefix.name}.*"))
            if file.suffix != ".meta"
        ),
    )


def _find_prefix(path: pathlib.Path) -> pathlib.Path | None:
    if path.name and path.with_name(f"{path.name}.index").is_file():
        return path
    indexes = sorted(path.glob("*.index")) if path.is_dir() else []
    if len(indexes) > 1:
        names = ", ".join(index.stem for index in indexes)
        raise ForeignWeightsError(
            f"`--from` must name one checkpoint. Received: {path}, which has {names}"
        )
    return indexes[0].with_suffix("") if indexes else None
