import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.training.optimizers import NO_WEIGHT_DECAY, Lamb, WarmupDecay
from tests import official_models

pytestmark = pytest.mark.slow

RATE = 2**-4  # exact in float32, which Keras keeps it in
SETTINGS = {"weight_decay": 0.1, "beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-3}
# What moves and what stays 0, what has a norm of 0 and for how long.
SHAPES = {
    "kernel": (4, 3),
    "zero_kernel": (3, 2),  # starts at 0
    "still_kernel": (2, 2),  # no gradient, only decay
    "still_zero_kernel": (2,),  # neither weights nor gradients
    "bias": (5,),  # starts at 0, as BERT's
    "gamma": (3,),
    "beta": (3,),  # not decayed, no gradient: its update is 0
}
DECAYED = {name for name in SHAPES if name.endswith("kernel")}


@pytest.fixture
def start():
    generator = np.random.default_rng(1)
    return {
        name: np.zeros(shape)
        if "zero" in name or name == "bias"
        else generator.normal(size=shape)
        for name, shape in SHAPES.items()
    }


@pytest.fixture
def gradients():
    generator = np.random.default_rng(2)
    return [
        {
            name: np.zeros(shape)
            if "still" in name or name == "beta"
            else generator.normal(scale=3.0, size=shape)
            for name, shape in SHAPES.items()
        }
        for _ in range(10)
    ]


def slow_lamb(values, gradients, *, decayed, adapted, rate=RATE, **settings):
    """LAMB (arXiv:1904.00962, algorithm 2) a number at a time, in Python floats."""
    beta_1, beta_2 = settings["beta_1"], settings["beta_2"]
    values = {name: value.ravel().tolist() for name, value in values.items()}
    first = {name: [0.0] * len(value) for name, value in values.items()}
    second = {name: [0.0] * len(value) for name, value in values.items()}
    for t, step in enumerate(gradients, start=1):
        for name, weights in values.items():
            update = []
            for k, g in enumerate(step[name].ravel().tolist()):
                m = first[name][k] = beta_1 * first[name][k] + (1 - beta_1) * g
                v = second[name][k] = beta_2 * second[name][k] + (1 - beta_2) * g * g
                m_hat, v_hat = m / (1 - beta_1**t), v / (1 - beta_2**t)
                u = m_hat / (v_hat**0.5 + settings["epsilon"])
                update.append(
                    u + (name in decayed) * settings["weight_decay"] * weights[k]
                )
            lengths = [sum(x * x for x in xs) ** 0.5 for xs in (weights, update)]
            ratio = 1.0
            if name in adapted and lengths[0] > 0 and lengths[1] > 0:
                ratio = lengths[0] / lengths[1]
            values[name] = [
                w - rate * ratio * u for w, u in zip(weights, update, strict=True)
            ]
    return {
        name: np.reshape(value, gradients[0][name].shape)
        for name, value in values.items()
    }


def make_variables(values, dtype="float32"):
    return {
        name: keras.Variable(value, name=name, dtype=dtype)
        for name, value in values.items()
    }


def build(variables, adapt_excluded):
    optimizer = Lamb(learning_rate=RATE, adapt_excluded=adapt_excluded, **SETTINGS)
    optimizer.exclude_from_weight_decay(var_names=[NO_WEIGHT_DECAY])
    optimizer.build(list(variables.values()))
    return optimizer


def apply(optimizer, step, dtype="float32"):
    optimizer.apply([tf.constant(step[name], dtype) for name in SHAPES])


def assert_close(variables, expected, rtol=1e-4, atol=1e-6):
    for name, variable in variables.items():
        np.testing.assert_allclose(
            variable.numpy(), expected[name], rtol=rtol, atol=atol, err_msg=name
        )


@pytest.mark.parametrize("adapt_excluded", [True, False])
@pytest.mark.parametrize(
    "dtype, rtol", [("float64", 1e-10), ("float32", 1e-4)], ids=["float64", "float32"]
)
def test_updates_equal_lamb_in_plain_arithmetic(
    start, gradients, adapt_excluded, dtype, rtol
):
    variables = make_variables(start, dtype)
    optimizer = build(variables, adapt_excluded)
    for step in gradients:
        apply(optimizer, step, dtype)
    adapted = set(SHAPES) if adapt_excluded else DECAYED
    expected = slow_lamb(start, gradients, decayed=DECAYED, adapted=adapted, **SETTINGS)
    assert_close(variables, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("adapt_excluded", [True, False])
def test_updates_equal_tf_models_official(start, gradients, adapt_excluded):
    variables = make_variables(start)
    optimizer = build(variables, adapt_excluded)
    theirs = {
        name: tf.Variable(value, name=name, dtype="float32")
        for name, value in start.items()
    }
    undecayed = ["bias", "gamma", "beta"]
    peer = official_models.lamb_class()(
        learning_rate=RATE,
        weight_decay_rate=SETTINGS["weight_decay"],
        beta_1=SETTINGS["beta_1"],
        beta_2=SETTINGS["beta_2"],
        epsilon=SETTINGS["epsilon"],
        exclude_from_weight_decay=undecayed,
        # An empty list would mean the same as the other one.
        exclude_from_layer_adaptation=["nothing"] if adapt_excluded else None,
    )
    for step in gradients:
        apply(optimizer, step)
        peer.apply_gradients(
            (tf.constant(step[name], "float32"), theirs[name]) for name in SHAPES
        )
    assert_close(variables, {name: value.numpy() for name, value in theirs.items()})


def test_config_is_restored():
    rate = WarmupDecay(0.1, 40, 5, power=0.5)
    settings = {**SETTINGS, "adapt_excluded": False}
    optimizer = Lamb(learning_rate=rate, **settings)
    copy = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(optimizer)
    )
    assert type(copy) is Lamb
    for name, value in settings.items():
        assert getattr(copy, name) == value, name
    np.testing.assert_allclose(float(copy.learning_rate), 0.1 / 5, rtol=1e-6)
