"""Sums of index embeddings, and their sinusoidal start."""

import keras
import numpy as np
import tensorflow as tf

from seg_tf.layers.embeddings import IndexEmbedding, SinusoidalTable


def test_gradients_of_repeated_rows_are_summed_before_adam_squares_them():
    layer = IndexEmbedding({"token_index": 2}, hidden_size=1)
    layer.build(None)
    optimizer = keras.optimizers.Adam(beta_2=0.5)
    optimizer.build(layer.trainable_variables)
    with tf.GradientTape() as tape:
        outputs = layer({"token_index": np.array([[0, 0, 1]])})
    upstream = np.array([[[3.0], [-1.0], [5.0]]], "float32")
    gradients = tape.gradient(outputs, layer.trainable_variables, upstream)
    assert isinstance(gradients[0], tf.Tensor)
    np.testing.assert_array_equal(gradients[0], [[3 - 1], [5]])
    optimizer.apply(gradients, layer.trainable_variables)
    second_moment = next(v for v in optimizer.variables if "velocity" in v.path)
    # Row by row it would be (9 + 1) / 2 for the row that is used twice.
    np.testing.assert_allclose(second_moment, [[(3 - 1) ** 2 / 2], [25 / 2]])


def test_features_without_a_table_do_not_determine_the_shape():
    features = {"is_new": keras.Input(()), "token_index": keras.Input((None,))}
    assert IndexEmbedding({"token_index": 2}, 8)(features).shape == (None, None, 8)


def test_sinusoidal_rows_are_sines_then_cosines_of_their_positions():
    table = np.asarray(SinusoidalTable(0.3)((7, 6), "float32"))
    frequencies = 10_000.0 ** (-2 * np.arange(3) / 6)
    for row in range(7):
        waves = [*np.sin(row * frequencies), *np.cos(row * frequencies)]
        np.testing.assert_allclose(
            table[row], 0.3 * np.sqrt(2) * np.array(waves), rtol=1e-5, atol=1e-6
        )
    table = np.asarray(SinusoidalTable(0.5)((1024, 128), "float32"))
    np.testing.assert_allclose(np.sqrt(np.mean(table**2)), 0.5, rtol=0.05)
