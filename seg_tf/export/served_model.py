"""Base of what becomes a SavedModel."""

from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from seg_tf.layouts.layout import Features

Signature = Callable[..., Mapping[str, tf.Tensor]]


class ServedModel(tf.Module):
    """Content of a SavedModel: its signatures and the state that they use.

    Attributes:
        functions: that of each signature, by its name.
        rows_of_texts: from texts, string `(B,)`, to features that `encode_ids` reads.
    """

    functions: Mapping[str, Signature]
    rows_of_texts: Callable[[tf.Tensor], Features]

    def hold(self, model: keras.Model) -> None:
        """Makes the weights of a Keras model, and nothing else of it, be saved."""
        self.weights = [variable.value for variable in model.variables]


def text_specs(num_texts: int) -> list[tf.TensorSpec]:
    """The arguments of a signature that takes texts."""
    names = ("text", "second_text")[:num_texts]
    return [tf.TensorSpec([None], tf.string, name) for name in names]
