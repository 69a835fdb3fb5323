"""Defines the optimizers AdamW, Muon and LAMB, and their learning rate schedule."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from seg_tf.config import (
    AdamWConfig,
    CosineAdamWConfig,
    LambConfig,
    MuonConfig,
    StableAdamWConfig,
    configured_by,
)
from seg_tf.config.optimizers import share_of_run
from seg_tf.layers.common import with_arguments

# Variables that BERT does not decay: all biases, and the scale and offset of all norms.
# Keras searches for it in the name of the TensorFlow variable, which consists of a path
# and a number: "encoder/layer_norm/gamma:0".
NO_WEIGHT_DECAY = r"(^|/)(gamma|beta|scale|\w*bias)(:\d+)?$"


def dense(gradient: Any) -> Any:
    """Converts a gradient to a dense tensor.

    TensorFlow may return an embedding table's gradient as `IndexedSlices` with repeated
    rows, whose norm and squares differ from the dense gradient's.
    """
    if hasattr(gradient, "indices"):  # Keras does not convert these.
        import tensorflow as tf

        return tf.convert_to_tensor(gradient)
    return gradient


@keras.saving.register_keras_serializable(package="seg_tf")
class AdamW(keras.optimizers.AdamW):
    """AdamW (Loshchilov and Hutter, 2019, algorithm 2) with TensorFlow's Adam kernel.

        w = w - rate * weight_decay * w
        m = m + (1 - beta_1) * (g - m)
        v = v + (1 - beta_2) * (g**2 - v)
        m_hat, v_hat = m / (1 - beta_1**t), v / (1 - beta_2**t)
        w = w - rate * m_hat / (sqrt(v_hat) + epsilon)

    PyTorch also uses this form. Keras adds epsilon to `sqrt(v)`, before the bias
    correction. This makes epsilon 1 / sqrt(1 - beta_2**t) times as large, for example
    32 times at the first update if `beta_2` is 0.999.

    The kernel halves the time of an update on CPUs. Variables that are not float32 or
    not TensorFlow's are updated by Keras operations. The config contains `undecayed`.

    Args:
        *args: arguments of `keras.optimizers.AdamW`, without `amsgrad`.
        undecayed: list of str. Regular expressions for variables without weight decay.
        **kwargs: keyword arguments of `keras.optimizers.AdamW`.
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

    def _clip_gradients(self, grads: Sequence[Any]) -> Any:
        return super()._clip_gradients([*map(dense, grads)])

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        index = self._get_variable_index(variable)
        first, second = self._momentums[index], self._velocities[index]
        gradient = ops.cast(dense(gradient), variable.dtype)
        rate = ops.cast(learning_rate, "float32")
        step = ops.cast(self.iterations + 1, "float32")
        power_1, power_2 = ops.power(self.beta_1, step), ops.power(self.beta_2, step)
        # The kernel divides by sqrt(v) + epsilon and corrects the quotient.
        root = ops.sqrt(1 - power_2)
        epsilon = self.epsilon * root
        # Only TensorFlow variables have handles.
        handle = getattr(_backend_variable(variable), "handle", None)
        is_float32 = keras.backend.standardize_dtype(variable.dtype) == "float32"
        if handle is not None and is_float32:
            import tensorflow as tf

            tf.raw_ops.ResourceApplyAdam(
                var=handle,
                m=_backend_variable(first).handle,
                v=_backend_variable(second).handle,
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


def _backend_variable(variable: Any) -> Any:
    """Returns the backend's variable of a Keras variable, or the variable itself."""
    return variable.value if isinstance(variable, keras.Variable) else variable


@keras.saving.register_keras_serializable(package="seg_tf")
class Muon(AdamW):
    """Muon optimizer (Jordan et al., 2024, https://kellerjordan.github.io/posts/muon/).

    Kernels that layers mark as hidden matrices (`seg_tf.layers.common`) are updated by
    the orthogonalized Nesterov momentum of their gradient:

        m = momentum * m + g
        u = sqrt(max(1, outputs / inputs)) * orthogonalize(g + momentum * m)
        w = w - matrix_rate_ratio * rate * (u + weight_decay * w)

    Here g, m and w are inputs x outputs matrices, with head axes merged, in at least
    float32. The published scale is sqrt(max(1, rows / columns)) for PyTorch's weights,
    which are outputs x inputs. The weight decay follows Liu et al. (2025,
    arXiv:2502.16982, section 2.2). `AdamW` updates all other variables. `build` raises
    a `ValueError` if no kernel is marked. `keras.optimizers.Muon` only supports kernels
    with two dimensions, unlike those of attention, and chooses them by name.

    Args:
        *args: arguments of `AdamW`.
        matrix_rate_ratio: float. Learning rate of matrices divided by AdamW's.
        momentum: float. Decay of the matrices' momentum.
        **kwargs: keyword arguments of `AdamW`.
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
        # By index, because updates may get the backend's variable, which has no mark.
        self._matrix_shapes = tuple(
            getattr(variable, "hidden_matrix_shape", None) for variable in var_list
        )
        if not any(self._matrix_shapes):
            raise ValueError(
                "`var_list` must contain kernels that `mark_hidden_matrix` has marked; "
                "use AdamW for others. Received: "
                f"{len(var_list)} variables, none of them marked"
            )
        # Not Adam's `build`, which adds a second moment for each variable.
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
        """Decays all variables except matrices, whose decay is part of the update."""
        indices = map(self._get_variable_index, variables)
        pairs = zip(variables, indices, strict=True)
        super()._apply_weight_decay([v for v, i in pairs if not self._matrix_shapes[i]])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "matrix_rate_ratio": self.matrix_rate_ratio,
            "momentum": self.momentum,
        }


def orthogonalize(matrix: Any) -> Any:
    """Moves the singular values of a matrix `(N, M)` near 1 by Newton-Schulz steps.

    Singular values above 0.002 times the Frobenius norm end between 0.68 and 1.21.
    """
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = ops.transpose(matrix) if is_tall else matrix
    x = x / (ops.sqrt(ops.sum(ops.square(x))) + 1e-7)
    for _ in range(5):  # with the coefficients of Jordan et al.
        gram = ops.matmul(x, ops.transpose(x))
        factor = -4.7750 * gram + 2.0315 * ops.matmul(gram, gram)
        x = 3.4445 * x + ops.matmul(factor, x)
    return ops.transpose(x) if is_tall else x


@keras.saving.register_keras_serializable(package="seg_tf")
class Lamb(keras.optimizers.Lamb):
    """LAMB (You et al., 2019, arXiv:1904.00962, algorithm 2).

    The update of a variable is Adam's step plus the weight decay. It is scaled to the
    norm of the variable times the learning rate:

        u = m_hat / (sqrt(v_hat) + epsilon) + weight_decay * w
        w = w - rate * |w| / |u| * u

    Moments are bias-corrected. The trust ratio `|w| / |u|` is 1 if a norm is 0. All is
    computed in at least float32. `keras.optimizers.Lamb` decays the variable first,
    like AdamW, and only scales Adam's step. Without weight decay, both agree.

    Args:
        adapt_excluded: bool. Whether the trust ratio also applies to variables without
            weight decay, as in algorithm 2 and NVIDIA's recipe for BERT. The authors'
            code (TensorFlow Addons, tf-models-official) does not adapt their rate.
        **kwargs: keyword arguments of `keras.optimizers.Lamb`.
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
        """Does nothing, because the decay is part of the update."""

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "adapt_excluded": self.adapt_excluded}


