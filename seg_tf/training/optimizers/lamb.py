"""LAMB as in its paper, with the slots of Keras's LAMB."""

from typing import Any

import keras
from keras import ops

from seg_tf.training.optimizers.adamw import dense


@keras.saving.register_keras_serializable(package="seg_tf")
class Lamb(keras.optimizers.Lamb):
    """LAMB (You et al., 2019, arXiv:1904.00962, algorithm 2).

    The update of a variable is Adam's step plus the decay. Its length becomes the rate
    times the length of the variable:

        u = m_hat / (sqrt(v_hat) + epsilon) + weight_decay * w
        w = w - rate * |w| / |u| * u

    with bias-corrected moments, and 1 for the ratio where a norm is 0, at least in
    float32. `keras.optimizers.Lamb` shrinks the variable by `rate * weight_decay`
    first, as AdamW does, and scales only Adam's step. Without decay both are the same.

    Algorithm 2 adapts the rate of every layer, and so does NVIDIA's TensorFlow recipe
    for BERT, whose rates are the defaults here. The code published with the paper, in
    TensorFlow Addons and tf-models-official, uses Adam's rate for variables without
    decay.

    Args:
        adapt_excluded: bool. Whether the trust ratio also applies to variables
            that are not decayed.
        **kwargs: arguments of `keras.optimizers.Lamb`.
    """

    def __init__(self, *, adapt_excluded: bool = True, **kwargs: Any):
        super().__init__(**kwargs)
        self.adapt_excluded = adapt_excluded

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        dtype = keras.backend.result_type(variable.dtype, "float32")
        index = self._get_variable_index(variable)
        decayed = self._use_weight_decay(variable)
        gradient = ops.cast(dense(gradient), dtype)
        weights = ops.cast(ops.convert_to_tensor(variable), dtype)
        step = ops.cast(self.iterations + 1, dtype)

        def moment(slot: Any, value: Any, beta: float) -> Any:
            """Updates a slot; returns the moment corrected for its start at 0."""
            average = ops.cast(slot, dtype)
            average = average + (value - average) * (1 - beta)
            self.assign(slot, average)
            return average / (1 - ops.power(beta, step))

        first = moment(self._momentums[index], gradient, self.beta_1)
        second = moment(self._velocities[index], ops.square(gradient), self.beta_2)
        update = first / (ops.sqrt(second) + self.epsilon)
        if decayed and self.weight_decay:
            update = update + self.weight_decay * weights
        rate = ops.cast(learning_rate, dtype)
        if decayed or self.adapt_excluded:
            lengths = [ops.sqrt(ops.sum(ops.square(v))) for v in (weights, update)]
            has_ratio = ops.logical_and(lengths[0] > 0, lengths[1] > 0)
            # Without the inner choice, the other branch could be 0 / 0.
            ratio = lengths[0] / ops.where(has_ratio, lengths[1], 1.0)
            rate = rate * ops.where(has_ratio, ratio, 1.0)
        self.assign_sub(variable, rate * update)

    def _apply_weight_decay(self, variables: Any) -> None:
        """Does nothing: the decay is part of the update."""

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "adapt_excluded": self.adapt_excluded}
