"""The JSON file that gives a BERT its sizes, in Google's and Hugging Face's form."""

import dataclasses
import pathlib
import reprlib
from collections.abc import Mapping
from typing import Any

from seg_tf import files
from seg_tf.interop import unmatched_tensors
from seg_tf.interop.bert_parts import BertSizes
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.layouts import Layout
from seg_tf.interop.tensor_stores import TensorStore

# Value of `hidden_act` -> whether it is GELU by tanh. Google's own code and
# tf-models-official compute that by the name `gelu`, Hugging Face's by erf.
_ACTIVATIONS = {
    "gelu": None,
    "gelu_new": True,
    "gelu_pytorch_tanh": True,
    "gelu_python": False,
}


# Key of the file -> field of `BertSizes`.
_SIZES = {
    "num_hidden_layers": "num_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_size",
}


@dataclasses.dataclass(frozen=True)
class _Limits:
    """A setting's default and range, whose bounds may belong to it."""

    default: float
    above_0: bool = True
    below_1: bool = False

    def contain(self, value: float) -> bool:
        is_above = value > 0 if self.above_0 else value >= 0
        return is_above and (value < 1 if self.below_1 else value <= 1)

    def __str__(self) -> str:
        return (
            f"a number {'above 0' if self.above_0 else 'of at least 0'} and "
            f"{'below' if self.below_1 else 'at most'} 1"
        )


_NUMBERS = {
    "layer_norm_eps": _Limits(1e-12),
    "initializer_range": _Limits(0.02),
    "hidden_dropout_prob": _Limits(0.1, above_0=False, below_1=True),
    "dropout": _Limits(0.1, above_0=False, below_1=True),  # keras-hub's name of it
}


def read_config(path: pathlib.Path) -> dict[str, Any]:
    """Return the content of the file.

    Raises:
        OSError: if it cannot be read.
        ForeignWeightsError: if it is not a JSON object.
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
    """Return the sizes that a config gives.

    Raises:
        ForeignWeightsError: if one is missing or not a positive integer, or heads
            cannot share the width.
    """
    values = {key: positive(config, key, path) for key in _SIZES}
    width, heads = values["hidden_size"], values["num_attention_heads"]
    if width % heads:
        raise ForeignWeightsError(
            f"{path}: `hidden_size` must be a multiple of `num_attention_heads`. "
            f"Found: {width} and {heads}"
        )
    return BertSizes(**{_SIZES[key]: value for key, value in values.items()})


def check_sizes(
    config: Mapping[str, Any], sizes: BertSizes, source: str, path: pathlib.Path
) -> None:
    """Makes sure that the sizes that a config gives are those of a checkpoint.

    Args:
        config: the file's content, which may lack any of them.
        sizes: the checkpoint's.
        source: the checkpoint, for messages.
        path: the file.

    Raises:
        ForeignWeightsError: naming the key that says otherwise.
    """
    for key, field in _SIZES.items():
        expected = getattr(sizes, field)
        if key in config and positive(config, key, path) != expected:
            raise _wrong(path, key, f"{expected}, as in {source}", config[key])


def check_tensors(
    sizes: BertSizes, store: TensorStore, layer_layout: Layout, path: pathlib.Path
) -> None:
    """Makes sure that the tensors are of the sizes of a config.

    To be called before anything is built that grows with the number of layers. What
    tensors do not show, and those that are missing, are left to those who read them.

    Args:
        sizes: the config's.
        store: the tensors.
        layer_layout: the names of a model of one layer.
        path: the config's file.

    Raises:
        ForeignWeightsError: naming the key, and a tensor that says otherwise.
    """
    found = unmatched_tensors.numbered_layers(store, layer_layout)
    num_layers = len(set(found.values()))
    if sizes.num_layers > num_layers:
        first = layer_layout["layers/0/query/kernel"].name
        missing = unmatched_tensors.name_in_layer(layer_layout, first, num_layers)
        raise ForeignWeightsError(
            f"{path}: `num_hidden_layers` must be that of {store.source}, "
            f"{num_layers}, which has no {missing!r}. Found: {sizes.num_layers}"
        )
    for key, expected, part in (
        ("hidden_size", sizes.hidden_size, "embeddings_norm/gamma"),
        ("intermediate_size", sizes.intermediate_size, "layers/0/intermediate/bias"),
    ):
        name = layer_layout[part].name
        shape = store.shapes.get(name, (expected,))
        if len(shape) == 1 and shape[0] != expected:
            raise ForeignWeightsError(
                f"{path}: `{key}` must be {shape[0]}, as the tensor {name!r} of "
                f"{store.source} has it. Found: {expected}"
            )


def positive(config: Mapping[str, Any], name: str, path: pathlib.Path) -> int:
    """Return a size of the config.

    Raises:
        ForeignWeightsError: if it is missing or not a positive integer.
    """
    value = config.get(name)
    if type(value) is not int or value < 1:
        raise _wrong(path, name, "a positive integer", value)
    return value


def vocab_size(config: Mapping[str, Any], path: pathlib.Path) -> int | None:
    """Return the number of pieces of the vocabulary; None if the config has none."""
    return positive(config, "vocab_size", path) if "vocab_size" in config else None


def number(config: Mapping[str, Any], name: str, path: pathlib.Path) -> float:
    """Return a number of the config, BERT's own where the config has none.

    Raises:
        ForeignWeightsError: if it is not a number or out of range.
    """
    limits = _NUMBERS[name]
    value = config.get(name, limits.default)
    if type(value) not in (int, float) or not limits.contain(value):
        raise _wrong(path, name, str(limits), value)
    return float(value)


def section(
    config: Mapping[str, Any], name: str, path: pathlib.Path
) -> Mapping[str, Any]:
    """Return an object inside the config.

    Raises:
        ForeignWeightsError: if it is missing or not an object.
    """
    value = config.get(name)
    if not isinstance(value, dict):
        raise _wrong(path, name, "a JSON object", value)
    return value


def flag(config: Mapping[str, Any], name: str, path: pathlib.Path) -> bool | None:
    """Return a boolean of the config; None if it has none.

    Raises:
        ForeignWeightsError: if it is not a boolean.
    """
    value = config.get(name)
    if value is not None and type(value) is not bool:
        raise _wrong(path, name, "true or false", value)
    return value


def approximate_gelu(
    config: Mapping[str, Any], path: pathlib.Path, plain_gelu: bool
) -> bool:
    """Tells whether the model computes GELU by tanh.

    Args:
        config: the file's content.
        path: the file.
        plain_gelu: the answer for the activation `gelu`, which programs compute
            differently.

    Raises:
        ForeignWeightsError: if the activation is another.
    """
    name = config.get("hidden_act", "gelu")
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        raise _wrong(
            path,
            "hidden_act",
            f"one of {', '.join(_ACTIVATIONS)}, which our encoders can compute",
            name,
        )
    approximate = _ACTIVATIONS[name]
    return plain_gelu if approximate is None else approximate


def _wrong(
    path: pathlib.Path, name: str, expected: str, found: Any
) -> ForeignWeightsError:
    return ForeignWeightsError(
        f"{path}: `{name}` must be {expected}. Found: {shown(found)}"
    )


def shown(value: Any) -> str:
    """The start of a JSON value, as messages show it."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 60
    return short.repr(value)
