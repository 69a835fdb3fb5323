"""Losses and metrics, against plain NumPy and scikit-learn."""

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.ops.losses import (
    binary_counts,
    binary_summary,
    counts_at_rate,
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


def test_cross_entropy_equals_plain_numpy():
    total, weight = masked_cross_entropy(*random_batch())
    assert np.isclose(total, numpy_reference.cross_entropy(*random_batch()), rtol=1e-6)
    assert (total.dtype, weight.dtype) == ("float32", "float32")
    assert float(weight) == 4


def test_accuracy_equals_plain_numpy():
    hits, weight = masked_accuracy(*random_batch())
    assert float(hits) == numpy_reference.hits(*random_batch()) >= 3
    assert float(weight) == 4


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


def counted(predictions, labels, weights):
    pairs = binary_counts(predictions, labels, weights)
    return {
        name: (float(total), float(weight)) for name, (total, weight) in pairs.items()
    }


def ratios(pairs):
    return {
        name: total / weight if weight else 0.0
        for name, (total, weight) in pairs.items()
    }


def by_hand(predictions, labels, weights):
    """From the four counts of the confusion matrix, as the textbooks have them."""
    counts = dict.fromkeys(("tp", "fp", "fn", "tn"), 0)
    for said, yes, weight in zip(predictions, labels, weights, strict=True):
        if weight:
            name = {(1, 1): "tp", (1, 0): "fp", (0, 1): "fn", (0, 0): "tn"}
            counts[name[int(said), int(yes)]] += 1
    tp, fp, fn, tn = (counts[name] for name in ("tp", "fp", "fn", "tn"))
    total = tp + fp + fn + tn
    return {
        "accuracy": (tp + tn) / total,
        "positive_rate": (tp + fn) / total,
        "predicted_rate": (tp + fp) / total,
        "recall": tp / (tp + fn),
        "specificity": tn / (tn + fp),
        "f1": 2 * tp / (2 * tp + fp + fn),
        "majority_accuracy": max(tp + fn, tn + fp) / total,
        "balanced_accuracy": (tp / (tp + fn) + tn / (tn + fp)) / 2,
        "mcc": (tp * tn - fp * fn)
        / np.sqrt(float((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))),
    }


def random_answers(seed, count=200):
    generator = np.random.default_rng(seed)
    labels = generator.random(count) < 0.2
    predictions = np.where(generator.random(count) < 0.7, labels, ~labels)
    return predictions, labels, (generator.random(count) < 0.8).astype("float32")


@pytest.mark.parametrize("seed", range(3))
def test_metrics_are_those_of_the_confusion_matrix(seed):
    answers = random_answers(seed)
    found = ratios(counted(*answers))
    found |= {name: float(value) for name, value in binary_summary(found).items()}
    expected = by_hand(*answers)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-6), name


def test_counts_of_batches_add_up_to_those_of_all():
    """As means of F1 or of MCC over batches would not."""
    batches = [random_answers(seed, count) for seed, count in ((4, 30), (5, 170))]
    together = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
    parts = [counted(*batch) for batch in batches]
    for name, (total, weight) in counted(*together).items():
        assert total == sum(part[name][0] for part in parts)
        assert weight == sum(part[name][1] for part in parts)
    summary = binary_summary(ratios(counted(*together)))
    means = [binary_summary(ratios(part)) for part in parts]
    assert float(summary["mcc"]) == pytest.approx(by_hand(*together)["mcc"], abs=1e-6)
    assert abs(float(summary["mcc"]) - np.mean([float(m["mcc"]) for m in means])) > 1e-3


def test_always_saying_no_is_as_accurate_as_the_majority_and_worth_nothing():
    labels = np.arange(50) % 5 == 0
    found = ratios(counted(np.zeros(50, bool), labels, np.ones(50)))
    summary = binary_summary(found)
    assert found["accuracy"] == pytest.approx(0.8)
    assert float(summary["majority_accuracy"]) == pytest.approx(0.8)
    assert float(summary["balanced_accuracy"]) == pytest.approx(0.5)
    assert float(summary["mcc"]) == found["f1"] == 0


def test_where_no_positive_is_likely_the_rate_still_tells_them_apart():
    """Calibrated scores, all below 0: the plain threshold says no to every one."""
    generator = np.random.default_rng(0)
    probabilities = generator.choice([0.1, 0.3], 20_000)
    labels = generator.random(20_000) < probabilities
    scores = np.log(probabilities / (1 - probabilities))
    weights = generator.random(20_000) < 0.9
    plain = ratios(counted(scores > 0, labels, weights))
    assert plain["recall"] == 0
    at_rate = {
        name: float(part) / float(whole)
        for name, (part, whole) in counts_at_rate(scores, labels, weights).items()
    }
    kept = labels[weights]
    called = probabilities[weights] > kept.mean()
    assert at_rate["recall_at_rate"] == pytest.approx(called[kept].mean())
    assert at_rate["specificity_at_rate"] == pytest.approx((~called[~kept]).mean())
    summary = binary_summary({**plain, **at_rate})
    assert float(summary["balanced_accuracy"]) == 0.5
    assert float(summary["balanced_accuracy_at_rate"]) > 0.6


def test_pairs_of_a_row_are_ordered_by_their_scores():
    scores = np.array([[3, 1, 2, 2, 9], [0, 5, 5, 5, 5]])
    labels = np.array([[1, 0, 1, 0, 0], [0, 1, 0, 0, 0]], bool)
    weights = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]], "float32")
    # First row: 3 > 1, 3 > 2, 2 > 1, 2 = 2; second row: 5 > 0, 5 = 5.
    right, pairs = pair_accuracy(scores, labels, weights)
    assert (float(right), float(pairs)) == (1 + 1 + 1 + 0.5 + 1 + 0.5, 6)
