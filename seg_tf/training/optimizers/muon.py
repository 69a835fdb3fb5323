"""Muon for hidden matrices, AdamW for everything else."""

import math
from typing import Any

import keras
from keras import ops

from seg_tf.layers.hidden_matrices import hidden_matrix_shape
from seg_tf.training.optimizers.adamw import AdamW
from seg_tf.training.optimizers.dense_gradients import dense

# Of the polynomial that pulls singular values of 0 to 1 towards 1 (Jordan et al.).
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_STEPS = 5


@keras.saving.register_keras_serializable(package="seg_tf")
class Muon(AdamW):
    """Muon (Jordan et al., 2024, https://kellerjordan.github.io/posts/muon/).

    The kernels that layers mark as hidden matrices (`seg_tf.layers.hidden_matrices`)
    move by the orthogonalized Nesterov momentum of their gradient:

        m = momentum * m + g
        u = sqrt(max(1, outputs / inputs)) * orthogonalize(g + momentum * m)
        w = w - matrix_rate_ratio * rate * (u + weight_decay * w)

    with g, m and w as matrices of inputs x outputs; heads count as one axis together
    with their size. The published scale is sqrt(max(1, rows / columns)) of PyTorch's
    weights, which are outputs x inputs. The decay is that of Liu et al. (2025,
    arXiv:2502.16982, section 2.2), at the matrices' own rate.

    All other variables are updated by `AdamW`. Matrices have no second moment.

    `keras.optimizers.Muon` takes two-dimensional kernels only, which those of attention
    are not, and chooses them by name.

    The arithmetic of matrices is at least in float32 whatever the variable's type.

    Args:
        *args: as for `AdamW`.
        matrix_rate_ratio: float. The rate of matrices over `learning_rate`, which is
            that of all other variables.
        momentum: float. Decay of the matrices' momentum.
        **kwargs: as for `AdamW`.

    Raises:
        ValueError: when it is built, if no variable is marked.
    """

    def __init__(
        self,
        *args: Any,
        matrix_rate_ratio: float,
        momentum: float = 0.95,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.matrix_rate_ratio = matrix_rate_ratio
        self.momentum = momentum

    def build(self, var_list: list[Any]) -> None:
        if self.built:
            return
        # By index: an update may be handed the backend's variable, which has no mark.
        self._matrix_shapes = tuple(map(hidden_matrix_shape, var_list))
        if not any(self._matrix_shapes):
            raise ValueError(
                "`var_list` must contain hidden matrices for Muon: kernels that their "
                "layers mark by `mark_hidden_matrix`. Use AdamW for a model without. "
                f"Received: {len(var_list)} variables, none of them marked"
            )
        # Not Adam's, which has a second moment for each variable.
        super(keras.optimizers.Adam, self).build(var_list)
        self._momentums = self.add_optimizer_variables(var_list, "momentum")
        self._velocities = [
            None if shape else self.add_variable_from_reference(variable, "velocity")
            for variable, shape in zip(var_list, self._matrix_shapes, strict=True)
        ]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        index = self._get_variable_index(variable)
        shape, slot = self._matrix_shapes[index], self._momentums[index]
        if shape is None:
            super().update_step(gradient, variable, learning_rate)
            return
        dtype = keras.backend.result_type(variable.dtype, "float32")
        gradient = ops.cast(dense(gradient), dtype)
        momentum = self.momentum * ops.cast(slot, dtype) + gradient
        self.assign(slot, momentum)
        update = orthogonalize(ops.reshape(gradient + self.momentum * momentum, shape))
        inputs, outputs = shape
        update = math.sqrt(max(1, outputs / inputs)) * ops.reshape(
            update, variable.shape
        )
        if self.weight_decay and self._use_weight_decay(variable):
            weights = ops.cast(ops.convert_to_tensor(variable), dtype)
            update = update + self.weight_decay * weights
        rate = self.matrix_rate_ratio * ops.cast(learning_rate, dtype)
        self.assign_sub(variable, rate * update)

    def _apply_weight_decay(self, variables: Any) -> None:
        """The decay of matrices is part of their update."""
        shapes = (self._matrix_shapes[self._get_variable_index(v)] for v in variables)
        super()._apply_weight_decay(
            [v for v, shape in zip(variables, shapes, strict=True) if shape is None]
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "matrix_rate_ratio": self.matrix_rate_ratio,
            "momentum": self.momentum,
        }


def orthogonalize(matrix: Any) -> Any:
    """A matrix's singular vectors with singular values near 1, by Newton-Schulz.

    Args:
        matrix: tensor `(N, M)`.

    Returns:
        Tensor `(N, M)`. Its singular values lie between 0.68 and 1.21 where those of
        the matrix are at least 0.002 of its Frobenius norm.
    """
    a, b, c = _COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = ops.transpose(matrix) if is_tall else matrix
    x = x / (ops.sqrt(ops.sum(ops.square(x))) + 1e-7)
    for _ in range(_STEPS):
        gram = ops.matmul(x, ops.transpose(x))
        x = a * x + ops.matmul(b * gram + c * ops.matmul(gram, gram), x)
    return ops.transpose(x) if is_tall else x
