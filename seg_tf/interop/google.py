"""BERT in TF 1 checkpoints, as its authors released it."""

import pathlib

import numpy as np
import tensorflow as tf

from seg_tf.interop import tensor_names
from seg_tf.interop.settings import Settings
from seg_tf.interop.weights import ForeignModel, ForeignWeightsError, Store

FORMAT = "google"
CONFIG_FILE = "bert_config.json"
WEIGHT_PATTERNS = [("*.index", "*.data-*")]
# Errors that readers of checkpoints raise for damaged files.
_ERRORS = (tf.errors.OpError, RuntimeError, ValueError, IndexError)


def matches(path: pathlib.Path) -> bool:
    """True for a prefix of a checkpoint's files, and for a folder with one."""
    return (path / CONFIG_FILE).is_file() or _find_prefix(path) is not None


def read(path: pathlib.Path) -> ForeignModel:
    """Opens a checkpoint, with the `bert_config.json` and `vocab.txt` next to it.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if the checkpoint is damaged or not BERT's.
    """
    prefix = _find_prefix(path)
    if prefix is None:
        raise ForeignWeightsError(f"{path}: must have a checkpoint. Found: no *.index")
    store, names = _open(prefix), tensor_names.GOOGLE
    config = Settings(prefix.with_name(CONFIG_FILE))
    features = ("position_index", "token_type")
    vocabulary = prefix.with_name("vocab.txt")
    return ForeignModel(
        format=FORMAT,
        store=store,
        names=names,
        model=config.model(store, names, features, plain_gelu=True),
        vocabulary=vocabulary if vocabulary.is_file() else None,
        files=tuple(
            path
            for path in sorted(prefix.parent.glob(f"{prefix.name}.*"))
            if path.suffix != ".meta"
        ),
    )


def _find_prefix(path: pathlib.Path) -> pathlib.Path | None:
    if path.name and path.with_name(f"{path.name}.index").is_file():
        return path
    if path.suffix == ".index" and path.is_file():
        return path.with_suffix("")
    indexes = sorted(path.glob("*.index")) if path.is_dir() else []
    if len(indexes) > 1:
        names = ", ".join(index.stem for index in indexes)
        raise ForeignWeightsError(
            f"`--from` must name one checkpoint. Received: {path}, which has {names}"
        )
    return indexes[0].with_suffix("") if indexes else None


def _open(prefix: pathlib.Path) -> Store:
    def damaged(part: str, error: Exception) -> ForeignWeightsError:
        reason = str(error).strip().partition("\n")[0]
        return ForeignWeightsError(
            f"{prefix}: {part} is damaged, cut short or not a TensorFlow checkpoint: "
            f"{reason}"
        )

    try:
        reader = tf.train.load_checkpoint(str(prefix))
        shapes = reader.get_variable_to_shape_map()
    except _ERRORS as error:
        raise damaged("the index", error) from error

    def read_tensor(name: str) -> np.ndarray:
        try:
            return reader.get_tensor(name)
        except _ERRORS as error:
            raise damaged(f"the tensor {name!r}", error) from error

    return Store(str(prefix), {n: tuple(s) for n, s in shapes.items()}, read_tensor)
