"""Attention and rotary positions, against NumPy and Keras."""

import math

import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.ops import tensorflow_ops
from seg_tf.ops.attention import (
    attention_weights,
    fused_attention,
    rotary_sizes,
    rotate,
    rotations,
    visible_keys,
)
from tests import numpy_reference

B, T, K, H, E = 2, 7, 5, 3, 4


@pytest.fixture(name="small_blocks")
def _small_blocks(monkeypatch):
    """Blocks of three queries, so that the third has one of its own and two of none."""
    monkeypatch.setattr(tensorflow_ops, "_MOST_WEIGHTS", 3 * K)
    monkeypatch.setattr(tensorflow_ops, "_FEWEST_QUERIES", 1)


def inputs(groups="many", dtype="float32", num_queries=T, num_keys=K):
    """Query, key, value and groups; one query sees a key, another none."""
    generator = np.random.default_rng(0)
    query, key, value = (
        tf.constant(generator.normal(size=(B, size, H, E)), dtype)
        for size in (num_queries, num_keys, num_keys)
    )
    query_group = np.ones((B, 1), "int32")
    if groups == "many":
        query_group = generator.integers(0, 3, (B, num_queries)).astype("int32")
        query_group[0, :2] = (7, 8)
    key_group = generator.integers(0, 3, (B, num_keys)).astype("int32")
    key_group[:, :2] = (7, 1)
    return query, key, value, tf.constant(query_group), tf.constant(key_group)


def plain(query, key, value, *groups, window=None):
    """What autodiff knows the gradients of."""
    weights_BHTK = attention_weights(query, key, *groups, window)
    return tf.einsum("bhtk,bkhe->bthe", weights_BHTK, value)


def output_and_gradients(function, *arguments, window=None):
    with tf.GradientTape() as tape:
        tape.watch(arguments[:3])
        output = function(*arguments, window=window)
        # Nothing reads what a query gives that sees no key.
        is_read_BT = tf.reduce_any(
            visible_keys(*arguments[3:], tf.shape(arguments[0])[1], window), axis=2
        )
        is_read_BT11 = tf.cast(is_read_BT[:, :, None, None], output.dtype)
        total = tf.reduce_sum(is_read_BT11 * tf.square(output))
    return [output, *tape.gradient(total, arguments[:3])]


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("function", [fused_attention, plain])
def test_counts_are_groups_of_the_first_keys(function, window):
    query, key, value, query_group, _ = inputs("one")
    groups = query_group, tf.constant([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    counted = function(query, key, value, None, tf.constant([3, 5]), window=window)
    expected = function(query, key, value, *groups, window=window)
    np.testing.assert_array_equal(counted, expected)


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("groups", ["one", "many"])
def test_equals_attention_by_loops(small_blocks, groups, window):
    query, key, value, *numbers = inputs(groups)
    expected = np.zeros((B, T, H, E))
    sees = np.zeros((B, T, K), bool)
    for row, place, other in np.ndindex(B, T, K):
        groups_of_query = numbers[0].numpy()[row]
        group = groups_of_query[place if len(groups_of_query) > 1 else 0]
        is_near = window is None or abs(place - other) <= window // 2
        sees[row, place, other] = is_near and group == numbers[1].numpy()[row, other]
    for row, place, head in np.ndindex(B, T, H):
        seen = sees[row, place]
        logits = key[row, :, head].numpy() @ query[row, place, head].numpy()
        if seen.any():
            weights = numpy_reference.softmax(logits[seen] / math.sqrt(E))
            expected[row, place, head] = weights @ value[row, :, head].numpy()[seen]
        else:  # no number is right, but it has to be one
            expected[row, place, head] = value[row, :, head].numpy().mean(axis=0)
    assert (groups, window) == ("one", None) or not sees.any(axis=2).all()
    for function in (fused_attention, plain):
        found = function(query, key, value, *numbers, window=window)
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("form", "groups", "window"),
    [
        ("eager", "one", None),
        ("eager", "one", 3),
        ("eager", "many", None),
        ("graph", "many", 3),
        ("unknown sizes", "one", None),
        ("unknown sizes", "many", 3),
        ("unknown groups", "one", 3),
        ("xla", "one", None),
        ("xla", "many", 3),
    ],
)
def test_gradients_equal_those_of_weights_that_are_kept(
    small_blocks, groups, form, window
):
    arguments = inputs(groups)
    expected = output_and_gradients(plain, *arguments, window=window)

    def compute(*arguments):
        return output_and_gradients(fused_attention, *arguments, window=window)

    if form != "eager":
        signature = None
        if form.startswith("unknown"):
            number = one = tf.TensorSpec([None, None], tf.int32)
            if groups == "one" and form == "unknown sizes":
                one = tf.TensorSpec([None, 1], tf.int32)
            signature = [tf.TensorSpec([None, None, H, E])] * 3 + [one, number]
        compute = tf.function(
            compute,
            autograph=False,
            jit_compile=form == "xla",
            input_signature=signature,
        )
    for one, other in zip(compute(*arguments), expected, strict=True):
        size = max(1.0, float(np.abs(other).max()))
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6 * size)


