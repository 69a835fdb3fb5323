"""The JSON file that gives a BERT its sizes, in Google's and Hugging Face's form."""

import pathlib
from collections.abc import Mapping
from typing import Any

from seg_tf import files
from seg_tf.interop.bert_parts import BertSizes
from seg_tf.interop.errors import ForeignWeightsError

# Value of `hidden_act` -> whether it is GELU by tanh. Google's own code and
# tf-models-official compute that by the name `gelu`, Hugging Face's by erf.
_ACTIVATIONS = {
    "gelu": None,
    "gelu_new": True,
    "gelu_pytorch_tanh": True,
    "gelu_python": False,
}


def read_config(path: pathlib.Path) -> dict[str, Any]:
    """The file's content.

    Raises:
        OSError: if it cannot be read.
        ForeignWeightsError: if it is no JSON object.
    """
    try:
        config = files.read_json(path)
    except ValueError as error:
        raise ForeignWeightsError(str(error)) from error
    if not isinstance(config, dict):
        raise ForeignWeightsError(
            f"{path}: must hold a JSON object. Found: {type(config).__name__}"
        )
    return config


def bert_sizes(config: Mapping[str, Any], path: pathlib.Path) -> BertSizes:
    """Sizes that a config gives.

    Raises:
        ForeignWeightsError: if one is missing or no positive integer.
    """
    try:
        return BertSizes(
            num_layers=positive(config, "num_hidden_layers", path),
            hidden_size=positive(config, "hidden_size", path),
            num_heads=positive(config, "num_attention_heads", path),
            intermediate_size=positive(config, "intermediate_size", path),
        )
    except ForeignWeightsError:
        raise
    except ValueError as error:
        raise ForeignWeightsError(f"{path}: {error}") from error


def positive(config: Mapping[str, Any], name: str, path: pathlib.Path) -> int:
    """A size of the config."""
    value = config.get(name)
    if type(value) is not int or value < 1:
        raise ForeignWeightsError(
            f"{path}: `{name}` must be a positive integer. Found: {value!r}"
        )
    return value


def vocab_size(config: Mapping[str, Any], path: pathlib.Path) -> int | None:
    """Pieces of the vocabulary, if the config says how many."""
    return positive(config, "vocab_size", path) if "vocab_size" in config else None


def approximate_gelu(
    config: Mapping[str, Any], path: pathlib.Path, plain_gelu: bool
) -> bool:
    """Whether the model computes GELU by tanh.

    Args:
        config: the file's content.
        path: the file.
        plain_gelu: the answer for the activation `gelu`, which programs compute
            differently.

    Raises:
        ForeignWeightsError: if the activation is another.
    """
    name = config.get("hidden_act", "gelu")
    if name not in _ACTIVATIONS:
        raise ForeignWeightsError(
            f"{path}: `hidden_act` must be one of {', '.join(_ACTIVATIONS)}, which our "
            f"encoders can compute. Found: {name!r}"
        )
    approximate = _ACTIVATIONS[name]
    return plain_gelu if approximate is None else approximate
