import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layers.common import mark_hidden_matrix
from seg_tf.training.optimizers import Muon, orthogonalize
from tests.conformance.cases import CASES
from tests.training.optimizers.test_adamw import slow_adamw

SETTINGS = {
    "learning_rate": 2**-6,  # exact in float32, which Keras keeps it in
    "weight_decay": 0.05,
    "beta_1": 0.8,
    "beta_2": 0.95,
    "epsilon": 1e-3,
    "matrix_rate_ratio": 2.5,
    "momentum": 0.9,
}
# Shapes, and for hidden matrices the number of axes that the input has.
VARIABLES = {
    "wide_kernel": ((3, 8), 1),
    "tall_kernel": ((8, 3), 1),
    "query_kernel": ((6, 2, 4), 1),
    "output_kernel": ((2, 4, 6), 2),
    "still_kernel": ((2, 2), 1),  # no gradient, only decay
    "embeddings": ((5, 4), None),
    "bias": ((4,), None),  # not decayed
}
UPDATES = 6


def problem():
    generator = np.random.default_rng(0)

    def draw(name, scale):
        return scale * generator.normal(size=VARIABLES[name][0])

    start = {name: draw(name, 1.0) for name in VARIABLES}
    scales = [10.0 ** (number % 3 - 2) for number in range(UPDATES)]
    return start, [
        {name: draw(name, scale * (name != "still_kernel")) for name in VARIABLES}
        for scale in scales
    ]


def make(values, dtype="float32"):
    """Marked variables and a built optimizer."""
    variables = [
        keras.Variable(value, dtype=dtype, name=name) for name, value in values.items()
    ]
    for variable in variables:
        if axes := VARIABLES[variable.name][1]:
            mark_hidden_matrix(variable, axes)
    optimizer = Muon(**SETTINGS)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    optimizer.build(variables)
    return variables, optimizer


def apply(optimizer, variables, gradients, function=lambda call: call):
    update = function(lambda *of_update: optimizer.apply(of_update, variables))
    for of_update in gradients:
        # Float32, as a training step sums them, of float64 where that is tried.
        dtype = keras.backend.result_type(variables[0].dtype, "float32")
        update(*[tf.constant(of_update[name], dtype) for name in VARIABLES])


def slow_muon(value, gradients, input_axes):
    """Jordan et al., 2024, of one kernel, in float64 and as PyTorch has it: (out, in).

    Returns the kernel and the momentum.
    """
    shape = value.shape
    inputs = math.prod(shape[:input_axes])

    def transposed(kernel):
        return np.array([list(row.ravel()) for row in kernel.reshape(inputs, -1)]).T

    weights, momentum = transposed(value), 0.0
    for gradient in map(transposed, gradients):
        momentum = SETTINGS["momentum"] * momentum + gradient
        x = gradient + SETTINGS["momentum"] * momentum
        x = x / (np.linalg.norm(x) + 1e-7)
        for _ in range(5):
            # With the larger of the two squares; the optimizer takes the smaller.
            square = x.T @ x
            x = x @ (
                3.4445 * np.eye(inputs) - 4.7750 * square + 2.0315 * square @ square
            )
        rows, columns = x.shape
        rate = SETTINGS["matrix_rate_ratio"] * SETTINGS["learning_rate"]
        weights = weights * (1 - rate * SETTINGS["weight_decay"])
        weights = weights - rate * max(1, rows / columns) ** 0.5 * x
    return weights.T.reshape(shape), momentum.T.reshape(shape)


@pytest.mark.parametrize(
    ("form", "dtype", "atol"),
    [
        ("eager", "float64", 1e-10),
        ("graph", "float32", 1e-6),
        ("xla", "float32", 1e-6),
        ("graph", "bfloat16", 0.05),
    ],
)
def test_updates_are_muon_s_for_marked_kernels_and_adamw_s_for_others(
    form, dtype, atol
):
    start, gradients = problem()
    variables, optimizer = make(start, dtype)
    function = {
        "eager": lambda call: call,
        "graph": tf.function,
        "xla": tf.function(jit_compile=True),
    }[form]
    apply(optimizer, variables, gradients, function)
    assert int(optimizer.iterations) == UPDATES
    for number, (name, (_, axes)) in enumerate(VARIABLES.items()):
        own = [of_update[name] for of_update in gradients]
        if axes:
            expected, slot = slow_muon(start[name], own, axes)
            assert optimizer._velocities[number] is None
        else:
            decay = SETTINGS["weight_decay"] * (name != "bias")
            expected, slot, _ = slow_adamw(start[name], own, decay, SETTINGS)
        # AdamW's powers of its betas are float32.
        close = atol if axes else max(atol, 1e-6)
        for found, value in (
            (variables[number], expected),
            (optimizer._momentums[number], slot),
        ):
            found = np.asarray(found.value, "float64")
            np.testing.assert_allclose(
                found, value, rtol=close, atol=close, err_msg=name
            )


@pytest.mark.parametrize("shape", [(6, 20), (20, 6), (12, 12)])
def test_singular_values_come_close_to_one_and_vectors_stay(shape):
    matrix = np.random.default_rng(1).normal(size=shape)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    assert values.min() > 0.002 * np.linalg.norm(matrix)
    found = orthogonalize(keras.ops.convert_to_tensor(matrix, "float32")).numpy()
    rotated = left.T @ found @ right.T
    np.testing.assert_allclose(rotated, np.diag(np.diag(rotated)), atol=1e-4)
    assert np.all((np.diag(rotated) > 0.68) & (np.diag(rotated) < 1.21))
    assert np.ptp(np.diag(rotated)) > 0.05  # so it is no exact polar factor


def test_a_model_without_marked_kernels_is_refused():
    with pytest.raises(ValueError, match=r"mark_hidden_matrix.*Received: 1 variables"):
        Muon(**SETTINGS).build([keras.Variable(np.ones((2, 2)))])


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name) for case in CASES if "models" in str(case.cls)],
)
def test_every_kernel_of_a_model_but_its_head_is_marked(case):
    weights = case.build().trainable_weights
    marked = {
        weight.path for weight in weights if hasattr(weight, "hidden_matrix_shape")
    }
    kernels = {weight.path for weight in weights if weight.path.endswith("kernel")}
    assert len(marked) >= 6
    assert marked == kernels - {"pooler/kernel"}
