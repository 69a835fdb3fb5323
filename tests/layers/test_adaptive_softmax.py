import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from seg_tf.layers.adaptive_embedding import AdaptiveEmbedding
from seg_tf.layers.adaptive_softmax import AdaptiveSoftmax
from tests import adaptive_reference

pytestmark = pytest.mark.slow

VOCAB_SIZE, HIDDEN_SIZE = 13, 6
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


def reference(layer, hidden):
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
    expected = adaptive_reference.losses(reference(layer, hidden), ids)
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
    np.testing.assert_allclose(logs, reference(layer, hidden), atol=1e-5)
    np.testing.assert_allclose(np.exp(logs).sum(axis=-1), np.ones((2, 5)), atol=1e-5)


@each_form
def test_starts_as_the_distribution_of_equal_scores(form):
    embedding_size, cutoffs, tail_divisor = FORMS[form]
    embedding = AdaptiveEmbedding(
        VOCAB_SIZE, HIDDEN_SIZE, embedding_size, cutoffs, tail_divisor, 0.0
    )
    layer = AdaptiveSoftmax(embedding)
    layer.build()
    columns = (cutoffs or (VOCAB_SIZE,))[0] + len(cutoffs)
    sizes = np.diff((*cutoffs, VOCAB_SIZE))
    tails = [np.full(size, 1 / columns / size) for size in sizes]
    expected = np.concatenate([np.full(columns - len(sizes), 1 / columns), *tails])
    logs = layer.log_probabilities(random_hidden(3))
    np.testing.assert_allclose(np.exp(logs), np.tile(expected, (3, 1)), rtol=1e-5)


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


