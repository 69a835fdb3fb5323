"""The two forms of GELU that BERT models were trained with."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="seg_tf")
def tanh_gelu(inputs: Any) -> Any:
    """GELU with its normal distribution approximated by a hyperbolic tangent."""
    return ops.gelu(inputs, approximate=True)


def gelu(approximate: bool) -> Callable[[Any], Any]:
    """The activation that a model's `approximate_gelu` asks for.

    Args:
        approximate: whether to take the tanh form, as BERT's published code does,
            rather than the exact one, as in most ports of it. They differ by less
            than 5e-4 in value, which is enough to spoil a loaded checkpoint's
            last digits, and nothing else.

    Returns:
        A function that Keras can serialise.
    """
    return tanh_gelu if approximate else keras.activations.gelu
