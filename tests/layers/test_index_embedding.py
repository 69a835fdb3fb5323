import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layers.index_embedding import IndexEmbedding
from tests import numpy_reference

TABLES = {"paragraph_index": 5, "sentence_index": 7, "token_index": 9}


def random_features(shape=(3, 6)):
    generator = np.random.default_rng(1)
    return {
        name: generator.integers(0, rows, shape).astype("int32")
        for name, rows in TABLES.items()
    }


def test_output_is_sum_of_named_rows():
    layer = IndexEmbedding(TABLES, hidden_size=4)
    features = random_features()
    expected = numpy_reference.index_embedding(
        numpy_reference.named_weights(_built(layer)), features
    )
    np.testing.assert_allclose(layer(features), expected, atol=1e-6)


def test_tables_follow_config_whatever_their_names():
    layer = IndexEmbedding({"sentence_id": 21}, hidden_size=4)
    index = np.array([[0, 20]])
    outputs = layer({"sentence_id": index, "token_ids": index, "weights": np.ones(2)})
    assert {weight.path.split("/")[-1] for weight in layer.weights} == {"sentence_id"}
    assert layer.weights[0].shape == (21, 4)
    np.testing.assert_array_equal(outputs[0, 1], np.asarray(layer.weights[0])[20])


def test_order_of_tables_does_not_change_the_order_of_weights():
    one = _built(IndexEmbedding({"paragraph_index": 3, "token_index": 3}, 2))
    other = _built(IndexEmbedding({"token_index": 3, "paragraph_index": 3}, 2))
    other.set_weights(one.get_weights())
    features = {
        "paragraph_index": np.array([[0, 1]]),
        "token_index": np.array([[2, 0]]),
    }
    np.testing.assert_array_equal(other(features), one(features))


def test_tables_start_from_different_numbers():
    layer = _built(IndexEmbedding({"one": 6, "other": 6}, hidden_size=4))
    one, other = (np.asarray(weight) for weight in layer.weights)
    assert not np.isclose(one, other).any()


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


def test_half_precision_rounds_the_sum_only():
    layer = IndexEmbedding({"a": 1, "b": 1, "c": 1}, 1, dtype="mixed_float16")
    zero = np.array([[0]])
    features = {"a": zero, "b": zero, "c": zero}
    layer.build(None)
    for weight, value in zip(layer.weights, (2048.0, 1.0, 1.0), strict=True):
        weight.assign([[value]])
    # Between 2048 and 4096 a float16 moves in steps of 2: adding 1 twice is lost.
    assert layer(features).dtype == "float16"
    assert float(layer(features)[0, 0, 0]) == 2050


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