@keras.saving.register_keras_serializable(package="seg_tf")
class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate schedule with linear warmup and polynomial or cosine decay.

    After `u` updates, with W = `warmup_updates` and N = `decay_updates`, the next
    update has the learning rate

        peak * (u + 1) / W                              while u < W
        end + (peak - end) * f((N - u) / (N - W))       while W <= u < N
        end                                             while u >= N

    so that no update of a run has rate 0. f(x) is x ** power or, if `power` is None,
    (1 - cos(pi x)) / 2. With `decay_from_start`, the second line divides by N. The rate
    then drops at the end of warmup, as in the code of BERT, NVIDIA and Transformer-XL.
    With `decay_begin`, the rate stays at the peak up to that update and the second line
    divides by N - decay_begin: warmup–stable–decay (Hu et al., 2024, section 4).

    Args:
        peak_learning_rate: float. Learning rate at the end of warmup.
        decay_updates: int. Number of updates after which the end rate is reached. May
            exceed the length of the run.
        warmup_updates: int. Number of warmup updates. If 0, the run starts at the peak.
        end_learning_rate: float. Learning rate after the decay.
        decay_from_start: bool. Whether the decay counts from the first update.
        decay_begin: int or None. Number of updates after which the decay begins.
        power: float. Exponent of the decay, 1 for linear. If None, cosine decay.
    """

    def __init__(
        self,
        peak_learning_rate: float,
        decay_updates: int,
        warmup_updates: int = 0,
        end_learning_rate: float = 0.0,
        decay_from_start: bool = False,
        decay_begin: int | None = None,
        power: float | None = 1.0,
    ):
        super().__init__()
        self.peak_learning_rate = peak_learning_rate
        self.decay_updates = decay_updates
        self.warmup_updates = warmup_updates
        self.end_learning_rate = end_learning_rate
        self.decay_from_start = decay_from_start
        self.decay_begin = decay_begin
        self.power = power

    def __call__(self, step: Any) -> Any:
        """Returns the float32 learning rate of the update after `step` updates."""
        updates = ops.cast(step, "int64")
        peak, end = self.peak_learning_rate, self.end_learning_rate
        # Integers as long as possible, because float32 is inexact above 2**24.
        done = ops.cast(updates + 1, "float32")
        rising = peak * done / max(1, self.warmup_updates)
        decay_begin = self.decay_begin
        if decay_begin is None:
            decay_begin = 0 if self.decay_from_start else self.warmup_updates
        span = self.decay_updates - decay_begin
        remaining = ops.cast(ops.clip(self.decay_updates - updates, 0, span), "float32")
        share = remaining / max(1, span)
        if self.power is None:
            # Equals the cosine form, but avoids the difference of numbers close to 1.
            share = ops.square(ops.sin(math.pi / 2 * share))
        else:
            share = ops.power(share, self.power)
        falling = end + (peak - end) * share
        return ops.where(updates < self.warmup_updates, rising, falling)

    def get_config(self) -> dict[str, Any]:
        return with_arguments({}, self, WarmupDecay)


def build_optimizer(
    optimizer_class: type[keras.optimizers.Optimizer],
    *,
    num_updates: int,
    learning_rate: float,
    warmup_updates: int | None = None,
    warmup_share: float = 0.01,
    decay_updates: int | None = None,
    decay_from_start: bool = False,
    decay_share: float | None = None,
    decay_power: float | None = 1.0,
    end_learning_rate: float = 0.0,
    **arguments: Any,
) -> Any:
    """Builds an optimizer with a warmup and decay schedule (`WarmupDecay`).

    Excludes biases and norms from weight decay. Gradients are clipped by the training
    step. `seg_tf.config.optimizers` documents the arguments.
    """
    if warmup_updates is None:
        warmup_updates = share_of_run(num_updates, warmup_share)
    decay_begin = None
    if decay_share is not None:
        decay_begin = num_updates - share_of_run(num_updates, decay_share)
    schedule = WarmupDecay(
        learning_rate,
        num_updates if decay_updates is None else decay_updates,
        warmup_updates,
        end_learning_rate,
        decay_from_start,
        decay_begin,
        decay_power,
    )
    optimizer = optimizer_class(learning_rate=schedule, **arguments)
    optimizer.exclude_from_weight_decay(var_names=[NO_WEIGHT_DECAY])
    return optimizer


for _config, _class, _fixed in (
    (AdamWConfig, AdamW, {"name": "adamw"}),
    (CosineAdamWConfig, AdamW, {"name": "cosine_adamw", "decay_power": None}),
    (LambConfig, Lamb, {"name": "lamb"}),
    (StableAdamWConfig, AdamW, {"name": "stable_adamw"}),
):
    configured_by(_config)(functools.partial(build_optimizer, _class, **_fixed))


@configured_by(MuonConfig)
def build_muon(
    *, learning_rate: float, matrix_learning_rate: float, **settings: Any
) -> Muon:
    """Builds `Muon`. Both learning rates follow one schedule. See `build_optimizer`."""
    ratio = matrix_learning_rate / learning_rate
    settings |= {"learning_rate": learning_rate, "matrix_rate_ratio": ratio}
    return build_optimizer(Muon, name="muon", **settings)