def shapes_in(function):
    """Static shapes of all tensors of a concrete function, of its loops too."""
    graphs = [function.graph]
    for graph in graphs:
        graphs += [one.graph for one in graph._functions.values()]
    return {
        tuple(tensor.shape)
        for graph in graphs
        for operation in graph.get_operations()
        for tensor in operation.outputs
        if tensor.shape.rank is not None
    }


def test_weights_of_all_pairs_are_never_held():
    num_queries = num_keys = 2_048
    arguments = inputs("one", num_queries=num_queries, num_keys=num_keys)

    def trace(attend):
        def compute(*arguments):
            return output_and_gradients(attend, *arguments)

        return tf.function(compute, autograph=False).get_concrete_function(*arguments)

    block = tensorflow_ops._MOST_WEIGHTS // num_keys
    assert (B, H, num_queries, num_keys) in shapes_in(trace(plain))
    of_fused = shapes_in(trace(fused_attention))
    assert (B, H, block, num_keys) in of_fused
    sizes = [math.prod(shape) for shape in of_fused if None not in shape]
    assert max(sizes) == B * H * block * num_keys


LENGTH, SIZE = 5, 8


@pytest.fixture(name="vectors")
def _vectors():
    return np.random.default_rng(0).normal(size=(B, LENGTH, H, SIZE)).astype("float32")


def test_one_index_equals_keras_hub(vectors):
    index = np.tile(np.arange(LENGTH), (B, 1))
    ours = rotate(
        vectors, rotations({"position_index": index}, {"position_index": SIZE})
    )
    theirs = keras_hub.layers.RotaryEmbedding()(vectors)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_products_depend_on_distances_in_every_level_alone(vectors):
    sizes = rotary_sizes(SIZE, {"token_index": 1, "sentence_index": 1})
    generator = np.random.default_rng(1)
    indices = {name: generator.integers(0, 9, (B, LENGTH)) for name in sizes}

    def products(shifts):
        shifted = {name: indices[name] + shifts[name] for name in sizes}
        turned = np.asarray(rotate(vectors, rotations(shifted, sizes)))
        return np.einsum("blhe,bmhe->bhlm", turned, turned)

    before = products({"token_index": 0, "sentence_index": 0})
    after = products({"token_index": 70, "sentence_index": 3})
    np.testing.assert_allclose(after, before, atol=1e-5)
    indices["sentence_index"] = indices["sentence_index"] * 2
    changed = products({"token_index": 0, "sentence_index": 0})
    assert np.abs(changed - before).max() > 0.1


@pytest.mark.parametrize(
    "head_size, shares",
    [
        (8, {"a": 3, "b": 1, "c": 4}),
        (9, {"a": 1}),
        (8, {"a": 0, "b": 1}),
        (8, {"a": -1}),
    ],
)
def test_shares_without_an_even_size_are_refused(head_size, shares):
    # 64 * 0.6 / (0.6 + 0.2) is 47.99999999999999.
    assert rotary_sizes(64, {"a": 0.6, "b": 0.2}) == {"a": 48, "b": 16}
    with pytest.raises(ValueError, match="an even number of a head's"):
        rotary_sizes(head_size, shares)
