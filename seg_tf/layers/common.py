"""Shared by layers: configs, features, dropout, GELU, hidden matrices, recomputing."""

import difflib
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import keras
from keras import ops

from seg_tf.features import FEATURES, tensor_specs

_Parameters = ParamSpec("_Parameters")


_Result = TypeVar("_Result")


# Part of the base class's config.
_KERAS = ("dtype", "kwargs")


def with_arguments(
    config: Mapping[str, Any], instance: Any, cls: type
) -> dict[str, Any]:
    """The config of a base class, plus the constructor arguments of `cls`.

    Their values are the attributes of `instance` with the same names.
    """
    names = [name for name in inspect.signature(cls).parameters if name not in _KERAS]
    return {**config, **{name: _plain(getattr(instance, name)) for name in names}}


def _plain(value: Any) -> Any:
    if isinstance(value, keras.initializers.Initializer):
        return keras.initializers.serialize(value)
    return dict(value) if isinstance(value, Mapping) else value


def checked_names(
    function: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """Makes a class method refuse unknown arguments and suggest the nearest name.

    The decorator goes below `@classmethod`. Calls with an unknown argument raise a
    ValueError.
    """
    known = list(inspect.signature(function).parameters)[1:]

    @functools.wraps(function)
    def checked(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        for name, value in kwargs.items():
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"Did you mean `{close[0]}`? " if close else ""
                owner: Any = args[0]
                raise ValueError(
                    f"`{name}` must be one of the arguments of `{owner.__name__}."
                    f"{function.__name__}`: {', '.join(known)}. {hint}"
                    f"Received: {name}={value!r}"
                )
        return function(*args, **kwargs)

    return checked


def select_features(inputs: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Selects the features of `inputs` that are listed in `names`.

    Raises:
        ValueError: if one is missing.
    """
    missing = [name for name in names if name not in inputs]
    if missing:
        raise ValueError(
            f"`inputs` must hold the features {list(names)}. It lacks {missing}. "
            f"Received: {sorted(inputs)}"
        )
    return {name: inputs[name] for name in names}


def feature_inputs(names: Iterable[str]) -> dict[str, Any]:
    """Keras inputs of features of the batch contract, every dimension dynamic."""
    sizes = {letter: None for one in FEATURES.values() for letter in one.shape}
    return {
        name: keras.Input(batch_shape=shape, dtype=dtype, name=name)
        for name, (shape, dtype) in tensor_specs(names, sizes).items()
    }


@keras.saving.register_keras_serializable(package="seg_tf")
class Dropout(keras.layers.Dropout):
    """`keras.layers.Dropout`, drawn and scaled in float32.

    Keras draws or scales in the dtype of the inputs. In bfloat16 a rate of 0.1 then
    drops 10.13 % of the inputs on TensorFlow, and the mean of the outputs is off by
    -0.3 % there and by 0.2 % on JAX. In float32 the two layers compute the same.

    Args:
        rate: float. Share of the inputs that are dropped.
        **kwargs: arguments of `keras.layers.Dropout`.
    """

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not (training and self.rate):
            return inputs
        # Casts do nothing in float32.
        dtype = keras.backend.result_type(inputs.dtype, "float32")
        outputs = super().call(ops.cast(inputs, dtype), training=training)
        return ops.cast(outputs, inputs.dtype)


@keras.saving.register_keras_serializable(package="seg_tf")
def tanh_gelu(inputs: Any) -> Any:
    """GELU with its normal distribution approximated by a hyperbolic tangent."""
    return ops.gelu(inputs, approximate=True)


def gelu(approximate: bool) -> Callable[[Any], Any]:
    """GELU in the tanh form, as in BERT's published code, or exact, as in most ports.

    The two differ by less than 5e-4, which only matters for the last digits of a
    loaded checkpoint. Keras can serialise both functions.
    """
    return tanh_gelu if approximate else keras.activations.gelu


def mark_hidden_matrix(kernel: Any, input_axes: int = 1) -> None:
    """Marks a kernel that maps hidden states to hidden states, for Muon.

    Embeddings, norms, biases and output heads are not marked.

    Args:
        kernel: a Keras variable, from a built layer.
        input_axes: int. Leading axes that are contracted with the input: 1 for `(D, I)`
            and a projection to heads `(D, H, E)`, 2 for one from heads `(H, E, D)`.
    """
    inputs, outputs = kernel.shape[:input_axes], kernel.shape[input_axes:]
    kernel.hidden_matrix_shape = math.prod(inputs), math.prod(outputs)


def recomputable(call: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of `call`, for layers with an attribute `recompute`.

    If it is true, a call with `training=True` keeps only its arguments for the backward
    pass, which repeats the call with the same weights and the same dropout. The layer
    must return one tensor. (`keras.RematScope` does not work inside a `tf.function`,
    and would draw other dropout masks the second time.)
    """
    signature = inspect.signature(call)

    @functools.wraps(call)
    def recomputing_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        if not (self.recompute and given.get("training")):
            return call(self, *args, **kwargs)
        # Variables among the arguments, such as shared ones, are read here.
        leaves = [
            leaf.value if isinstance(leaf, keras.Variable) else leaf
            for leaf in keras.tree.flatten((args, kwargs))
        ]
        are_tensors = [ops.is_tensor(leaf) for leaf in leaves]
        variables, weights = self.variables, {id(weight) for weight in self.weights}
        # The states of dropout's generators.
        states = [one for one in variables if id(one) not in weights]

        def compute(values: Sequence[Any], tensors: Sequence[Any]) -> Any:
            rest = iter(tensors)
            filled = [
                next(rest) if is_tensor else leaf
                for leaf, is_tensor in zip(leaves, are_tensors, strict=True)
            ]
            own_args, own_kwargs = keras.tree.pack_sequence_as((args, kwargs), filled)
            mapping = zip(variables, values, strict=True)
            with keras.StatelessScope(state_mapping=mapping) as scope:
                output = call(self, *own_args, **own_kwargs)
            return output, [scope.get_current_value(state) for state in states]

        output, new_states = _recomputed(
            compute,
            [one.value for one in variables],
            [leaf for leaf, is_one in zip(leaves, are_tensors, strict=True) if is_one],
        )
        for state, value in zip(states, new_states, strict=True):
            state.assign(value)
        return output

    return recomputing_call


def _recomputed(
    function: Callable[[Sequence[Any], Sequence[Any]], tuple[Any, list[Any]]],
    weights: Sequence[Any],
    tensors: Sequence[Any],
) -> tuple[Any, list[Any]]:
    """Calls a function of these tensors only; the backward pass repeats the call."""
    if keras.backend.backend() == "tensorflow":
        from seg_tf.ops import tensorflow_gradients

        return tensorflow_gradients.recomputed(function, weights, tensors)
    return keras.remat(function)(weights, tensors)
