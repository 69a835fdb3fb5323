"""Sinusoids of relative positions."""

import numpy as np
import pytest

from seg_tf.ops import relative_logits


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
