"""BERT in TF 1 checkpoints, as its authors released it."""

import pathlib

import numpy as np
import tensorflow as tf

from seg_tf.interop import layouts
from seg_tf.interop.settings import Settings
from seg_tf.interop.weights import ForeignModel, ForeignWeightsError, Store

GOOGLE = "google"
CONFIG_FILE = "bert_config.json"
PATTERNS = ("*.index", "*.data-*")
# What a reader of checkpoints raises for damaged files.
_ERRORS = (tf.errors.OpError, RuntimeError, ValueError, IndexError)


def find_prefix(path: pathlib.Path) -> pathlib.Path | None:
    """The checkpoint that a path, a folder or a prefix of files, refers to.

    Raises:
        ForeignWeightsError: if a folder holds several.
    """
    if path.name and path.with_name(f"{path.name}.index").is_file():
        return path
    if path.suffix == ".index" and path.is_file():
        return path.with_suffix("")
    found = sorted(path.glob("*.index")) if path.is_dir() else []
    if len(found) > 1:
        names = ", ".join(one.stem for one in found)
        raise ForeignWeightsError(
            f"`--from` must name one checkpoint. Received: {path}, which holds {names}"
        )
    return found[0].with_suffix("") if found else None


def read(prefix: pathlib.Path) -> ForeignModel:
    """Opens a checkpoint with the `bert_config.json` and `vocab.txt` beside it.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if the checkpoint is damaged or no BERT's.
    """
    store, layout = _open(prefix), layouts.GOOGLE
    config = Settings(prefix.with_name(CONFIG_FILE))
    sizes = config.sizes(store, layout)
    vocabulary = prefix.with_name("vocab.txt")
    features = ("position_index", "token_type")
    names = {feature: layout.name(layouts.table(feature)) for feature in features}
    found = sorted(prefix.parent.glob(f"{prefix.name}.*"))
    return ForeignModel(
        format=GOOGLE,
        store=store,
        layout=layout,
        sizes=sizes,
        table_rows={
            feature: store.shapes[name][0]
            for feature, name in names.items()
            if name in store.shapes
        },
        vocab_size=config.vocab_size(),
        approximate_gelu=config.approximate_gelu(plain_gelu=True),
        dropout=config.number("hidden_dropout_prob"),
        initializer_range=config.number("initializer_range"),
        vocabulary=vocabulary if vocabulary.is_file() else None,
        files=tuple(one for one in found if one.suffix != ".meta"),
    )


def _open(prefix: pathlib.Path) -> Store:
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        shapes = reader.get_variable_to_shape_map()
    except _ERRORS as error:
        raise ForeignWeightsError(
            f"{prefix}: damaged, cut short or no TensorFlow checkpoint: "
            f"{str(error).strip().partition(chr(10))[0]}"
        ) from error

    def read_tensor(name: str) -> np.ndarray:
        try:
            return reader.get_tensor(name)
        except _ERRORS as error:
            raise ForeignWeightsError(
                f"{prefix}: the tensor {name!r} cannot be read; the file is damaged or "
                f"cut short: {str(error).strip().partition(chr(10))[0]}"
            ) from error

    named_shapes = {name: tuple(shape) for name, shape in shapes.items()}
    return Store(str(prefix), named_shapes, read_tensor)
