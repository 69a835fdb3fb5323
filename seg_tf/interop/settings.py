"""Settings of other programs in JSON files, with errors that name file and key."""

import pathlib
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from seg_tf import files
from seg_tf.interop.layouts import Sizes, TensorNames
from seg_tf.interop.weights import ForeignWeightsError, Store

# Setting -> its default, its range in words, and whether a number is in it.
_NUMBERS: Mapping[str, tuple[float, str, Callable[[float], bool]]] = {
    "layer_norm_eps": (1e-12, "above 0 and at most 1", lambda x: 0 < x <= 1),
    "initializer_range": (0.02, "above 0 and at most 1", lambda x: 0 < x <= 1),
    "hidden_dropout_prob": (0.1, "of at least 0 and below 1", lambda x: 0 <= x < 1),
    "dropout": (0.1, "of at least 0 and below 1", lambda x: 0 <= x < 1),  # keras-hub's
}
# Value of `hidden_act` -> whether it is GELU by tanh. Google's own code and
# tf-models-official compute that by the name `gelu`, Hugging Face's by erf.
_ACTIVATIONS = {
    "gelu": None,
    "gelu_new": True,
    "gelu_pytorch_tanh": True,
    "gelu_python": False,
}
# Key of Google's and Hugging Face's config -> field of `Sizes`.
SIZES = {
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
        section: its place in the file, with a point at the end.
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
                    f"{path}: must hold a JSON object. Found: {type(values).__name__}"
                )
        self.path, self.values, self._section, self._hint = path, values, section, hint

    @classmethod
    def optional(cls, path: pathlib.Path, hint: str = "") -> "Settings":
        """The object in a file, or an empty one if there is no such file."""
        return cls(path, None if path.is_file() else {}, hint=hint)

    def error(self, name: str, expected: str, found: Any) -> ForeignWeightsError:
        """Names a value that is not what it must be."""
        short = reprlib.Repr()
        short.maxstring = short.maxother = 60
        return ForeignWeightsError(
            f"{self.path}: `{self._section}{name}` must be {expected}{self._hint}. "
            f"Found: {short.repr(found)}"
        )

    def positive(self, name: str) -> int:
        value = self.values.get(name)
        if type(value) is not int or value < 1:
            raise self.error(name, "a positive integer", value)
        return value

    def number(self, name: str) -> float:
        """A number, BERT's own where the file has none."""
        default, described, is_in_range = _NUMBERS[name]
        value = self.values.get(name, default)
        if type(value) not in (int, float) or not is_in_range(value):
            raise self.error(name, f"a number {described}", value)
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
        found = [
            one.get("content") if isinstance(one, dict) else one
            for one in (value if isinstance(value, list) else [None])
        ]
        if not all(isinstance(token, str) for token in found):
            raise self.error(name, "a list of tokens", value)
        return found

    def require(self, expected: Mapping[str, Any]) -> None:
        """Raises if a value is there, is not null and is another than expected."""
        for name, value in expected.items():
            found = self.values.get(name)
            if isinstance(found, Mapping):  # a token with its options
                found = found.get("content", found)
            if found is not None and (type(found) is not type(value) or found != value):
                raise self.error(name, repr(value), found)

    # === Google's and Hugging Face's config ===

    def vocab_size(self) -> int | None:
        return self.positive("vocab_size") if "vocab_size" in self.values else None

    def approximate_gelu(self, plain_gelu: bool) -> bool:
        """True for GELU by tanh; `plain_gelu` is what the program calls `gelu`."""
        name = self.values.get("hidden_act", "gelu")
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            known = f"one of {', '.join(_ACTIVATIONS)}, which our encoders can compute"
            raise self.error("hidden_act", known, name)
        approximate = _ACTIVATIONS[name]
        return plain_gelu if approximate is None else approximate

    def sizes(self, store: Store, layout: TensorNames) -> Sizes:
        """The sizes, which must be those of the tensors.

        Compared before anything is built that grows with them. Missing tensors are left
        to those who read them.
        """
        sizes = Sizes(**{field: self.positive(key) for key, field in SIZES.items()})
        if sizes.hidden_size % sizes.num_heads:
            raise ForeignWeightsError(
                f"{self.path}: `hidden_size` must be a multiple of "
                f"`num_attention_heads`. Found: {sizes.hidden_size} and "
                f"{sizes.num_heads}"
            )
        num_layers = len({*layout.layer_numbers(store.shapes).values()})
        first = "self_attention_layer/query/kernel"
        if sizes.num_layers > num_layers:
            missing = layout.name(f"transformer_layer_{num_layers}/{first}")
            raise ForeignWeightsError(
                f"{self.path}: `num_hidden_layers` must be that of {store.source}, "
                f"{num_layers}, which has no {missing!r}. Found: {sizes.num_layers}"
            )
        for key, weight in (
            ("hidden_size", "embeddings_layer_norm/gamma"),
            (
                "intermediate_size",
                "transformer_layer_0/feedforward_intermediate_dense/bias",
            ),
        ):
            expected, name = self.values[key], layout.name(weight)
            shape = store.shapes.get(name, (expected,))
            if len(shape) == 1 and shape[0] != expected:
                expected = (
                    f"{shape[0]}, as the tensor {name!r} of {store.source} has it"
                )
                raise self.error(key, expected, self.values[key])
        return sizes
