"""LAMB as its paper has it, on the slots of Keras's."""

from typing import Any

import keras
from keras import ops

from seg_tf.training.optimizers.adamw import dense


@keras.saving.register_keras_serializable(package="seg_tf")
class Lamb(keras.optimizers.Lamb):
    """LAMB (You et al., 2019, arXiv:1904.00962, algorithm 2).

    Adam's step plus the decay is the update of a variable, and its length becomes
    the rate times that of the variable:

        u = m_hat / (sqrt(v_hat) + epsilon) + weight_decay * w
        w = w - rate * |w| / |u| * u

    with bias-corrected moments, and 1 for the ratio where a norm is 0.

    `keras.optimizers.Lamb` shrinks the variable by `rate * weight_decay` first, as
    AdamW does, and scales Adam's step alone: its decay is not in the norm, and is
    not scaled. Without decay the two are the same.

    Variables named in `exclude_from_weight_decay` are not decayed. Whether their
    rate is adapted is told differently: algorithm 2 adapts every layer's, and so
    does NVIDIA's TensorFlow recipe for BERT; the code published with the paper, in
    TensorFlow Addons and tf-models-official, leaves them Adam's rate unless told
    otherwise. Adapting is the default here: NVIDIA's rates go with it, and as
    Adam's rate of a bias 6e-3 is sixty times BERT's.

    The arithmetic is at least in float32 whatever the variable's type.

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
        first, second = self._momentums[index], self._velocities[index]
        decayed = self._use_weight_decay(variable)

        gradient = ops.cast(dense(gradient), dtype)
        weights = ops.cast(ops.convert_to_tensor(variable), dtype)
        new_first = _mix(ops.cast(first, dtype), gradient, self.beta_1)
        new_second = _mix(ops.cast(second, dtype), ops.square(gradient), self.beta_2)
        self.assign(first, new_first)
        self.assign(second, new_second)

        step = ops.cast(self.iterations + 1, dtype)
        update = (new_first / (1 - ops.power(self.beta_1, step))) / (
            ops.sqrt(new_second / (1 - ops.power(self.beta_2, step))) + self.epsilon
        )
        if decayed and self.weight_decay:
            update = update + self.weight_decay * weights
        rate = ops.cast(learning_rate, dtype)
        if decayed or self.adapt_excluded:
            rate = rate * _trust_ratio(weights, update)
        self.assign_sub(variable, rate * update)

    def _apply_weight_decay(self, variables: Any) -> None:
        """Nothing beforehand: the decay is part of the update."""

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "adapt_excluded": self.adapt_excluded}


def _mix(average: Any, value: Any, beta: float) -> Any:
    return average + (value - average) * (1 - beta)


def _trust_ratio(weights: Any, update: Any) -> Any:
    weights_norm, update_norm = _norm(weights), _norm(update)
    both = ops.logical_and(weights_norm > 0, update_norm > 0)
    # The branch that is not taken would be 0 / 0.
    return ops.where(both, weights_norm / ops.where(both, update_norm, 1.0), 1.0)


def _norm(value: Any) -> Any:
    return ops.sqrt(ops.sum(ops.square(value)))
