"""Gradients of tables as ordinary tensors."""

from typing import Any

import keras


def dense(gradient: Any) -> Any:
    """The gradient as an ordinary tensor.

    TensorFlow's gradient of an embedding table may be a list of rows, some of them
    twice; a norm or a square taken row by row would be that of another gradient.
    """
    if keras.backend.backend() != "tensorflow":
        return gradient
    import tensorflow as tf

    if isinstance(gradient, tf.IndexedSlices):
        return tf.convert_to_tensor(gradient)
    return gradient
