"""Tables that start with sinusoids."""

import keras
import numpy as np
import pytest

from seg_tf.layers.sinusoidal_table import SinusoidalTable


def test_rows_are_sines_then_cosines_of_their_positions():
    table = np.asarray(SinusoidalTable(0.3)((7, 6), "float32"))
    frequencies = 10_000.0 ** (-2 * np.arange(3) / 6)
    for row in range(7):
        waves = [*np.sin(row * frequencies), *np.cos(row * frequencies)]
        np.testing.assert_allclose(
            table[row], 0.3 * np.sqrt(2) * np.array(waves), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("shape", [(128, 64), (1024, 128)])
def test_root_mean_square(shape):
    table = np.asarray(SinusoidalTable(0.5)(shape, "float32"))
    assert table.shape == shape
    np.testing.assert_allclose(np.sqrt(np.mean(table**2)), 0.5, rtol=0.05)


def test_serialises():
    copy = keras.initializers.deserialize(
        keras.initializers.serialize(SinusoidalTable(0.25))
    )
    np.testing.assert_array_equal(
        copy((4, 8), "float32"), SinusoidalTable(0.25)((4, 8), "float32")
    )
