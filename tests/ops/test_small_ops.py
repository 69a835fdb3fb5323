"""Sinusoids of relative positions, gathering, and GELU."""

import math

import numpy as np
import pytest

from seg_tf.layers.common import gelu
from seg_tf.ops import relative_logits
from seg_tf.ops.gathering import gather_vectors


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


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_vectors_are_gathered_in_each_row(dtype):
    sequence = np.arange(2 * 5 * 3, dtype="float32").reshape(2, 5, 3)
    # More positions than vectors, unordered, with repetitions.
    positions = np.array([[4, 0, 0, 2, 1, 3], [1, 1, 3, 0, 4, 4]], dtype)
    expected = [
        [vectors[place] for place in row]
        for vectors, row in zip(sequence, positions, strict=True)
    ]
    np.testing.assert_array_equal(gather_vectors(sequence, positions), expected)


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_equals_its_formula(approximate):
    inputs = np.linspace(-6, 6, 2001, dtype="float32")
    if approximate:
        expected = [
            x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
            for x in inputs
        ]
    else:
        expected = [x / 2 * math.erfc(-x / math.sqrt(2)) for x in inputs]
    np.testing.assert_allclose(gelu(approximate)(inputs), expected, atol=1e-6)
