"""Hidden matrices: the kernels that Muon updates, as the layers mark them."""

import math
from typing import Any

_INPUT_AXES = "hidden_matrix_input_axes"


def mark_hidden_matrix(kernel: Any, input_axes: int = 1) -> None:
    """Marks a kernel that maps hidden states to hidden states.

    Embeddings, norms, biases and output heads are not marked. The mark changes nothing
    but the update by `seg_tf.training.optimizers.muon.Muon`.

    Args:
        kernel: a Keras variable, from a built layer.
        input_axes: int. Leading axes that are contracted with the input: 1 of `(D, I)`
            and of a projection to heads `(D, H, E)`, 2 of one from heads `(H, E, D)`.

    Raises:
        ValueError: if the kernel would have no input or no output axis.

    Example:
    >>> import keras
    >>> kernel = keras.Variable(keras.ops.zeros((2, 3, 8)))
    >>> mark_hidden_matrix(kernel, input_axes=2)
    >>> hidden_matrix_shape(kernel)
    (6, 8)
    """
    if not 0 < input_axes < len(kernel.shape):
        raise ValueError(
            "`input_axes` must be at least 1 and leave an output axis. Received: "
            f"input_axes={input_axes}, kernel of shape {tuple(kernel.shape)}"
        )
    setattr(kernel, _INPUT_AXES, input_axes)


def hidden_matrix_shape(variable: Any) -> tuple[int, int] | None:
    """(inputs, outputs) of a marked kernel as one matrix; None if it is not marked."""
    axes = getattr(variable, _INPUT_AXES, None)
    if axes is None:
        return None
    return math.prod(variable.shape[:axes]), math.prod(variable.shape[axes:])
