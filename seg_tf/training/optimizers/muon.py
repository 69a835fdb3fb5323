"""Muon for hidden matrices, AdamW for everything else."""

import math
from typing import Any

import keras
from keras import ops

from seg_tf.training.optimizers.adamw import AdamW, dense


@keras.saving.register_keras_serializable(package="seg_tf")
class Muon(AdamW):
    """Muon (Jordan et al., 2024, https://kellerjordan.github.io/posts/muon/).

    The kernels that layers mark as hidden matrices (`seg_tf.layers.common`)
    move by the orthogonalized Nesterov momentum of their gradient:

        m = momentum * m + g
        u = sqrt(max(1, outputs / inputs)) * orthogonalize(g + momentum * m)
        w = w - matrix_rate_ratio * rate * (u + weight_decay * w)

    with g, m and w as matrices of inputs x outputs, which merge the axes of heads, at
    least in float32. The published scale is sqrt(max(1, rows / columns)) of PyTorch's
    weights, which are outputs x inputs. The decay is that of Liu et al. (2025,
    arXiv:2502.16982, section 2.2). Matrices have no second moment.

    `AdamW` updates all other variables. `keras.optimizers.Muon` takes only kernels of
    two dimensions, which attention's are not, and chooses them by name.

    Args:
        *args: as for `AdamW`.
        matrix_rate_ratio: float. The rate of matrices over that of AdamW.
        momentum: float. Decay of the matrices' momentum.
        **kwargs: as for `AdamW`.
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
        self._matrix_shapes = tuple(
            getattr(variable, "hidden_matrix_shape", None) for variable in var_list
        )
        if not any(self._matrix_shapes):
            raise ValueError(
                "`var_list` must contain kernels that `mark_hidden_matrix` has marked; "
                "use AdamW for others. Received: "
                f"{len(var_list)} variables, none of them marked"
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
        scale = math.sqrt(max(1, shape[1] / shape[0]))
        update = scale * ops.reshape(update, variable.shape)
        if self.weight_decay and self._use_weight_decay(variable):
            weights = ops.cast(ops.convert_to_tensor(variable), dtype)
            update = update + self.weight_decay * weights
        rate = self.matrix_rate_ratio * ops.cast(learning_rate, dtype)
        self.assign_sub(variable, rate * update)

    def _apply_weight_decay(self, variables: Any) -> None:
        """The decay of matrices is part of their update."""
        indices = map(self._get_variable_index, variables)
        pairs = zip(variables, indices, strict=True)
        super()._apply_weight_decay([v for v, i in pairs if not self._matrix_shapes[i]])

    def get_config(self) -> dict[str, Any]:
        own = {"matrix_rate_ratio": self.matrix_rate_ratio, "momentum": self.momentum}
        return {**super().get_config(), **own}


def orthogonalize(matrix: Any) -> Any:
    """A matrix `(N, M)` with singular values near 1, by Newton-Schulz.

    They lie between 0.68 and 1.21 if they were at least 0.002 of the Frobenius norm.
    """
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = ops.transpose(matrix) if is_tall else matrix
    x = x / (ops.sqrt(ops.sum(ops.square(x))) + 1e-7)
    for _ in range(5):  # the coefficients are those of Jordan et al.
        gram = ops.matmul(x, ops.transpose(x))
        factor = -4.7750 * gram + 2.0315 * ops.matmul(gram, gram)
        x = 3.4445 * x + ops.matmul(factor, x)
    return ops.transpose(x) if is_tall else x
