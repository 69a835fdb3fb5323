"""One public class and what its properties are tried with."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np


@dataclasses.dataclass(frozen=True)
class Case:
    """One public class and what its properties are tried with.

    Attributes:
        cls: the class.
        arguments: arguments of its constructor, none of them a default.
        specs: `{name: (shape without batch, dtype)}` of its inputs.
        limits: exclusive upper bound of each integer input.
        apply: calls the layer on a dict of inputs.
        reference: the same in NumPy, from the layer and the inputs.
        float32_output: whether the output is float32 whatever the policy.
        is_sum: whether the outputs are sums over the rows of a batch.
        make_inputs: makes the inputs from batch and length, where they depend on one
            another; None fills every shape for itself.
        saved_within: the class whose case saves it, where a functional model cannot:
            Keras would give it lists in place of named tuples.
        compiled_within: the case whose layer calls this one, and with which XLA and JAX
            compile it.
        variant: what tells it from another case of the same class.
    """

    cls: type
    arguments: Mapping[str, Any]
    specs: Mapping[str, tuple[tuple[int | None, ...], str]]
    limits: Mapping[str, int]
    apply: Callable[[Any, Mapping[str, Any]], Any]
    reference: Callable[[Any, Mapping[str, np.ndarray]], Any]
    float32_output: bool = False
    is_sum: bool = False
    make_inputs: Callable[[int, int], dict[str, np.ndarray]] | None = None
    saved_within: str = ""
    compiled_within: str = ""
    variant: str = ""

    @property
    def name(self) -> str:
        return self.cls.__name__ + (f"-{self.variant}" if self.variant else "")

    def make_arguments(self, dtype: str | None = None) -> dict[str, Any]:
        """The constructor's arguments; those given as functions of a dtype are made."""
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
    """Sum of all squares: not the plain sum, which a LayerNorm's output has fixed."""
    return sum(keras.ops.sum(output**2) for output in outputs)


def set_fixed_weights(layer: keras.layers.Layer) -> None:
    """Sets weight number n, in the order of their paths, to waves around its start."""
    weights = {weight.path: weight for weight in layer.trainable_weights}
    for number, path in enumerate(sorted(weights)):
        offset = 1.0 if path.endswith(("gamma", "scale")) else 0.0
        count = np.arange(np.prod(weights[path].shape)).reshape(weights[path].shape)
        weights[path].assign(offset + 0.5 * np.sin(1.7 * count + number))
