"""Layers whose inner values the backward pass computes again, instead of holding them.

`keras.RematScope` does so for whole calls of layers, but not inside a `tf.function`,
and dropout would draw other masks the second time.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops


def recomputable(call: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of `call`, for layers with an attribute `recompute`.

    Where that is true, a call with `training=True` leaves its arguments and nothing
    else for the backward pass, which repeats it with the same weights and the same
    dropout. The layer must return one tensor.
    """
    signature = inspect.signature(call)

    @functools.wraps(call)
    def recomputing_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        if not (self.recompute and given.get("training")):
            return call(self, *args, **kwargs)
        # A variable among the arguments, such as one that layers share, is read here.
        leaves = [
            leaf.value if isinstance(leaf, keras.Variable) else leaf
            for leaf in keras.tree.flatten((args, kwargs))
        ]
        are_tensors = [ops.is_tensor(leaf) for leaf in leaves]
        variables, weights = self.variables, {id(weight) for weight in self.weights}
        # Of the generators of dropout.
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
    """Calls a function of nothing but these tensors; the backward pass repeats it."""
    if keras.backend.backend() == "tensorflow":
        from seg_tf.ops import tensorflow_gradients

        return tensorflow_gradients.recomputed(function, weights, tensors)
    return keras.remat(function)(weights, tensors)
