import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.training.optimizers import AdamW, Lamb

SETTINGS = {
    "learning_rate": 0.02,
    "weight_decay": 0.05,
    "beta_1": 0.8,
    "beta_2": 0.95,
    "epsilon": 1e-3,
}


def train(optimizer_class, dtype="float32", jit_compile=False, **settings):
    """Two variables, one of them not decayed, and the slots after ten updates."""
    start, gradients = problem()
    kernel, bias = (
        keras.Variable(value, dtype=dtype, name=name)
        for name, value in zip(("kernel", "bias"), start, strict=True)
    )
    optimizer = optimizer_class(**{**SETTINGS, **settings})
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    optimizer.build([kernel, bias])

    @tf.function(autograph=False, jit_compile=jit_compile)
    def update(gradients):
        optimizer.apply(gradients, [kernel, bias])

    for of_update in gradients:
        # Float32, as a training step sums them.
        update([tf.constant(gradient, "float32") for gradient in of_update])
    assert int(optimizer.iterations) == 10
    variables = [kernel, bias, *optimizer.variables[2:]]
    return [np.asarray(variable.value, "float32") for variable in variables]


def problem():
    generator = np.random.default_rng(0)
    shapes = ((3, 4), (4,))
    start = [generator.normal(size=shape) for shape in shapes]
    scales = [10.0 ** (number % 3 - 1) for number in range(10)]
    return start, [
        [scale * generator.normal(size=shape) for shape in shapes] for scale in scales
    ]


def slow_adamw(value, gradients, decay, settings):
    """A variable and its slots by the paper's algorithm 2, in float64."""
    rate, beta_1, beta_2 = (
        settings[name] for name in ("learning_rate", "beta_1", "beta_2")
    )
    first, second = np.zeros_like(value), np.zeros_like(value)
    for step, gradient in enumerate(gradients, start=1):
        first = beta_1 * first + (1 - beta_1) * gradient
        second = beta_2 * second + (1 - beta_2) * gradient**2
        first_hat, second_hat = first / (1 - beta_1**step), second / (1 - beta_2**step)
        ratio = first_hat / (np.sqrt(second_hat) + settings["epsilon"])
        value = value - rate * (ratio + decay * value)
    return value, first, second


def slow_train():
    """What `train` returns, in float64."""
    start, gradients = problem()
    decays = SETTINGS["weight_decay"], 0.0
    kernel, bias = (
        slow_adamw(start[number], [each[number] for each in gradients], decay, SETTINGS)
        for number, decay in enumerate(decays)
    )
    return [kernel[0], bias[0], *kernel[1:], *bias[1:]]


@pytest.mark.parametrize("jit_compile", [False, True])
def test_updates_are_those_of_the_paper(jit_compile):
    found, expected = train(AdamW, jit_compile=jit_compile), slow_train()
    assert len(found) == len(expected) == 6
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [AdamW, Lamb])
def test_rows_met_twice_are_added_before_they_are_squared(kind):
    tables, clipped = [], {"global_clipnorm": 1.0} if kind is AdamW else {}
    rows = tf.IndexedSlices(tf.constant([[1.0, 2.0]] * 2), [3, 3], [4, 2])
    for gradient in (rows, tf.convert_to_tensor(rows)):
        table = keras.Variable(np.ones((4, 2), "float32"))
        kind(learning_rate=0.1, epsilon=1.0, **clipped).apply([gradient], [table])
        tables.append(table.numpy())
    np.testing.assert_allclose(*tables, rtol=1e-6)


def test_config_makes_the_same_optimizer():
    optimizer = AdamW(**SETTINGS)
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(copy) is AdamW
    assert copy.get_config() == optimizer.get_config()
