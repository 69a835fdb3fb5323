"""Adaptive word vectors and softmax, against plain NumPy."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from seg_tf.layers.adaptive import AdaptiveEmbedding, AdaptiveSoftmax
from tests import adaptive_reference, numpy_reference

VOCAB_SIZE, HIDDEN_SIZE = 13, 6


# A tail of one word among them.
each_form = pytest.mark.parametrize(
    ("embedding_size", "cutoffs", "tail_divisor"),
    [
        pytest.param(6, (), 1, id="one part"),
        pytest.param(6, (4, 5, 9), 1, id="one table"),
        pytest.param(8, (4, 5, 9), 1, id="one table, projected"),
        pytest.param(8, (4, 5, 9), 2, id="narrower tails"),
        pytest.param(6, (5,), 4, id="head as wide as the model"),
    ],
)


def build_embedding(embedding_size=8, cutoffs=(4, 5, 9), tail_divisor=2, **arguments):
    layer = AdaptiveEmbedding(
        VOCAB_SIZE,
        HIDDEN_SIZE,
        embedding_size,
        cutoffs,
        tail_divisor,
        initializer_range=0.7,
        projection_range=0.7,
        **arguments,
    )
    layer.build()
    return layer


def reference(layer, ids):
    return adaptive_reference.embedding(
        numpy_reference.named_weights(layer),
        ids,
        hidden_size=HIDDEN_SIZE,
        cutoffs=layer.cutoffs,
    )


@each_form
def test_output_equals_plain_numpy(embedding_size, cutoffs, tail_divisor):
    layer = build_embedding(embedding_size, cutoffs, tail_divisor)
    ids = np.arange(26).reshape(2, 13) * 5 % VOCAB_SIZE  # every word, twice
    outputs = layer(ids)
    np.testing.assert_allclose(outputs, reference(layer, ids), atol=1e-5)
    assert tuple(outputs.shape) == layer.compute_output_shape((2, 13)) == (2, 13, 6)


@pytest.mark.parametrize(
    ("arguments", "shapes"),
    [
        ((6, (4, 9), 1), {"table": (13, 6)}),
        ((8, (4, 9), 1), {"table": (13, 8), "projection": (8, 6)}),
        (
            (6, (4, 9), 2),
            {
                "table_0": (4, 6),
                "table_1": (5, 3),
                "table_2": (4, 1),
                # The head is projected though it is as wide as the model.
                "projection_0": (6, 6),
                "projection_1": (3, 6),
                "projection_2": (1, 6),
            },
        ),
    ],
)
def test_tables_and_projections_have_the_shapes_of_their_parts(arguments, shapes):
    weights = numpy_reference.named_weights(build_embedding(*arguments))
    assert {name: value.shape for name, value in weights.items()} == shapes


def test_weights_start_normally_distributed_with_the_given_deviations():
    layer = AdaptiveEmbedding(900, 40, 60, (300, 600), 2, 0.02, 0.01)
    layer.build()
    for name, value in numpy_reference.named_weights(layer).items():
        deviation = 0.02 if name.startswith("table") else 0.01
        assert 0.9 < value.std() / deviation < 1.1, name
        # A truncated normal distribution has nothing beyond two.
        assert np.abs(value).max() > 2.2 * deviation, name


@each_form
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_gradient_sums_over_every_use_of_a_word(
    embedding_size, cutoffs, tail_divisor, jit_compile
):
    layer = build_embedding(embedding_size, cutoffs, tail_divisor)
    ids = np.array([[0, 3, 4, 4, 12], [8, 5, 0, 12, 12]])
    upstream = np.random.default_rng(2).normal(size=(2, 5, 6)).astype("float32")

    @tf.function(jit_compile=jit_compile)
    def gradients():
        with tf.GradientTape() as tape:
            outputs = layer(ids)
        return tape.gradient(outputs, layer.trainable_variables, upstream)

    actual = gradients()
    assert len(actual) == len(layer.trainable_variables)
    for variable, gradient in zip(layer.trainable_variables, actual, strict=True):
        assert isinstance(gradient, tf.Tensor)
        expected = numeric_gradient(layer, variable, ids, upstream)
        np.testing.assert_allclose(gradient, expected, atol=1e-4)


def numeric_gradient(layer, variable, ids, upstream):
    """Of the reference; it is linear in each weight, so a step of 1 is exact."""
    weights = numpy_reference.named_weights(layer)
    name = variable.path.rpartition("/")[-1]
    gradient = np.zeros(variable.shape)
    arguments = {"hidden_size": HIDDEN_SIZE, "cutoffs": layer.cutoffs}
    start = adaptive_reference.embedding(weights, ids, **arguments)
    for where in np.ndindex(*variable.shape):
        moved = {**weights, name: weights[name].copy()}
        moved[name][where] += 1
        outputs = adaptive_reference.embedding(moved, ids, **arguments)
        gradient[where] = ((outputs - start) * upstream).sum()
    return gradient


def test_a_word_reads_no_table_but_its_parts():
    layer = build_embedding()
    expected = np.asarray(layer(np.array([[6]])))
    tables = [w for w in layer.weights if "projection" not in w.path]
    for number, table in enumerate(tables):
        if number != 2:  # that of words 5 to 8
            table.assign(np.full(table.shape, np.inf))
    np.testing.assert_array_equal(layer(np.array([[6]])), expected)
    assert not np.isfinite(layer(np.array([[4]]))).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cutoffs": (5, 5)}, r"`cutoffs` must rise.*Received: cutoffs=\(5, 5\)"),
        ({"cutoffs": (9, 4)}, r"`cutoffs` must rise"),
        ({"cutoffs": (0, 4)}, r"`cutoffs` must rise, from above 0"),
        ({"cutoffs": (4, 13)}, r"below `vocab_size`.*vocab_size=13"),
        ({"cutoffs": (20,)}, r"below `vocab_size`.*cutoffs=\(20,\), vocab_size=13"),
        ({"tail_divisor": 0}, r"`tail_divisor`.*least 1.*tail_divisor=0"),
        ({"tail_divisor": 3}, r"`tail_divisor`.*size=8, 3 tails"),
    ],
)
def test_impossible_parts_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        build_embedding(**arguments)


pytestmark = pytest.mark.slow


CUTOFFS = (4, 5, 9)  # the second part is a single word


FORMS = {
    "one part": (6, (), 1),
    "one table": (6, CUTOFFS, 1),
    "one table, projected": (8, CUTOFFS, 1),
    "narrower tails": (8, CUTOFFS, 2),
}


each_form = pytest.mark.parametrize("form", FORMS)


each_way = pytest.mark.parametrize("static_shapes", [False, True])


TARGETS = {
    "every part": [[0, 3, 4, 6, 12], [8, 5, 9, 1, 4]],
    "head only": [[0, 1, 2, 3, 0], [3, 2, 1, 0, 0]],
    "one tail only": [[5, 6, 7, 8, 5], [8, 7, 6, 5, 5]],
    "first and last word": [[0, 12, 0, 12, 0], [12, 12, 0, 0, 12]],
}


each_targets = pytest.mark.parametrize("targets", TARGETS)


def build_softmax(form="narrower tails", static_shapes=False, dtype=None):
    """A softmax with weights large enough for every one of them to matter."""
    embedding_size, cutoffs, tail_divisor = FORMS[form]
    embedding = AdaptiveEmbedding(
        VOCAB_SIZE,
        HIDDEN_SIZE,
        embedding_size,
        cutoffs,
        tail_divisor,
        dtype=dtype,
        name="embedding",
    )
    layer = AdaptiveSoftmax(embedding, static_shapes, dtype=dtype)
    layer.build()
    generator = np.random.default_rng(3)
    for weight in layer.trainable_weights:
        weight.assign(0.7 * generator.normal(size=weight.shape))
    return layer


def random_hidden(*shape):
    return np.random.default_rng(4).normal(size=(*shape, 6)).astype("float32")


def reference_logs(layer, hidden):
    return adaptive_reference.log_probabilities(
        adaptive_reference.softmax_weights(layer),
        np.asarray(hidden, "float64"),
        vocab_size=VOCAB_SIZE,
        cutoffs=layer.embedding.cutoffs,
    )


@each_form
@each_way
@each_targets
def test_losses_equal_plain_numpy(form, static_shapes, targets):
    layer, hidden = build_softmax(form, static_shapes), random_hidden(2, 5)
    ids = np.array(TARGETS[targets], "int32")
    expected = adaptive_reference.losses(reference_logs(layer, hidden), ids)
    losses = layer(hidden, ids)
    np.testing.assert_allclose(losses, expected, atol=1e-5)
    # The same without a dimension for the batch.
    np.testing.assert_allclose(
        layer(hidden.reshape(10, 6), ids.reshape(10)), expected.reshape(10), atol=1e-5
    )


@each_form
def test_log_probabilities_equal_plain_numpy_and_sum_to_one(form):
    layer, hidden = build_softmax(form), random_hidden(2, 5)
    logs = layer.log_probabilities(hidden)
    assert logs.dtype == "float32"
    np.testing.assert_allclose(logs, reference_logs(layer, hidden), atol=1e-5)
    np.testing.assert_allclose(np.exp(logs).sum(axis=-1), np.ones((2, 5)), atol=1e-5)


def all_gradients(layer, loss_of, hidden):
    """Those by the hidden states, then by each weight; 0 where there is none."""
    hidden = tf.convert_to_tensor(hidden)
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        losses = loss_of(hidden)
    sources = [hidden, *(one.value for one in layer.trainable_variables)]
    # Some losses more than others, so that no two positions can be mistaken.
    upstream = tf.reshape(tf.range(1.0, 11.0), [2, 5])
    return tape.gradient(losses, sources, upstream, unconnected_gradients="zero")


@each_form
@pytest.mark.parametrize(
    ("static_shapes", "jit_compile"),
    [
        pytest.param(False, None, id="eager"),
        pytest.param(False, False, id="graph"),
        pytest.param(True, None, id="static eager"),
        pytest.param(True, False, id="static graph"),
        pytest.param(True, True, id="static xla"),
    ],
)
def test_gradients_equal_those_of_the_full_softmax(form, static_shapes, jit_compile):
    layer, hidden = build_softmax(form, static_shapes), random_hidden(2, 5)

    def full_softmax(hidden, ids):
        logs = layer.log_probabilities(hidden)
        return -tf.gather(logs, ids, batch_dims=2)

    def gradients(hidden, ids):
        return all_gradients(layer, lambda hidden: layer(hidden, ids), hidden)

    if jit_compile is not None:
        gradients = tf.function(gradients, jit_compile=jit_compile)
    names = ["hidden", *(weight.path for weight in layer.trainable_variables)]
    for case, targets in TARGETS.items():
        ids = tf.constant(targets)
        actual = gradients(tf.constant(hidden), ids)
        expected = all_gradients(
            layer, functools.partial(full_softmax, ids=ids), hidden
        )
        for name, one, other in zip(names, actual, expected, strict=True):
            assert isinstance(one, tf.Tensor), name
            np.testing.assert_allclose(one, other, atol=2e-5, err_msg=f"{name}, {case}")


@pytest.fixture
def logits_shapes(monkeypatch):
    """Shapes of all logits that a cross entropy is taken of, as they come."""
    shapes, cross_entropy = [], ops.sparse_categorical_crossentropy

    def record(words, logits, **arguments):
        shapes.append(tuple(logits.shape))
        return cross_entropy(words, logits, **arguments)

    monkeypatch.setattr(ops, "sparse_categorical_crossentropy", record)
    return shapes


def test_a_tail_is_computed_where_its_targets_are_and_nowhere_else(logits_shapes):
    hidden, ids = random_hidden(2, 5), np.array(TARGETS["every part"])
    # Columns of the head: 4 words and 3 tails, then the tails' words.
    build_softmax("one table")(hidden, ids)
    assert logits_shapes == [(10, 7), (2, 1), (3, 4), (2, 4)]
    # Not where the weight is 0 either: 12, 8 and 9 are left out.
    weights = np.array([[1, 1, 1, 1, 0], [0, 1, 0, 1, 1]])
    logits_shapes.clear()
    build_softmax("one table")(hidden, ids, weights)
    assert logits_shapes == [(10, 7), (2, 1), (2, 4), (0, 4)]
    logits_shapes.clear()
    build_softmax("one table", static_shapes=True)(hidden, ids)
    assert logits_shapes == [(10, 7), (10, 1), (10, 4), (10, 4)]


@each_way
@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_weights_are_factors_of_losses_and_gradients(static_shapes, dtype):
    layer, hidden = build_softmax(static_shapes=static_shapes), random_hidden(2, 5)
    ids = np.array(TARGETS["every part"], "int32")
    weights = np.array([[1, 1, 0, 0.5, 1], [0, 1, 3, 0, 0]]).astype(dtype)
    losses = layer(hidden, ids, weights)
    np.testing.assert_allclose(losses, layer(hidden, ids) * weights, rtol=1e-6)
    weighted = all_gradients(layer, lambda hidden: layer(hidden, ids, weights), hidden)
    expected = all_gradients(
        layer, lambda hidden: layer(hidden, ids) * weights.astype("float32"), hidden
    )
    for one, other in zip(weighted, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert (np.asarray(weighted[0])[weights == 0] == 0).all()
