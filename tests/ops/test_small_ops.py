"""Sinusoids of relative positions, and GELU."""

import math

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layers.common import gelu
from seg_tf.ops import relative_logits
from tests import numpy_reference


@pytest.mark.parametrize(
    ("width", "num_parts", "widths"),
    [
        (410, 3, [136, 136, 138]),
        (1024, 3, [342, 342, 340]),
        (410, 2, [206, 204]),
        (410, 1, [410]),
        (6, 3, [2, 2, 2]),
    ],
)
def test_widths_are_the_authors(width, num_parts, widths):
    assert relative_logits.part_widths(width, num_parts) == widths
    assert sum(widths) == width


@pytest.mark.parametrize(("width", "num_parts"), [(9, 1), (4, 3), (2, 2)])
def test_impossible_widths_are_refused(width, num_parts):
    with pytest.raises(ValueError, match=f"must be even.*width={width}"):
        relative_logits.part_widths(width, num_parts)


def test_vectors_are_sines_then_cosines_whose_exponents_start_anew():
    """In the printed equation 2 the exponents continue; see `seg_tf.papers`."""
    positions = np.array([[0, 1], [-3, 250]])
    vectors = np.array(relative_logits.position_vectors(positions, 6))
    assert vectors.shape == (2, 2, 6)
    for where in np.ndindex(2, 2):
        angles = positions[where] / 10_000 ** (2 * np.arange(3) / 6)
        expected = np.concatenate([np.sin(angles), np.cos(angles)])
        np.testing.assert_allclose(vectors[where], expected, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_exact_gelu_and_its_gradient(dtype):
    inputs = tf.cast(tf.linspace(-8.0, 8.0, 998), dtype)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = gelu(approximate=False)(inputs)
    exact = np.asarray(tf.cast(inputs, "float64"))
    expected = numpy_reference.gelu(exact, False)
    density = np.exp(-(exact**2) / 2) / math.sqrt(2 * math.pi)
    slope = expected / exact + exact * density
    for found, wanted in ((outputs, expected), (tape.gradient(outputs, inputs), slope)):
        assert found.dtype == dtype
        error = 2**-8 if dtype == "bfloat16" else 0  # of rounding once
        found = np.asarray(tf.cast(found, "float64"))
        np.testing.assert_allclose(found, wanted, rtol=error, atol=1e-6)
