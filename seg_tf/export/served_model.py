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


def checked(features: Features, encoder: keras.Model) -> Features:
    """The features of callers, who may send any number, checked in the graph.

    A negative index would be counted from the end of its table.

    Args:
        features: of rows.
        encoder: the encoder that reads them.
    """
    rows = {"token_ids": encoder.vocab_size, **getattr(encoder, "index_caps", {})}
    checks = []
    for name, values in features.items():
        if values.dtype.is_integer:
            message = f"`{name}` must be at least 0"
            checks.append(tf.debugging.assert_non_negative(values, message))
        if name in rows:
            message = f"`{name}` must be below {rows[name]}"
            checks.append(tf.debugging.assert_less(values, rows[name], message))
    with tf.control_dependencies([one for one in checks if one is not None]):
        return {name: tf.identity(values) for name, values in features.items()}
