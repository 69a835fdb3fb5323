import math

import keras
import numpy as np
import pytest

from seg_tf.ops.activations import gelu

INPUTS = np.linspace(-6, 6, 2001, dtype="float32")


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_equals_its_formula(approximate):
    if approximate:
        inner = [math.sqrt(2 / math.pi) * (x + 0.044715 * x**3) for x in INPUTS]
        expected = [
            x / 2 * (1 + math.tanh(y)) for x, y in zip(INPUTS, inner, strict=True)
        ]
    else:
        expected = [x / 2 * math.erfc(-x / math.sqrt(2)) for x in INPUTS]
    np.testing.assert_allclose(gelu(approximate)(INPUTS), expected, atol=1e-6)


def test_the_two_forms_are_close_but_not_the_same():
    difference = np.abs(gelu(True)(INPUTS) - np.asarray(gelu(False)(INPUTS)))
    assert 3e-4 < difference.max() < 5e-4


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_survives_serialisation(approximate):
    config = keras.activations.serialize(gelu(approximate))
    assert keras.activations.deserialize(config) is gelu(approximate)
