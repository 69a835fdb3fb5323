import numpy as np
import pytest
import tensorflow as tf

from seg_tf.ops.losses import masked_accuracy, masked_cross_entropy
from tests import numpy_reference


def random_batch(batch=3, predictions=4, vocab=11):
    generator = np.random.default_rng(5)
    logits = 4 * generator.normal(size=(batch, predictions, vocab)).astype("float32")
    labels = generator.integers(0, vocab, (batch, predictions)).astype("int32")
    labels[0] = logits[0].argmax(axis=-1)
    weights = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], "float32")
    return logits, labels, weights


def test_cross_entropy_equals_plain_numpy():
    total, weight = masked_cross_entropy(*random_batch())
    assert np.isclose(total, numpy_reference.cross_entropy(*random_batch()), rtol=1e-6)
    assert (total.dtype, weight.dtype) == ("float32", "float32")
    assert float(weight) == 4


def test_accuracy_equals_plain_numpy():
    hits, weight = masked_accuracy(*random_batch())
    assert float(hits) == numpy_reference.hits(*random_batch()) >= 3
    assert float(weight) == 4


def test_weights_may_be_fractions():
    logits, labels, weights = random_batch()
    weights = weights * 0.25 + 0.5
    total, weight = masked_cross_entropy(logits, labels, weights)
    expected = numpy_reference.cross_entropy(logits, labels, weights)
    assert np.isclose(total, expected, rtol=1e-6)
    assert np.isclose(weight, weights.sum())
    assert float(masked_accuracy(logits, labels, weights)[0]) == numpy_reference.hits(
        logits, labels, weights
    )


def test_sums_add_up_over_parts_of_a_batch():
    batch = random_batch()
    whole = masked_cross_entropy(*batch)
    first = masked_cross_entropy(*(part[:1] for part in batch))
    rest = masked_cross_entropy(*(part[1:] for part in batch))
    np.testing.assert_allclose(whole, np.add(first, rest), rtol=1e-6)


def test_no_weight_at_all_gives_zeros_and_zero_gradients():
    logits, labels, weights = random_batch()
    logits = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        total, weight = masked_cross_entropy(logits, labels, 0 * weights)
    np.testing.assert_array_equal(tape.gradient(total, logits), np.zeros(logits.shape))
    assert (float(total), float(weight)) == (0, 0)
    assert float(masked_accuracy(logits, labels, 0 * weights)[0]) == 0


def test_gradient_is_softmax_minus_label():
    logits, labels, weights = random_batch()
    variable = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        total, _ = masked_cross_entropy(variable, labels, weights)
    exponents = np.exp(logits.astype("float64"))
    expected = exponents / exponents.sum(axis=-1, keepdims=True)
    for where in np.ndindex(*labels.shape):
        expected[(*where, labels[where])] -= 1
        expected[where] *= weights[where]
    np.testing.assert_allclose(tape.gradient(total, variable), expected, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_softmax_of_half_precision_logits_is_taken_in_float32(dtype):
    # e**20 overflows a float16, and 3,000 terms lose all digits in a sum of bfloat16.
    logits = tf.cast(tf.linspace(0.0, 20.0, 3000)[None, None], dtype)
    labels, weights = np.array([[17]]), np.array([[1.0]], "float32")
    total, _ = masked_cross_entropy(logits, labels, weights)
    expected = numpy_reference.cross_entropy(
        np.asarray(tf.cast(logits, "float64")), labels, weights
    )
    assert total.dtype == "float32"
    assert np.isclose(total, expected, rtol=1e-6)


def test_large_logits_do_not_overflow():
    logits = np.array([[[1e4, 0.0], [0.0, 1e4]]], "float32")
    labels = np.array([[0, 0]])
    total, _ = masked_cross_entropy(logits, labels, np.ones((1, 2), "float32"))
    assert float(total) == 1e4
