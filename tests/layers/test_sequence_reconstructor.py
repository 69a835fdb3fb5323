"""The Sequence Reconstructor, against plain NumPy and tf-models-official."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

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
    """A reconstructor with weights large enough for every one of them to matter."""
    layer = SequenceReconstructor(
        **{**SIZES, "layer_norm_epsilon": EPSILON, **arguments}
    )
    layer.build((None, None, WIDTH))
    generator = np.random.default_rng(11)
    for weight in layer.trainable_weights:
        offset = 1.0 if weight.path.endswith("gamma") else 0.0
        weight.assign(offset + scale * generator.normal(size=weight.shape))
    return layer


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


def test_a_step_depends_on_what_was_read_before_it_alone():
    layer = build()
    candidates, mask, gold = random_batch([[2, 4, 1, 3, 5]])
    logits = layer(candidates, mask, gold)
    other = layer(candidates, mask, np.array([[2, 4, 3, 5, 1, 6]]))
    np.testing.assert_array_equal(other[:, :3], logits[:, :3])
    assert (np.abs(np.asarray(other - logits)[:, 3:5]) > 1e-3).any(axis=-1).all()


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


@pytest.mark.parametrize("seed", range(3))
def test_every_decoded_order_is_a_permutation_ended_by_sep(seed):
    sizes = [1, 2, 3, 4, 5, 5, 5, 5]
    orders = [list(range(1, size + 1)) for size in sizes]
    candidates, mask, _ = random_batch(orders, seed=seed)
    # What every step would rather point at must not come back, or too soon.
    candidates[:, 0] *= 9
    candidates[np.arange(8), np.add(sizes, 1)] *= 9
    order, probabilities = build().decode(3 * candidates, mask)
    for row, size in enumerate(sizes):
        found = np.asarray(order[row]).tolist()
        assert sorted(found[:size]) == list(range(1, size + 1))
        assert found[size] == size + 1
        assert not any(found[size + 1 :])
        chances = np.asarray(probabilities[row])
        # Each is the best of those left; of one there is no choice.
        assert (chances[:size] >= 1 / np.arange(size, 0, -1) - 1e-6).all()
        np.testing.assert_allclose(chances[size - 1 : size + 1], 1)
        assert (chances[size + 1 :] == 0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_layers": 0}, "`num_layers` must be at least 1"),
        ({"num_heads": 3}, "`num_heads` must divide the width.*num_heads=3"),
    ],
)
def test_impossible_sizes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SequenceReconstructor(**{**SIZES, **arguments}).build((None, None, WIDTH))


NUM_SENTENCES, LEAK_WIDTH = 4, 16


def draw(generator, batch, is_diagonal, signal=0.0):
    """Random candidates that reveal their order only by `signal`.

    With `is_diagonal` sentences are presented in gold order, so that step i always
    points at slot i + 1: a layer that knew about slots would learn that at once.
    """
    slots = np.tile(np.arange(NUM_SENTENCES), (batch, 1))
    order = slots if is_diagonal else generator.permuted(slots, axis=1)
    candidates = generator.normal(size=(batch, NUM_SENTENCES + 2, LEAK_WIDTH))
    gold_places = np.argsort(order, axis=1)  # of each slot
    candidates[:, 1:-1] += signal * np.eye(LEAK_WIDTH)[gold_places]
    gold = np.full((batch, NUM_SENTENCES + 1), NUM_SENTENCES + 1)
    gold[:, :-1] = 1 + order
    mask = np.ones((batch, NUM_SENTENCES + 2), bool)
    return candidates.astype("float32"), mask, gold.astype("int32")


@pytest.mark.parametrize("is_diagonal", [False, True], ids=["random", "diagonal"])
@pytest.mark.parametrize("signal", [0.0, 4.0])
def test_orders_are_learned_from_the_candidates_only(is_diagonal, signal):
    generator = np.random.default_rng(14)
    layer = SequenceReconstructor(
        num_layers=1,
        num_heads=2,
        intermediate_size=32,
        dropout=0.0,
        initializer_range=0.1,
    )
    layer.build((None, None, LEAK_WIDTH))
    optimizer = keras.optimizers.Adam(1e-2)
    optimizer.build(layer.trainable_variables)

    @tf.function
    def update(candidates, mask, gold):
        with tf.GradientTape() as tape:
            losses = keras.ops.sparse_categorical_crossentropy(
                gold, layer(candidates, mask, gold, training=True), from_logits=True
            )
            loss = keras.ops.mean(losses)
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)

    for _ in range(200):
        update(*map(tf.constant, draw(generator, 64, is_diagonal, signal)))
    candidates, mask, gold = draw(generator, 2000, is_diagonal, signal)
    pointers = np.asarray(layer(candidates, mask, gold)).argmax(axis=-1)
    order = np.asarray(layer.decode(candidates, mask)[0])
    pointed, placed = ((part == gold)[:, :-1].mean() for part in (pointers, order))
    if signal:
        assert pointed > 0.8
        assert placed > 0.7
    else:
        chance = np.mean([1 / (NUM_SENTENCES - step) for step in range(NUM_SENTENCES)])
        # Four standard deviations of 2000 rows whose steps all agree.
        noise = 4 * 0.5 / math.sqrt(2000)
        # It has learned to point at sentences, and nothing else.
        assert 1 / NUM_SENTENCES - noise < pointed < chance + noise
        assert abs(placed - 1 / NUM_SENTENCES) < noise
