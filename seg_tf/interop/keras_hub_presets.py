"""BERT as keras-hub holds it: a backbone in memory, or a preset folder."""

import json
import pathlib
from typing import Any

import keras_hub

from seg_tf.interop import bert_config_file, layouts
from seg_tf.interop.bert_parts import BertSizes
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.foreign_model import ForeignModel
from seg_tf.interop.tensor_stores import VariableStore

KERAS_HUB = "keras_hub"
CONFIG_FILE = "config.json"
_BACKBONE = "keras_hub>BertBackbone"


def read(folder: pathlib.Path) -> ForeignModel:
    """Opens the preset of a `BertBackbone`.

    Args:
        folder: what `save_to_preset` made.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if it is of another class, or keras-hub cannot load it.
    """
    config = bert_config_file.read_config(folder / CONFIG_FILE)
    if config.get("registered_name") != _BACKBONE:
        raise ForeignWeightsError(
            f"{folder / CONFIG_FILE}: `registered_name` must be {_BACKBONE!r}. Found: "
            f"{config.get('registered_name')!r}"
        )
    weights = sorted(folder.glob("model*.weights.h5"))
    try:
        backbone = keras_hub.models.BertBackbone.from_preset(str(folder))
    # What Keras and h5py raise for files that are damaged or of another shape.
    except (ValueError, OSError, KeyError, RuntimeError, TypeError) as error:
        raise ForeignWeightsError(
            f"{folder}: keras-hub cannot load the weights: {_one_line(error)}"
        ) from error
    vocabulary = folder / "assets" / "tokenizer" / "vocabulary.txt"
    return from_backbone(
        backbone,
        str(folder),
        vocabulary=vocabulary if vocabulary.is_file() else None,
        lower_case=_lower_case(folder),
        files=tuple(weights),
    )


def is_one(folder: pathlib.Path) -> bool:
    """Whether a folder holds the config of a Keras model."""
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


def _lower_case(folder: pathlib.Path) -> bool | None:
    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    return json.loads(path.read_text(encoding="utf-8"))["config"].get("lowercase")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
