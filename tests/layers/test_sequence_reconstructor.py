"""The Sequence Reconstructor, against plain NumPy and tf-models-official."""

import math

import keras
import numpy as np
import pytest

from seg_tf.layers.sequence_reconstructor import SequenceReconstructor
from tests import candidate_batches, numpy_reference

pytestmark = pytest.mark.slow
WIDTH = 8
SIZES = {"num_layers": 2, "num_heads": 2, "intermediate_size": 12}
EPSILON = 1e-3

# Rows of one sentence, of as many as fit, and of padding alone.
ORDERS = ([2, 4, 1, 3, 5], [1], [3, 1, 2], None, [2, 1])
NUM_CANDIDATES = 7


def build(scale=0.4, **arguments):
    layer = SequenceReconstructor(
        **{**SIZES, "layer_norm_epsilon": EPSILON, **arguments}
    )
    layer.build((None, None, WIDTH))
    return numpy_reference.set_random_weights(layer, scale, seed=11)


def random_batch(orders=ORDERS, num_candidates=NUM_CANDIDATES, seed=12):
    """(candidates, mask, gold)."""
    features = candidate_batches.candidate_features(orders, num_candidates)
    shape = (*features["candidate_mask"].shape, WIDTH)
    candidates = np.random.default_rng(seed).normal(size=shape).astype("float32")
    return candidates, features["candidate_mask"], features["gold_candidates"]


REFERENCE = {"num_layers": 2, "epsilon": EPSILON, "approximate_gelu": False}


def rows_of(candidates, mask, gold):
    """(row, candidates and gold of it without padding), of rows that have any."""
    for row, size in enumerate(mask.sum(axis=1)):
        if size:
            yield row, candidates[row, :size], gold[row, : size - 1].tolist()


@pytest.mark.parametrize("dropout", [0.0, 0.1])  # Keras has another attention for each
@pytest.mark.parametrize(
    "form",
    [
        {"approximate_gelu": False},
        {"approximate_gelu": True},
        {"normalize_first": True},
    ],
)
def test_logits_equal_plain_numpy_row_by_row(dropout, form):
    layer = build(dropout=dropout, **form)
    batch = random_batch()
    logits = np.asarray(layer(*batch))
    weights = numpy_reference.named_weights(layer)
    for row, candidates, gold in rows_of(*batch):
        expected = numpy_reference.pointer_logits(
            weights, candidates, [0, *gold[:-1]], **{**REFERENCE, **form}
        )
        steps, size = expected.shape
        np.testing.assert_allclose(logits[row, :steps, :size], expected, atol=1e-5)
        assert (logits[row, :, size:] < -1e8).all()
    assert np.isfinite(logits).all()


def test_scaled_pointers_divide_the_products_by_the_root_of_the_width():
    batch = random_batch()
    logits, scaled = (
        np.asarray(build(scale_pointers=on)(*batch)) for on in (False, True)
    )
    for row, candidates, gold in rows_of(*batch):
        expected = logits[row, : len(gold), : len(candidates)] / math.sqrt(WIDTH)
        found = scaled[row, : len(gold), : len(candidates)]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        assert (scaled[row, :, len(candidates) :] == -1e9).all()  # padding is not


def test_flash_attention_is_not_tried(monkeypatch):
    # Where it is on, Keras on TensorFlow raises at every attempt.
    module = keras.src.layers.attention.multi_head_attention
    monkeypatch.setattr(module, "is_flash_attention_enabled", lambda: True)
    assert np.isfinite(build(dropout=0.0)(*random_batch())).all()


def test_presenting_sentences_in_another_order_permutes_logits_and_nothing_else():
    layer = build()
    candidates, mask, gold = random_batch([[2, 4, 1, 3, 5], [1, 5, 4, 2, 3]])
    slots = np.array([0, 4, 1, 5, 2, 3, 6])  # the former slot of each candidate
    moved, moved_gold = candidates[:, slots], np.argsort(slots)[gold].astype("int32")
    expected = np.asarray(layer(candidates, mask, gold))[:, :, slots]
    np.testing.assert_allclose(layer(moved, mask, moved_gold), expected, atol=2e-6)
    order, probabilities = (np.asarray(part) for part in layer.decode(candidates, mask))
    moved_order, moved_probabilities = layer.decode(moved, mask)
    np.testing.assert_array_equal(moved_order, np.argsort(slots)[order])
    np.testing.assert_allclose(moved_probabilities, probabilities, atol=2e-6)


def test_decoding_equals_plain_numpy_row_by_row():
    layer = build()
    batch = random_batch()
    order, probabilities = layer.decode(*batch[:2])
    weights = numpy_reference.named_weights(layer)
    expected_order = np.zeros(order.shape, int)
    expected = np.zeros(order.shape)
    for row, candidates, gold in rows_of(*batch):
        expected_order[row, : len(gold)], expected[row, : len(gold)] = (
            numpy_reference.decoded_order(weights, candidates, **REFERENCE)
        )
    np.testing.assert_array_equal(order, expected_order)
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    assert order.dtype == "int32"
