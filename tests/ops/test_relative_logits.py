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
def test_widths_that_cannot_be_shared_are_refused(width, num_parts):
    with pytest.raises(ValueError, match="must be even and leave two numbers"):
        relative_logits.part_widths(width, num_parts)


def test_exponents_of_cosines_start_anew():
    """Printed, equation 2 counts on: the lists of `seg_tf.papers` say so."""
    width, position = 8, 250
    k = np.arange(width)
    printed = position / 10_000 ** (2 * k / width)
    anew = position / 10_000 ** (2 * (k % (width // 2)) / width)
    found = np.array(relative_logits.position_vectors(np.array(position), width))
    cosines = slice(width // 2, None)
    np.testing.assert_allclose(found[cosines], np.cos(anew[cosines]), atol=2e-5)
    assert 2 * np.pi / (printed[cosines] / position).max() > 10_000 * 2 * np.pi - 1
    # No distance inside a window would show in the printed cosines.
    assert (np.cos(printed[cosines]) > 0.999).all()
    assert (found[cosines] < 0.999).any()


def test_vectors_are_sines_then_cosines():
    positions = np.array([[0, 1], [-3, 250]])
    found = np.array(relative_logits.position_vectors(positions, 6))
    assert found.shape == (2, 2, 6)
    for where in np.ndindex(2, 2):
        for number in range(3):
            angle = positions[where] / 10_000 ** (2 * number / 6)
            np.testing.assert_allclose(found[where][number], np.sin(angle), atol=2e-5)
            np.testing.assert_allclose(
                found[where][3 + number], np.cos(angle), atol=2e-5
            )
