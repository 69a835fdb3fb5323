import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layers.adaptive_embedding import AdaptiveEmbedding
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


@pytest.mark.parametrize("tail_divisor", [1, 2])
def test_adam_squares_the_sum_of_a_repeated_words_gradients(tail_divisor):
    layer = AdaptiveEmbedding(3, 1, 2, (2,), tail_divisor)
    layer.build()
    for weight in layer.weights:
        weight.assign(np.ones(weight.shape))
    optimizer = keras.optimizers.Adam(beta_2=0.5)
    optimizer.build(layer.trainable_variables)
    with tf.GradientTape() as tape:
        outputs = layer(np.array([[0, 0, 1]]))
    upstream = np.array([[[3.0], [-1.0], [5.0]]], "float32")
    gradients = tape.gradient(outputs, layer.trainable_variables, upstream)
    optimizer.apply(gradients, layer.trainable_variables)
    velocities = [v for v in optimizer.variables if "velocity" in v.path]
    table = next(v for v in velocities if "projection" not in v.path)
    # Row by row it would be (9 + 1) / 2 for the word that is read twice.
    expected = [[(3 - 1) ** 2 / 2] * 2, [25 / 2] * 2]
    np.testing.assert_allclose(table[:2], expected)


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


def test_the_narrowest_tail_may_have_a_width_of_one():
    assert [part.width for part in build_embedding().parts] == [8, 4, 2, 1]


@pytest.mark.parametrize("tail_divisor", [1, 2])
def test_half_precision_multiplies_in_half_and_picks_in_float32(tail_divisor):
    layer = build_embedding(tail_divisor=tail_divisor, dtype="mixed_bfloat16")

    @tf.function
    def call(ids):
        return layer(ids)

    ids = tf.constant([[0, 4, 12]])
    operations = call.get_concrete_function(ids).graph.get_operations()
    types = {
        kind: {op.outputs[0].dtype.name for op in operations if kind in op.type}
        for kind in ("MatMul", "Gather")
    }
    # Casting a table costs more than casting the rows that were picked.
    assert types == {"MatMul": {"bfloat16"}, "Gather": {"float32"}}
    assert layer(ids).dtype == "bfloat16"
