"""Relative attention with memory, against loops."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layers.transformer_xl import PARTS
from tests import numpy_relative_attention as reference
from tests import official_models
from tests.relative_attention_cases import (
    COUNTERS,
    HEAD_SIZE,
    HEADS,
    WIDTH,
    Attention,
    ReleasedPositions,
    hidden_states,
    stream_indices,
)

pytestmark = pytest.mark.slow


ABLATIONS = [
    PARTS,
    ("token", "sentence"),
    ("token", "paragraph"),
    ("token",),
    ("sentence", "paragraph"),
]


def split(values, memory_length):
    return values[:, memory_length:], values[:, :memory_length]


def expected(attention, hidden, memory, indices, memory_indices):
    weights, biases, parts = attention.arguments()
    rows = zip(hidden, memory, indices, memory_indices, strict=True)
    return np.stack([reference.attention(weights, *row, biases, parts) for row in rows])


@pytest.mark.parametrize("static_shapes", [False, True])
@pytest.mark.parametrize("memory_length", [7, 3, 0])
@pytest.mark.parametrize("parts", ABLATIONS, ids="-".join)
def test_equals_four_loops(parts, memory_length, static_shapes):
    attention = Attention(parts, static_shapes=static_shapes)
    indices = np.stack([stream_indices(one) for one in COUNTERS.values()])
    indices, memory_indices = split(indices, memory_length)
    hidden = hidden_states(len(COUNTERS), 11)
    hidden, memory = split(hidden, memory_length)
    inputs = (hidden, memory, indices, memory_indices)
    np.testing.assert_allclose(
        attention.numpy(*inputs), expected(attention, *inputs), atol=1e-5
    )


def test_logits_equal_four_loops():
    # Of more tokens than the outputs above, and no softmax that might hide anything.
    rng = np.random.default_rng(0)
    attention = Attention()
    sentences = np.cumsum(rng.integers(0, 2, 60))
    counters = (sentences, sentences // 4)
    indices = stream_indices(counters)[None]
    indices, memory_indices = split(indices, 35)
    hidden, memory = split(hidden_states(1, 60), 35)
    positions, mask = attention.positions(indices, memory_indices)
    weights, biases, parts = attention.arguments()
    wanted = reference.logits(
        weights, hidden[0], memory[0], indices[0], memory_indices[0], biases, parts
    )
    query = np.einsum("td,dhe->hte", hidden[0], weights["query_kernel"])
    by_position = (query + biases[1][:, None]) / np.sqrt(HEAD_SIZE)
    by_content = (query + biases[0][:, None]) / np.sqrt(HEAD_SIZE)
    keys = np.concatenate([memory[0], hidden[0]])
    key = np.einsum("kd,dhe->hke", keys, weights["key_kernel"])
    inputs = (one[None].astype("float32") for one in (by_content, key, by_position))
    found = positions.logits(*inputs, attention.layer.position_kernel)[0]
    seen = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.broadcast_to(mask[0], seen.shape), seen)
    np.testing.assert_allclose(np.array(found)[seen], wanted[seen], atol=1e-5)


@pytest.mark.parametrize(
    ("memory_tokens", "num_seen"),
    [
        pytest.param(range(93, 100), 7, id="before the segment"),
        pytest.param([-(2**31)] * 7, 0, id="never filled"),
        pytest.param([-(2**31)] * 4 + [97, 98, 99], 3, id="partly filled"),
        pytest.param(range(50, 57), 0, id="of another place"),
        pytest.param(range(92, 99), 0, id="one token missing"),
    ],
)
def test_memory_of_another_place_is_not_seen(memory_tokens, num_seen):
    attention = Attention()
    indices, memory_indices = split(stream_indices(COUNTERS["a stream"], 93)[None], 7)
    memory_indices = memory_indices.copy()
    memory_indices[0, :, 0] = list(memory_tokens)
    hidden, memory = split(hidden_states(1, 11), 7)
    with_memory = attention.numpy(hidden, memory, indices, memory_indices)
    rest = slice(7 - num_seen, None)
    seen_alone = attention.numpy(
        hidden, memory[:, rest], indices, memory_indices[:, rest]
    )
    np.testing.assert_allclose(with_memory, seen_alone, atol=1e-6)


def test_counters_may_run_over():
    attention = Attention()
    inputs = [*split(hidden_states(1, 11), 7)]
    indices, memory_indices = split(stream_indices(COUNTERS["a stream"])[None], 7)
    near_the_end = np.array([2**31 - 109, 2**31 - 6, 2**31 - 3])

    def moved(values):
        return (values.astype("int64") + near_the_end).astype("int32")

    assert moved(indices).min() < 0 < moved(memory_indices).max()
    np.testing.assert_allclose(
        attention.numpy(*inputs, moved(indices), moved(memory_indices)),
        attention.numpy(*inputs, indices, memory_indices),
        atol=1e-6,
    )


@pytest.mark.parametrize("changed", ["tokens", "sentence", "paragraph", "both"])
@pytest.mark.parametrize("place", range(4))
def test_what_comes_after_changes_not_one_bit(place, changed):
    attention = Attention()
    indices, memory_indices = split(stream_indices(COUNTERS["a stream"])[None], 7)
    hidden, memory = split(hidden_states(1, 11), 7)
    before = attention.numpy(hidden, memory, indices, memory_indices)
    hidden, indices = hidden.copy(), indices.copy()
    if changed == "tokens":
        hidden[:, place:] += 3
    if changed in ("sentence", "both"):
        indices[:, place:, 1] += np.arange(4 - place) * 5 + 1
    if changed in ("paragraph", "both"):
        indices[:, place:, 2] += np.arange(4 - place) * 3 + 1
    after = attention.numpy(hidden, memory, indices, memory_indices)
    np.testing.assert_array_equal(after[:, :place], before[:, :place])
    assert (after[:, place:] != before[:, place:]).any()


def test_released_form_lets_later_breaks_be_seen():
    attention = Attention(positions=ReleasedPositions)
    indices, memory_indices = split(stream_indices(COUNTERS["a stream"])[None], 7)
    hidden, memory = split(hidden_states(1, 11), 7)
    before = attention.numpy(hidden, memory, indices, memory_indices)
    indices = indices.copy()
    indices[:, -1, 1] += 1
    after = attention.numpy(hidden, memory, indices, memory_indices)
    assert np.abs(after - before)[:, :-1].max() > 1e-3


def test_released_form_of_tokens_alone_is_exact():
    indices, memory_indices = split(stream_indices(COUNTERS["jumping"])[None], 7)
    inputs = (*split(hidden_states(1, 11), 7), indices, memory_indices)
    released = Attention(("token",), positions=ReleasedPositions)
    np.testing.assert_allclose(
        released.numpy(*inputs), Attention(("token",)).numpy(*inputs), atol=1e-6
    )


@pytest.mark.parametrize("memory_length", [7, 0])
def test_tokens_alone_equal_the_attention_of_tf_models_official(memory_length):
    attention_class = official_models.relative_attention_class()
    attention = Attention(("token",))
    weights, biases, _ = attention.arguments()
    indices, memory_indices = split(
        stream_indices(COUNTERS["jumping"])[None], memory_length
    )
    hidden, memory = split(hidden_states(1, 11), memory_length)
    length = hidden.shape[1]
    # It wants one distance more, in place of what our shift adds.
    vectors = np.stack([reference.sinusoid(k, WIDTH) for k in range(11, -1, -1)])
    place = np.arange(11)
    mask = place[None, None] <= memory_length + np.arange(length)[None, :, None]
    layer = attention_class(num_heads=HEADS, key_dim=HEAD_SIZE, use_bias=False)

    def apply():
        arguments = {
            "query": hidden,
            "value": hidden,
            "content_attention_bias": biases[0],
            "positional_attention_bias": biases[1],
            "relative_position_encoding": vectors[None].astype("float32"),
            "state": memory,
            "attention_mask": mask,
        }
        return layer(**{k: tf.constant(value) for k, value in arguments.items()})

    apply()
    kernels = {weight.name.split("/")[-2]: weight for weight in layer.weights}
    for name, kernel in kernels.items():
        own = {"attention_output": "output", "encoding": "position"}.get(name, name)
        kernel.assign(weights[f"{own}_kernel"])
    np.testing.assert_allclose(
        attention.numpy(hidden, memory, indices, memory_indices), apply(), atol=1e-5
    )


@pytest.mark.parametrize("static_shapes", [False, True])
def test_dropped_numbers_of_the_position_vectors_are_made_up_for(static_shapes):
    attention = Attention(dropout=0.25, static_shapes=static_shapes)
    indices, memory_indices = split(stream_indices(COUNTERS["a stream"])[None], 7)
    query, key = (keras.ops.ones((1, HEADS, n, HEAD_SIZE)) for n in (4, 11))
    kernel = attention.layer.position_kernel

    @tf.function
    def logits(training):
        inputs = (indices, memory_indices)
        positions, _ = attention.positions(*inputs, training=training)
        return positions.logits(query, 0 * key, query, kernel)

    dropped = np.stack([logits(True) for _ in range(800)])
    assert np.std(dropped, axis=0).min() > 0.1
    error = np.std(dropped, axis=0) / np.sqrt(800)
    assert (np.abs(dropped.mean(axis=0) - logits(False)) < 5 * error).all()


def test_impossible_positions_are_refused():
    with pytest.raises(ValueError, match="`parts` must be some of"):
        Attention(("sentence", "token"))
    with pytest.raises(ValueError, match="must be even and leave two numbers"):
        Attention(width=7)
