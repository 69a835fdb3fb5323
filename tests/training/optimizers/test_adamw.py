import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.training.optimizers.adamw import AdamW

SETTINGS = {
    "learning_rate": 0.02,
    "weight_decay": 0.05,
    "beta_1": 0.8,
    "beta_2": 0.95,
    "epsilon": 1e-3,
}


def train(optimizer_class, dtype="float32", jit_compile=False, **settings):
    """Two variables, one of them not decayed, and the slots after ten updates."""
    generator = np.random.default_rng(0)
    kernel, bias = (
        keras.Variable(generator.normal(size=size), dtype=dtype, name=name)
        for name, size in (("kernel", (3, 4)), ("bias", (4,)))
    )
    optimizer = optimizer_class(**{**SETTINGS, **settings})
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    optimizer.build([kernel, bias])

    @tf.function(autograph=False, jit_compile=jit_compile)
    def update(gradients):
        optimizer.apply(gradients, [kernel, bias])

    for number in range(10):
        scale = 10.0 ** (number % 3 - 1)
        update(
            [
                tf.constant(scale * generator.normal(size=one.shape), dtype)
                for one in (kernel, bias)
            ]
        )
    assert int(optimizer.iterations) == 10
    variables = [kernel, bias, *optimizer.variables[2:]]
    return [np.asarray(variable.value, "float32") for variable in variables]


@pytest.mark.parametrize("jit_compile", [False, True])
def test_updates_are_those_of_keras(jit_compile):
    expected = train(keras.optimizers.AdamW)
    found = train(AdamW, jit_compile=jit_compile)
    assert len(found) == len(expected) == 6
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize(
    "settings", [{"dtype": "bfloat16"}, {"amsgrad": True}], ids=str
)
def test_what_the_kernel_cannot_do_is_left_to_keras(settings):
    expected = train(keras.optimizers.AdamW, **settings)
    for one, other in zip(train(AdamW, **settings), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_met_twice_are_added_before_they_are_squared():
    tables = []
    for optimizer_class in (AdamW, keras.optimizers.AdamW):
        table = keras.Variable(np.ones((4, 2), "float32"))
        optimizer = optimizer_class(0.1, epsilon=1.0)
        rows = tf.IndexedSlices(tf.constant([[1.0, 2.0]] * 2), [3, 3], [4, 2])
        if optimizer_class is keras.optimizers.AdamW:
            rows = tf.convert_to_tensor(rows)
        optimizer.apply([rows], [table])
        tables.append(table.numpy())
    np.testing.assert_allclose(*tables, rtol=1e-6)


def test_config_makes_the_same_optimizer():
    optimizer = AdamW(**SETTINGS)
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(copy) is AdamW
    assert copy.get_config() == optimizer.get_config()
