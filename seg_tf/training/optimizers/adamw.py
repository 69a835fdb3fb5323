"""AdamW, a variable's update in one pass over its memory."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


def dense(gradient: Any) -> Any:
    """The gradient as an ordinary tensor.

    TensorFlow may return the gradient of an embedding table as a list of rows, some
    of them repeated. Their norm and squares differ from those of the whole gradient.
    """
    if keras.backend.backend() != "tensorflow":
        return gradient
    import tensorflow as tf

    if isinstance(gradient, tf.IndexedSlices):
        return tf.convert_to_tensor(gradient)
    return gradient


@keras.saving.register_keras_serializable(package="seg_tf")
class AdamW(keras.optimizers.AdamW):
    """AdamW (Loshchilov and Hutter, 2019, algorithm 2), by TensorFlow's Adam kernel.

        m = m + (1 - beta_1) * (g - m)
        v = v + (1 - beta_2) * (g**2 - v)
        m_hat, v_hat = m / (1 - beta_1**t), v / (1 - beta_2**t)
        w = w - rate * m_hat / (sqrt(v_hat) + epsilon)

    This is PyTorch's form. Keras adds epsilon to `sqrt(v)`, before the correction,
    which makes it 1 / sqrt(1 - beta_2**t) times as large: 32 times at the first update,
    where 1e-6 then slows all weights whose gradients are below 1e-4.

    Keras computes the update by some ten operators, each of which reads and writes
    arrays of the variable's size; memory is what an update waits for. On a CPU the
    kernel halves the time of the update of a model of 52 million parameters. Variables
    that are not float32, whose numbers cannot hold beta_2, and those of other backends
    are updated by operators.

    The config holds the names of what does not decay, which Keras's forgets: the
    optimizer of a model that is saved and loaded would continue differently.

    Args:
        *args: as for `keras.optimizers.AdamW`.
        undecayed: parts of names of variables whose weights do not decay.
        **kwargs: as for `keras.optimizers.AdamW`.

    Raises:
        ValueError: if `amsgrad` is asked for.
    """

    def __init__(self, *args: Any, undecayed: Sequence[str] = (), **kwargs: Any):
        super().__init__(*args, **kwargs)
        if self.amsgrad:
            raise ValueError("`amsgrad` must be False. Received: amsgrad=True")
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
        index = self._get_variable_index(variable)
        first, second = self._momentums[index], self._velocities[index]
        gradient = ops.cast(dense(gradient), variable.dtype)
        rate = ops.cast(learning_rate, "float32")
        step = ops.cast(self.iterations.value + 1, "float32")
        power_1, power_2 = ops.power(self.beta_1, step), ops.power(self.beta_2, step)
        # The kernel divides by sqrt(v) + epsilon and corrects the quotient.
        root = ops.sqrt(1 - power_2)
        epsilon = self.epsilon * root
        if _has_kernel(variable):
            import tensorflow as tf

            tf.raw_ops.ResourceApplyAdam(
                var=_of_tensorflow(variable).handle,
                m=_of_tensorflow(first).handle,
                v=_of_tensorflow(second).handle,
                beta1_power=power_1,
                beta2_power=power_2,
                lr=rate,
                beta1=self.beta_1,
                beta2=self.beta_2,
                epsilon=epsilon,
                grad=gradient,
            )
            return
        self.assign_add(first, (gradient - first.value) * (1 - self.beta_1))
        square = ops.square(gradient)
        self.assign_add(second, (square - second.value) * (1 - self.beta_2))
        scale, epsilon = (
            ops.cast(number, gradient.dtype)
            for number in (rate * root / (1 - power_1), epsilon)
        )
        change = scale * first.value / (ops.sqrt(second.value) + epsilon)
        self.assign_sub(variable, change)


def _has_kernel(variable: Any) -> bool:
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    value = _of_tensorflow(variable)
    return isinstance(value, tf.Variable) and value.dtype == tf.float32


def _of_tensorflow(variable: Any) -> Any:
    """TensorFlow's own variable, of that or of a Keras variable."""
    return variable.value if isinstance(variable, keras.Variable) else variable
