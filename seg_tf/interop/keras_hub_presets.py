"""BERT as keras-hub holds it: a backbone in memory, or a preset folder."""

import pathlib
from collections.abc import Sequence
from typing import Any

import keras_hub

from seg_tf.interop import bert_config_file, layouts, tokenizer_files
from seg_tf.interop.bert_parts import BertSizes
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.foreign_model import ForeignModel
from seg_tf.interop.tensor_stores import VariableStore
from seg_tf.text.normalization import CONTINUATION
from seg_tf.text.vocabulary import UNK

KERAS_HUB = "keras_hub"
CONFIG_FILE = "config.json"
_BACKBONE, _TOKENIZER = "keras_hub>BertBackbone", "keras_hub>BertTokenizer"
_SIZES = (
    "vocabulary_size",
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "max_sequence_length",
    "num_segments",
)
_ERRORS_OF_KERAS = (
    *(ValueError, OSError, KeyError, RuntimeError, TypeError),
    *(AttributeError, IndexError, ImportError),
)


def read(folder: pathlib.Path) -> ForeignModel:
    """Opens the preset of a `BertBackbone`.

    Args:
        folder: what `save_to_preset` made.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if it is of another class, or keras-hub cannot load it.
    """
    weights = sorted(folder.glob("model*.weights.h5"))
    _check_config(folder / CONFIG_FILE, weights)
    try:
        backbone = keras_hub.models.BertBackbone.from_preset(str(folder))
    # What Keras and h5py raise for files that are damaged or of another shape.
    except _ERRORS_OF_KERAS as error:
        raise ForeignWeightsError(
            f"{folder}: keras-hub cannot load the weights: {_one_line(error)}"
        ) from error
    vocabulary = folder / "assets" / "tokenizer" / "vocabulary.txt"
    return from_backbone(
        backbone,
        str(folder),
        vocabulary=vocabulary if vocabulary.is_file() else None,
        normalization=_normalization(folder),
        files=tuple(weights),
    )


def is_one(folder: pathlib.Path) -> bool:
    """Recognises a folder by its config of a Keras model."""
    path = folder / CONFIG_FILE
    return path.is_file() and "registered_name" in bert_config_file.read_config(path)


def from_backbone(
    backbone: Any, source: str | None = None, **rest: Any
) -> ForeignModel:
    """A `keras_hub.models.BertBackbone` in memory.

    Args:
        backbone: the model.
        source: where it is from, for messages.
        **rest: further attributes of a `ForeignModel`.

    Raises:
        ForeignWeightsError: if it is of another class.
    """
    if type(backbone) is not keras_hub.models.BertBackbone:
        raise ForeignWeightsError(
            "`backbone` must be a keras_hub.models.BertBackbone. Received: "
            f"{type(backbone).__name__}"
        )
    sizes = BertSizes(
        num_layers=backbone.num_layers,
        hidden_size=backbone.hidden_dim,
        num_heads=backbone.num_heads,
        intermediate_size=backbone.intermediate_dim,
    )
    variables = {variable.path: variable for variable in backbone.weights}
    return ForeignModel(
        format=KERAS_HUB,
        store=VariableStore(variables, source or backbone.name),
        layout=layouts.keras_hub_bert(sizes),
        sizes=sizes,
        table_rows={
            "position_index": backbone.max_sequence_length,
            "token_type": backbone.num_segments,
        },
        vocab_size=backbone.vocabulary_size,
        dropout=backbone.dropout,
        **rest,
    )


def _check_config(path: pathlib.Path, weights: Sequence[pathlib.Path]) -> None:
    """Checks what keras-hub would build before it reads a weight.

    It builds layers as the config says, so one of a thousand million layers would
    never end.
    """
    config = bert_config_file.read_config(path)
    name = config.get("registered_name")
    if name != _BACKBONE:
        raise ForeignWeightsError(
            f"{path}: `registered_name` must be {_BACKBONE!r}. Found: "
            f"{bert_config_file.shown(name)}"
        )
    arguments = bert_config_file.section(config, "config", path)
    sizes = {key: bert_config_file.positive(arguments, key, path) for key in _SIZES}
    bert_config_file.number(arguments, "dropout", path)
    width = sizes["hidden_dim"]
    rows = sum(
        sizes[key] for key in ("vocabulary_size", "max_sequence_length", "num_segments")
    )
    layers = sizes["num_layers"] * (4 * width + 2 * sizes["intermediate_dim"])
    numbers = width * (rows + layers)
    found = sum(one.stat().st_size for one in weights)
    if numbers > found:  # no number takes less than a byte
        raise ForeignWeightsError(
            f"{path}: {', '.join(f'`{key}`' for key in _SIZES)} must be those of the "
            f"weights beside it, of {found:,} bytes. Found: sizes of a model of "
            f"{numbers:,} numbers"
        )


def _normalization(folder: pathlib.Path) -> dict[str, bool]:
    """The settings of its tokenizer; {} without one.

    Raises:
        ForeignWeightsError: if our tokenizer does not compute another one.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        return {}
    config = bert_config_file.read_config(path)
    tokenizer_files.check_values(config, {"registered_name": _TOKENIZER}, path)
    arguments = bert_config_file.section(config, "config", path)
    expected = {
        "split": True,
        "suffix_indicator": CONTINUATION,
        "oov_token": UNK,
        "special_tokens_in_strings": False,
    }
    tokenizer_files.check_values(arguments, expected, path, "config.")
    # Presets do not save `split_on_cjk`: a tokenizer of one always splits.
    return {
        "lower_case": bool(bert_config_file.flag(arguments, "lowercase", path)),
        "strip_accents": bool(bert_config_file.flag(arguments, "strip_accents", path)),
        "split_ideographs": True,
    }


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
