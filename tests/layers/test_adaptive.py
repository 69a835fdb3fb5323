"""Adaptive word vectors and softmax, against plain NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layers.adaptive import AdaptiveEmbedding, AdaptiveSoftmax
from tests import adaptive_reference, numpy_reference

pytestmark = pytest.mark.slow
VOCAB_SIZE, WIDTH = 13, 6
# The second part is a single word.
CUTOFFS = (4, 5, 9)
FORMS = {
    "one part": (6, (), 1),
    "one table": (6, CUTOFFS, 1),
    "one table, projected": (8, CUTOFFS, 1),
    "narrower tails": (8, CUTOFFS, 2),
    "head as wide as the model": (6, (5,), 4),
}
TARGETS = {
    "every part": [[0, 3, 4, 6, 12], [8, 5, 9, 1, 4]],
    "head only": [[0, 1, 2, 3, 0], [3, 2, 1, 0, 0]],
    "one tail only": [[5, 6, 7, 8, 5], [8, 7, 6, 5, 5]],
    "first and last word": [[0, 12, 0, 12, 0], [12, 12, 0, 0, 12]],
}
HIDDEN = np.random.default_rng(4).normal(size=(2, 5, WIDTH)).astype("float32")
each_form = pytest.mark.parametrize("form", FORMS)


def build_embedding(embedding_size=8, cutoffs=CUTOFFS, tail_divisor=2, **ranges):
    ranges = {"initializer_range": 0.7, "projection_range": 0.7, **ranges}
    layer = AdaptiveEmbedding(
        VOCAB_SIZE, WIDTH, embedding_size, cutoffs, tail_divisor, **ranges
    )
    layer.build()
    return layer


def build_softmax(form="narrower tails", static_shapes=False):
    layer = AdaptiveSoftmax(build_embedding(*FORMS[form]), static_shapes)
    layer.build()
    return numpy_reference.set_random_weights(layer, scale=0.7)


@each_form
def test_vectors_equal_plain_numpy(form):
    layer = build_embedding(*FORMS[form])
    ids = np.arange(26).reshape(2, 13) * 5 % VOCAB_SIZE  # every word, twice
    weights = numpy_reference.named_weights(layer)
    expected = adaptive_reference.embedding(
        weights, ids, hidden_size=WIDTH, cutoffs=layer.cutoffs
    )
    np.testing.assert_allclose(layer(ids), expected, atol=1e-5)
    assert layer.compute_output_shape((2, 13)) == (2, 13, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cutoffs": (5, 5)}, r"`cutoffs` must rise.*Received: cutoffs=\(5, 5\)"),
        ({"cutoffs": (0, 4)}, r"`cutoffs` must rise, from above 0"),
        ({"cutoffs": (4, 13)}, r"below `vocab_size`.*vocab_size=13"),
        ({"tail_divisor": 0}, r"`tail_divisor`.*least 1.*tail_divisor=0"),
        ({"tail_divisor": 3}, r"`tail_divisor`.*size=8, 3 tails"),
    ],
)
def test_impossible_parts_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        build_embedding(**arguments)


@each_form
@pytest.mark.parametrize("static_shapes", [False, True])
def test_losses_and_probabilities_equal_plain_numpy(form, static_shapes):
    layer = build_softmax(form, static_shapes)
    expected = adaptive_reference.log_probabilities(
        adaptive_reference.softmax_weights(layer),
        HIDDEN.astype("float64"),
        vocab_size=VOCAB_SIZE,
        cutoffs=layer.embedding.cutoffs,
    )
    logs = layer.log_probabilities(HIDDEN)
    assert logs.dtype == "float32"
    np.testing.assert_allclose(logs, expected, atol=1e-5)
    np.testing.assert_allclose(np.exp(logs).sum(axis=-1), np.ones((2, 5)), atol=1e-5)
    for targets in TARGETS.values():
        ids = np.array(targets, "int32")
        losses = adaptive_reference.losses(expected, ids)
        np.testing.assert_allclose(layer(HIDDEN, ids), losses, atol=1e-5)
    # Without a batch dimension.
    flat = layer(HIDDEN.reshape(10, 6), ids.reshape(10))
    np.testing.assert_allclose(flat, losses.reshape(10), atol=1e-5)


def gradients_of(layer, loss, hidden=HIDDEN):
    """Gradients by the hidden states, then by each weight."""
    hidden = tf.convert_to_tensor(hidden)
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        losses = loss(hidden)
    sources = [hidden, *(weight.value for weight in layer.trainable_variables)]
    # Different weights, so that positions cannot be confused.
    upstream = tf.reshape(tf.range(1.0, 11.0), [2, 5])
    return tape.gradient(losses, sources, upstream, unconnected_gradients="zero")


@pytest.mark.parametrize(
    ("form", "static_shapes", "jit_compile"),
    [
        *((form, False, None) for form in FORMS),
        *((form, True, None) for form in FORMS),
        ("narrower tails", False, False),
        ("narrower tails", True, True),
        ("one table, projected", True, False),
    ],
)
def test_gradients_equal_those_of_the_full_softmax(form, static_shapes, jit_compile):
    layer = build_softmax(form, static_shapes)

    def compute(hidden, ids):
        return gradients_of(layer, lambda hidden: layer(hidden, ids), hidden)

    if jit_compile is not None:
        compute = tf.function(compute, jit_compile=jit_compile)
    for targets in TARGETS.values():
        ids = tf.constant(targets)
        expected = gradients_of(
            layer,
            lambda hidden, ids=ids: (
                -tf.gather(layer.log_probabilities(hidden), ids, batch_dims=2)
            ),
        )
        gradients = compute(tf.constant(HIDDEN), ids)
        for gradient, other in zip(gradients, expected, strict=True):
            assert isinstance(gradient, tf.Tensor)
            np.testing.assert_allclose(gradient, other, atol=2e-5)


@pytest.mark.parametrize("static_shapes", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_weights_are_factors_of_losses_and_gradients(static_shapes, dtype):
    layer = build_softmax(static_shapes=static_shapes)
    ids = np.array(TARGETS["every part"], "int32")
    weights = np.array([[1, 1, 0, 0.5, 1], [0, 1, 3, 0, 0]]).astype(dtype)
    losses = layer(HIDDEN, ids, weights)
    np.testing.assert_allclose(losses, layer(HIDDEN, ids) * weights, rtol=1e-6)
    weighted = gradients_of(layer, lambda hidden: layer(hidden, ids, weights))
    expected = gradients_of(
        layer, lambda hidden: layer(hidden, ids) * weights.astype("float32")
    )
    for gradient, other in zip(weighted, expected, strict=True):
        np.testing.assert_allclose(gradient, other, atol=1e-5)
    assert (np.asarray(weighted[0])[weights == 0] == 0).all()
