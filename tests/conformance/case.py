"""One public class and the inputs that try its properties."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from seg_tf.features import FEATURES
from seg_tf.objectives.base import ObjectiveLayer

Specs = Mapping[str, tuple[tuple[int | None, ...], str]]


def feature_specs(*names: str) -> Specs:
    """Specs of features of the batch contract, with two predictions of masked LM."""
    return {
        name: (
            tuple({"P": 2}.get(letter) for letter in FEATURES[name].shape[1:]),
            FEATURES[name].dtype,
        )
        for name in names
    }


def call_with_features(layer: Any, inputs: Mapping[str, Any]) -> Any:
    if isinstance(layer, ObjectiveLayer):
        return layer(inputs["sequence_output"], inputs)
    return layer(inputs)


def call_with_arguments(layer: Any, inputs: Mapping[str, Any]) -> Any:
    return layer(**inputs)


@dataclasses.dataclass(frozen=True)
class Case:
    """One public class and the inputs that try its properties.

    Attributes:
        cls: the class.
        arguments: arguments of its constructor, none of them a default; functions are
            called with a dtype.
        specs: `{name: (shape without batch, dtype)}` of its inputs.
        reference: the same in NumPy, from the layer and the inputs.
        apply: calls the layer on a dict of inputs.
        limits: exclusive upper bound of each integer input; 2 by default.
        make_inputs: makes the inputs from batch and length, if they depend on each
            other; None fills every shape independently.
        float32_output: whether the output is float32 under any policy.
        saved_within: the class whose case saves it, if a functional model cannot.
        compiled_within: the case whose layer calls this one, and with which XLA and JAX
            compile it.
        variant: distinguishes cases of the same class.
    """

    cls: type
    arguments: Mapping[str, Any]
    specs: Specs
    reference: Callable[[Any, Mapping[str, np.ndarray]], Any]
    apply: Callable[[Any, Mapping[str, Any]], Any] = call_with_features
    limits: Mapping[str, int] = dataclasses.field(default_factory=dict)
    make_inputs: Callable[[int, int], dict[str, np.ndarray]] | None = None
    float32_output: bool = False
    saved_within: str = ""
    compiled_within: str = ""
    variant: str = ""

    @property
    def name(self) -> str:
        return self.cls.__name__ + (f"-{self.variant}" if self.variant else "")

    @property
    def is_objective(self) -> bool:
        """True for objectives, whose outputs are sums over the rows in float32."""
        return issubclass(self.cls, ObjectiveLayer)

    def make_arguments(self, dtype: str | None = None) -> dict[str, Any]:
        return {
            name: value(dtype) if callable(value) else value
            for name, value in self.arguments.items()
        }

    def build(self, dtype: str | None = None) -> keras.layers.Layer:
        """A built layer whose weights are the same numbers every time."""
        layer = self.cls(**self.make_arguments(dtype), dtype=dtype)
        self.apply(layer, self.inputs(batch=1))
        set_fixed_weights(layer)
        return layer

    def inputs(self, batch: int, length: int = 5) -> dict[str, np.ndarray]:
        """Inputs that depend on nothing but their shape."""
        if self.make_inputs:
            made = self.make_inputs(batch, length)
            return {name: made[name] for name in self.specs}
        values = {}
        for number, (name, (shape, dtype)) in enumerate(self.specs.items()):
            full = (batch, *(length if size is None else size for size in shape))
            count = np.arange(np.prod(full)).reshape(full)
            if dtype == "float32":
                values[name] = waves(full, number)
            else:
                limit = self.limits.get(name, 2)
                values[name] = ((7 * count + number) % limit).astype(dtype)
        if "padding_mask" in values:
            values["padding_mask"][:, 0] = True
        return values

    def model(self, layer: keras.layers.Layer) -> keras.Model:
        """A Keras model of nothing but the layer, its outputs a flat list."""
        inputs = {
            name: keras.Input(shape, dtype=dtype, name=name)
            for name, (shape, dtype) in self.specs.items()
        }
        return keras.Model(inputs, keras.tree.flatten(self.apply(layer, inputs)))


def waves(shape: tuple[int, ...], number: int) -> np.ndarray:
    """Float values of input number `number`."""
    count = np.arange(np.prod(shape)).reshape(shape)
    return np.abs(np.cos(count + number)).astype("float32")


def squares(outputs: list[Any]) -> Any:
    """Sum of all squares. A LayerNorm's output has a fixed plain sum."""
    return sum(keras.ops.sum(output**2) for output in outputs)


def set_fixed_weights(layer: keras.layers.Layer) -> None:
    """Sets weight number n, in the order of their paths, to waves around its start."""
    weights = {weight.path: weight for weight in layer.trainable_weights}
    for number, path in enumerate(sorted(weights)):
        offset = 1.0 if path.endswith(("gamma", "scale")) else 0.0
        count = np.arange(np.prod(weights[path].shape)).reshape(weights[path].shape)
        weights[path].assign(offset + 0.5 * np.sin(1.7 * count + number))