@each_form
def test_gradient_of_a_weight_is_what_plain_numpy_loses_by_moving_it(form):
    layer, hidden = build_softmax(form), random_hidden(2, 5)
    ids = np.array(TARGETS["every part"], "int32")
    actual = all_gradients(layer, lambda hidden: layer(hidden, ids), hidden)[1:]
    weights = adaptive_reference.softmax_weights(layer)
    factors = np.arange(1.0, 11.0).reshape(2, 5)

    def loss(moved):
        logs = adaptive_reference.log_probabilities(
            moved, hidden, vocab_size=VOCAB_SIZE, cutoffs=layer.embedding.cutoffs
        )
        return (factors * adaptive_reference.losses(logs, ids)).sum()

    assert len(weights) == len(actual)
    for (name, value), gradient in zip(weights.items(), actual, strict=True):
        assert isinstance(gradient, tf.Tensor), name
        where = (len(value) // 2, *([0] * (value.ndim - 1)))
        step = np.zeros(value.shape)
        step[where] = 1e-5
        above = loss({**weights, name: value + step})
        below = loss({**weights, name: value - step})
        np.testing.assert_allclose(
            np.asarray(gradient)[where], (above - below) / 2e-5, atol=1e-4, err_msg=name
        )


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


@each_way
def test_with_no_weight_at_all_loss_and_gradients_are_zero(static_shapes):
    layer, hidden = build_softmax(static_shapes=static_shapes), random_hidden(2, 5)
    ids, weights = np.array(TARGETS["every part"]), np.zeros((2, 5), bool)
    gradients = all_gradients(layer, lambda hidden: layer(hidden, ids, weights), hidden)
    assert (np.asarray(layer(hidden, ids, weights)) == 0).all()
    assert all((np.asarray(gradient) == 0).all() for gradient in gradients)


@each_form
def test_vectors_are_the_embeddings_and_the_first_projection_is_not(form):
    layer = build_softmax(form)
    embedding, variables = layer.embedding, layer.trainable_variables
    assert len({id(one) for one in variables}) == len(variables)
    tied = {id(one) for one in embedding.trainable_variables}
    own = {one.path.split("/")[-1] for one in variables if id(one) not in tied}
    expected = {"bias"}
    if embedding.cutoffs:
        expected |= {"cluster_vectors", "cluster_bias"}
    if embedding.is_projected:
        expected |= {"projection"}
    assert own == expected
    assert len(variables) == len(tied) + len(own)


@each_form
def test_gradient_reaches_the_vectors_through_both_their_uses(form):
    layer = build_softmax(form)
    variables, ids = layer.trainable_variables, np.array([[0, 4, 6, 12]])
    read = tf.constant(layer.embedding(ids))

    def gradients(predict, hidden):
        with tf.GradientTape() as tape:
            hidden = hidden()
            losses = predict(hidden)
        sources = [variable.value for variable in variables]
        return tape.gradient(losses, sources, unconnected_gradients="zero")

    def predict(hidden):
        return layer(hidden, np.array([[12, 6, 4, 0]]))

    with tf.GradientTape() as tape:
        tape.watch(read)
        losses = predict(read)
    upstream = tape.gradient(losses, read)
    together = gradients(predict, lambda: layer.embedding(ids))
    predicting = gradients(predict, lambda: read)
    reading = gradients(lambda hidden: hidden * upstream, lambda: layer.embedding(ids))
    for variable, one, two, both in zip(
        variables, reading, predicting, together, strict=True
    ):
        assert isinstance(both, tf.Tensor), variable.path
        np.testing.assert_allclose(one + two, both, atol=1e-5)
        if "table" in variable.path:
            assert np.abs(one).max() > 0
            # The word of a tail of one word is certain, whatever its vector.
            assert np.abs(two).max() > 0 or variable.shape[0] == 1


@each_way
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_precision_multiplies_in_half_and_takes_softmaxes_in_float32(
    dtype, static_shapes
):
    layer = build_softmax(static_shapes=static_shapes, dtype=f"mixed_{dtype}")
    hidden, ids = random_hidden(2, 5), np.array(TARGETS["every part"], "int32")

    @tf.function
    def losses(hidden):
        return layer(hidden, ids), layer.log_probabilities(hidden)

    half = tf.cast(hidden, dtype)
    graph = losses.get_concrete_function(half).graph
    types = {"MatMul": set(), "SparseSoftmaxCrossEntropyWithLogits": set()}
    for operation in graph.get_operations():
        if operation.type in types:
            types[operation.type].add(operation.outputs[0].dtype.name)
    assert list(types.values()) == [{dtype}, {"float32"}]
    expected = build_softmax(static_shapes=static_shapes)
    for one, other in zip(
        losses(half),
        (expected(hidden, ids), expected.log_probabilities(hidden)),
        strict=True,
    ):
        assert one.dtype == "float32"
        np.testing.assert_allclose(one, other, atol=0.15)
    np.testing.assert_allclose(np.exp(losses(half)[1]).sum(axis=-1), 1, atol=1e-5)


def test_scores_too_large_for_half_precisions_exponential_are_no_trouble():
    layer = build_softmax("one table", dtype="mixed_float16")
    layer.embedding.weights[0].assign(np.full((13, 6), 30.0))
    hidden = np.full((2, 5, 6), 30.0, "float16")
    losses = layer(hidden, np.array(TARGETS["every part"]))
    assert np.isfinite(losses).all()


@each_way
def test_tie_survives_saving(static_shapes, tmp_path):
    layer = build_softmax(static_shapes=static_shapes)
    ids = keras.Input((None,), dtype="int32", name="ids")
    targets = keras.Input((None,), dtype="int32", name="targets")
    model = keras.Model([ids, targets], layer(layer.embedding(ids), targets))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    (restored,) = [one for one in loaded.layers if isinstance(one, AdaptiveSoftmax)]
    (embedding,) = [one for one in loaded.layers if isinstance(one, AdaptiveEmbedding)]
    assert restored.embedding is embedding
    assert restored.static_shapes == static_shapes
    assert loaded.count_params() == model.count_params()
    inputs = [np.array([[1, 12, 7]]), np.array([[12, 5, 0]])]
    np.testing.assert_allclose(loaded(inputs), model(inputs), atol=1e-6)
