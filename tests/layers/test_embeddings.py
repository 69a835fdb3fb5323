"""Sums of index embeddings, and their sinusoidal start."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layers.embeddings import IndexEmbedding, SinusoidalTable

TABLES = {"paragraph_index": 5, "sentence_index": 7, "token_index": 9}


def random_features(shape=(3, 6)):
    generator = np.random.default_rng(1)
    return {
        name: generator.integers(0, rows, shape).astype("int32")
        for name, rows in TABLES.items()
    }


def test_gradient_sums_over_every_use_of_a_row():
    layer = _built(IndexEmbedding(TABLES, hidden_size=4))
    features = random_features()
    upstream = np.random.default_rng(2).normal(size=(3, 6, 4)).astype("float32")
    with tf.GradientTape() as tape:
        outputs = layer(features)
    gradients = tape.gradient(outputs, layer.trainable_variables, upstream)
    for (name, rows), gradient in zip(TABLES.items(), gradients, strict=True):
        expected = np.zeros((rows, 4))
        for where in np.ndindex(3, 6):
            expected[features[name][where]] += upstream[where]
        assert isinstance(gradient, tf.Tensor)
        np.testing.assert_allclose(gradient, expected, atol=1e-5)


def test_adam_squares_the_sum_of_a_repeated_rows_gradients():
    layer = _built(IndexEmbedding({"token_index": 2}, hidden_size=1))
    optimizer = keras.optimizers.Adam(beta_2=0.5)
    optimizer.build(layer.trainable_variables)
    with tf.GradientTape() as tape:
        outputs = layer({"token_index": np.array([[0, 0, 1]])})
    upstream = np.array([[[3.0], [-1.0], [5.0]]], "float32")
    gradients = tape.gradient(outputs, layer.trainable_variables, upstream)
    optimizer.apply(gradients, layer.trainable_variables)
    second_moment = next(v for v in optimizer.variables if "velocity" in v.path)
    # Row by row it would be (9 + 1) / 2 for the row that is used twice.
    np.testing.assert_allclose(second_moment, [[(3 - 1) ** 2 / 2], [25 / 2]])


@pytest.mark.parametrize("tables", [{}, {"token_index": 0}], ids=["none", "no rows"])
def test_empty_tables_are_refused(tables):
    with pytest.raises(ValueError, match=r"`tables` must name.*Received: tables="):
        IndexEmbedding(tables, hidden_size=4)


def test_missing_feature_is_named():
    features = random_features()
    del features["sentence_index"]
    with pytest.raises(ValueError, match=r"`features`.*lacks: \['sentence_index'\]"):
        IndexEmbedding(TABLES, hidden_size=4)(features)


def _built(layer):
    layer.build(None)
    return layer


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
