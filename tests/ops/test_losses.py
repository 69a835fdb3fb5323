"""Losses and metrics, against plain NumPy and scikit-learn."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics

from seg_tf.ops.losses import (
    binary_counts,
    binary_summary,
    masked_accuracy,
    masked_cross_entropy,
    pair_accuracy,
)
from tests import numpy_reference


def random_batch(batch=3, predictions=4, vocab=11):
    generator = np.random.default_rng(5)
    logits = 4 * generator.normal(size=(batch, predictions, vocab)).astype("float32")
    labels = generator.integers(0, vocab, (batch, predictions)).astype("int32")
    labels[0] = logits[0].argmax(axis=-1)
    weights = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], "float32")
    return logits, labels, weights


def test_cross_entropy_and_accuracy_equal_plain_numpy():
    logits, labels, weights = random_batch()
    variable = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        total, weight = masked_cross_entropy(variable, labels, weights)
    assert np.isclose(total, numpy_reference.cross_entropy(*random_batch()), rtol=1e-6)
    assert (total.dtype, weight.dtype, float(weight)) == ("float32", "float32", 4)
    # The gradient is softmax minus label.
    exponents = np.exp(logits.astype("float64"))
    expected = exponents / exponents.sum(axis=-1, keepdims=True)
    for where in np.ndindex(*labels.shape):
        expected[(*where, labels[where])] -= 1
        expected[where] *= weights[where]
    np.testing.assert_allclose(tape.gradient(total, variable), expected, atol=1e-6)
    hits, weight = masked_accuracy(logits, labels, weights)
    assert float(hits) == numpy_reference.hits(*random_batch()) >= 3
    assert float(weight) == 4


def test_no_weight_gives_zeros_and_zero_gradients():
    logits, labels, weights = random_batch()
    logits = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        total, weight = masked_cross_entropy(logits, labels, 0 * weights)
    np.testing.assert_array_equal(tape.gradient(total, logits), np.zeros(logits.shape))
    assert (float(total), float(weight)) == (0, 0)
    assert float(masked_accuracy(logits, labels, 0 * weights)[0]) == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_softmax_of_half_precision_logits_is_computed_in_float32(dtype):
    # e**20 overflows float16, and a bfloat16 sum of 3,000 terms loses all digits.
    logits = tf.cast(tf.linspace(0.0, 20.0, 3000)[None, None], dtype)
    target = np.array([[17]]), np.array([[1.0]], "float32")
    total, _ = masked_cross_entropy(logits, *target)
    exact = np.asarray(tf.cast(logits, "float64"))
    assert total.dtype == "float32"
    assert np.isclose(total, numpy_reference.cross_entropy(exact, *target), rtol=1e-6)


def ratios(pairs):
    return {
        name: float(total) / float(weight) if weight else 0.0
        for name, (total, weight) in pairs.items()
    }


def random_answers(seed, count=200):
    generator = np.random.default_rng(seed)
    labels = generator.random(count) < 0.2
    predictions = np.where(generator.random(count) < 0.7, labels, ~labels)
    return predictions, labels, (generator.random(count) < 0.8).astype("float32")


def expected_metrics(predictions, labels, weights):
    labels, predictions = labels[weights > 0], predictions[weights > 0]
    return {
        "accuracy": metrics.accuracy_score(labels, predictions),
        "positive_rate": labels.mean(),
        "predicted_rate": predictions.mean(),
        "recall": metrics.recall_score(labels, predictions),
        "specificity": metrics.recall_score(~labels, ~predictions),
        "f1": metrics.f1_score(labels, predictions, zero_division=0.0),
        "majority_accuracy": max(labels.mean(), 1 - labels.mean()),
        "balanced_accuracy": metrics.balanced_accuracy_score(labels, predictions),
        "mcc": metrics.matthews_corrcoef(labels, predictions),
    }


NEGATIVES = np.zeros(50, bool), np.arange(50) % 5 == 0, np.ones(50, "float32")


@pytest.mark.parametrize("answers", [*map(random_answers, range(3)), NEGATIVES])
def test_binary_metrics_equal_scikit_learn(answers):
    actual = ratios(binary_counts(*answers))
    actual |= {name: float(value) for name, value in binary_summary(actual).items()}
    assert actual == pytest.approx(expected_metrics(*answers), abs=1e-6)


def test_pairs_of_a_row_are_ordered_by_their_scores():
    scores = np.array([[3, 1, 2, 2, 9], [0, 5, 5, 5, 5]])
    labels = np.array([[1, 0, 1, 0, 0], [0, 1, 0, 0, 0]], bool)
    weights = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]], "float32")
    # First row: 3 > 1, 3 > 2, 2 > 1, 2 = 2; second row: 5 > 0, 5 = 5.
    right, pairs = pair_accuracy(scores, labels, weights)
    assert (float(right), float(pairs)) == (1 + 1 + 1 + 0.5 + 1 + 0.5, 6)
