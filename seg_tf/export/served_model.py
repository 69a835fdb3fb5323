"""Base of what becomes a SavedModel."""

from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

Signature = Callable[..., Mapping[str, tf.Tensor]]


class ServedModel(tf.Module):
    """Content of a SavedModel: its signatures and the state that they use.

    Attributes:
        functions: that of each signature, by its name.
    """

    functions: Mapping[str, Signature]

    def hold(self, model: keras.Model) -> None:
        """Makes the weights of a Keras model, and nothing else of it, be saved."""
        self.weights = [variable.value for variable in model.variables]


def text_specs(num_texts: int) -> list[tf.TensorSpec]:
    """The arguments of a signature that takes texts."""
    names = ("text", "second_text")[:num_texts]
    return [tf.TensorSpec([None], tf.string, name) for name in names]
