"""JSON settings of other programs, with errors that name file and key."""

import pathlib
import reprlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from seg_tf import files
from seg_tf.config import EncoderConfig
from seg_tf.interop.tensor_names import EMBEDDINGS_NORM, LAYER, TensorNames
from seg_tf.interop.weights import ForeignWeightsError, Store

# Setting -> its default, its range for messages, and whether a number is in range.
_NUMBERS: Mapping[str, tuple[float, str, Callable[[float], bool]]] = {
    "layer_norm_eps": (1e-12, "above 0 and at most 1", lambda x: 0 < x <= 1),
    "initializer_range": (0.02, "above 0 and at most 1", lambda x: 0 < x <= 1),
    "hidden_dropout_prob": (0.1, "of at least 0 and below 1", lambda x: 0 <= x < 1),
    "dropout": (0.1, "of at least 0 and below 1", lambda x: 0 <= x < 1),  # keras-hub's
}
# `hidden_act` -> whether it is GELU by tanh. `gelu` is that in Google's code, and GELU
# by erf in Hugging Face's.
_ACTIVATIONS = {
    "gelu": None,
    "gelu_new": True,
    "gelu_pytorch_tanh": True,
    "gelu_python": False,
}
_SIZES = {
    "num_hidden_layers": "num_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_size",
}


class Settings:
    """The object in a JSON file, whose values are checked when they are read.

    Args:
        path: the file.
        values: the object, if it is known already.
        section: its place in the file, ending in a dot.
        hint: end of the rule in messages.

    Raises:
        OSError: if the file cannot be read.
        ForeignWeightsError: if it is not a JSON object.
    """

    def __init__(
        self,
        path: pathlib.Path,
        values: Mapping[str, Any] | None = None,
        section: str = "",
        hint: str = "",
    ):
        if values is None:
            try:
                values = files.read_json(path)
            except ValueError as error:
                raise ForeignWeightsError(str(error)) from error
            if not isinstance(values, dict):
                raise ForeignWeightsError(
                    f"{path}: must be a JSON object. Found: {type(values).__name__}"
                )
        self.path, self.values, self._section, self._hint = path, values, section, hint

    @classmethod
    def optional(cls, path: pathlib.Path, hint: str = "") -> "Settings":
        """The object in a file, or an empty one without such a file."""
        return cls(path, None if path.is_file() else {}, hint=hint)

    def error(self, name: str, expected: str, value: Any) -> ForeignWeightsError:
        short = reprlib.Repr()
        short.maxstring = short.maxother = 60
        return ForeignWeightsError(
            f"{self.path}: `{self._section}{name}` must be {expected}{self._hint}. "
            f"Found: {short.repr(value)}"
        )

    def positive(self, name: str) -> int:
        value = self.values.get(name)
        if type(value) is not int or not 0 < value < 2**31:
            raise self.error(name, "a positive integer below 2**31", value)
        return value

    def number(self, name: str) -> float:
        """A number; BERT's default if the file has none."""
        default, allowed, is_in_range = _NUMBERS[name]
        value = self.values.get(name, default)
        if type(value) not in (int, float) or not is_in_range(value):
            raise self.error(name, f"a number {allowed}", value)
        return float(value)

    def flag(self, name: str) -> bool | None:
        value = self.values.get(name)
        if value is not None and type(value) is not bool:
            raise self.error(name, "true or false", value)
        return value

    def section(
        self, name: str, default: Mapping[str, Any] | None = None
    ) -> "Settings":
        value = self.values.get(name)
        value = default if value is None else value
        if not isinstance(value, dict):
            raise self.error(name, "a JSON object", value)
        return Settings(self.path, value, f"{self._section}{name}.", self._hint)

    def tokens(self, name: str) -> list[str]:
        """The tokens in a list, without their options."""
        value = self.values.get(name) or []
        tokens = [
            token.get("content") if isinstance(token, dict) else token
            for token in (value if isinstance(value, list) else [None])
        ]
        if not all(isinstance(token, str) for token in tokens):
            raise self.error(name, "a list of tokens", value)
        return tokens

    def require(self, expected: Mapping[str, Any]) -> None:
        """Raises if a value is present, not null, and not the expected one."""
        for name, value in expected.items():
            actual = self.values.get(name)
            if isinstance(actual, Mapping):  # a token with its options
                actual = actual.get("content", actual)
            if actual is not None and (
                type(actual) is not type(value) or actual != value
            ):
                raise self.error(name, repr(value), actual)

    def model(
        self,
        store: Store,
        names: TensorNames,
        features: Collection[str],
        *,
        plain_gelu: bool,
    ) -> EncoderConfig:
        """The model in a config of Google's or Hugging Face's.

        Compares its sizes with the tensors before anything is built from them.
        Reading reports missing tensors.

        Args:
            store: the tensors.
            names: their names and forms.
            features: index features that may have a table, or `token_type`.
            plain_gelu: whether `gelu` is GELU by tanh.
        """
        sizes = {field: self.positive(key) for key, field in _SIZES.items()}
        if sizes["hidden_size"] % sizes["num_heads"]:
            raise ForeignWeightsError(
                f"{self.path}: `hidden_size` must be a multiple of "
                f"`num_attention_heads`. Found: {sizes['hidden_size']} and "
                f"{sizes['num_heads']}"
            )
        num_layers = len({*names.layer_numbers(store.shapes).values()})
        if sizes["num_layers"] > num_layers:
            layer = LAYER.format(n=num_layers)
            query = names.name(f"{layer}/self_attention_layer/query/kernel")
            raise ForeignWeightsError(
                f"{self.path}: `num_hidden_layers` must be that of {store.source}, "
                f"{num_layers}, which has no {query!r}. Found: {sizes['num_layers']}"
            )
        inner = f"{LAYER.format(n=0)}/feedforward_intermediate_dense/bias"
        tensors = {
            "hidden_size": f"{EMBEDDINGS_NORM}/gamma",
            "intermediate_size": inner,
        }
        for key, weight in tensors.items():
            name = names.name(weight)
            shape = store.shapes.get(name, ())
            if len(shape) == 1 and shape[0] != sizes[key]:
                expected = f"{shape[0]}, as in the tensor {name!r} of {store.source}"
                raise self.error(key, expected, sizes[key])
        activation = self.values.get("hidden_act", "gelu")
        if not isinstance(activation, str) or activation not in _ACTIVATIONS:
            known = f"one of {', '.join(_ACTIVATIONS)}, which our encoders can compute"
            raise self.error("hidden_act", known, activation)
        approximate = _ACTIVATIONS[activation]
        rows = store.table_rows(names, features)
        has_size = "vocab_size" in self.values
        return EncoderConfig(
            **sizes,
            vocab_size=self.positive("vocab_size") if has_size else None,
            num_token_types=rows.pop("token_type", 0),
            index_tables=rows,
            dropout=self.number("hidden_dropout_prob"),
            layer_norm_epsilon=self.number("layer_norm_eps"),
            initializer_range=self.number("initializer_range"),
            approximate_gelu=plain_gelu if approximate is None else approximate,
        )
