"""Marks of hidden matrices, by which `seg_tf.training.optimizers.muon` finds them."""

import math
from typing import Any


def mark_hidden_matrix(kernel: Any, input_axes: int = 1) -> None:
    """Marks a kernel that maps hidden states to hidden states.

    Embeddings, norms, biases and output heads are not marked.

    Args:
        kernel: a Keras variable, from a built layer.
        input_axes: int. Leading axes that are contracted with the input: 1 of `(D, I)`
            and of a projection to heads `(D, H, E)`, 2 of one from heads `(H, E, D)`.
    """
    inputs, outputs = kernel.shape[:input_axes], kernel.shape[input_axes:]
    kernel.hidden_matrix_shape = math.prod(inputs), math.prod(outputs)
