"""Transformer-XL: memory, causality and positions."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layers.transformer_xl import PARTS
from seg_tf.models.transformer_xl import TransformerXL

pytestmark = pytest.mark.slow
VOCAB_SIZE, LENGTH = 50, 24
SIZES = {
    "vocab_size": VOCAB_SIZE,
    "num_layers": 3,
    "hidden_size": 14,
    "num_heads": 2,
    "head_size": 5,
    "intermediate_size": 20,
    "memory_length": LENGTH,
    "dropout": 0.0,
    "cutoffs": (10, 30),
    "embedding_size": 14,
    "initializer_range": 0.4,
}


def build(**arguments):
    keras.utils.set_random_seed(3)
    return TransformerXL(**{**SIZES, **arguments})


_built = functools.cache(build)


def stream(length=LENGTH, first_token=700):
    """Two lanes of random words, whose sentences and paragraphs end at random."""
    rng = np.random.default_rng(5)
    sentences = np.cumsum(rng.integers(0, 2, (2, length)), axis=1)
    tokens = first_token + np.arange(length) + np.array([[0], [5_000]])
    features = {
        "token_ids": rng.integers(0, VOCAB_SIZE, (2, length)),
        "stream_token": tokens,
        "stream_sentence": 90 + sentences,
        "stream_paragraph": 7 + sentences // 3,
    }
    return {name: value.astype("int32") for name, value in features.items()}


def segments(features, *lengths):
    begin = 0
    for length in lengths:
        yield {name: one[:, begin : begin + length] for name, one in features.items()}
        begin += length


def read(model, features, *lengths):
    """The outputs of one segment after the other, with memory."""
    outputs, memory = [], {}
    for segment in segments(features, *lengths):
        output, memory = model({**segment, **memory})
        outputs.append(output)
    return np.concatenate(outputs, axis=1), memory


@pytest.mark.parametrize(
    ("parts", "lengths"),
    [
        (PARTS, (*(1,) * 8, 16)),
        *((parts, (10, 1, 13)) for parts in (PARTS, ("token",), ("token", "sentence"))),
    ],
    ids=str,
)
def test_segment_by_segment_equals_one_long_pass(parts, lengths):
    model = _built(position_parts=parts)
    whole, memory_of_whole = model(stream())
    parts, memory = read(model, stream(), *lengths)
    np.testing.assert_allclose(parts, whole, atol=2e-5)
    for name, value in memory_of_whole.items():
        np.testing.assert_allclose(memory[name], value, atol=2e-5)


def test_memory_holds_the_newest_places_and_no_gradient():
    model = build(memory_length=5)
    first, second = segments(stream(), 12, 12)
    _, memory = model(first)
    np.testing.assert_array_equal(
        memory["memory_indices"][..., 0], first["stream_token"][:, -5:]
    )
    memory = {name: tf.convert_to_tensor(value) for name, value in memory.items()}
    with tf.GradientTape() as tape:
        tape.watch(memory["memory_hidden"])
        output, after = model({**second, **memory})
        total = tf.reduce_sum(after["memory_hidden"] ** 2)
    assert tape.gradient(total, memory["memory_hidden"]) is None
    np.testing.assert_array_equal(
        after["memory_indices"][..., 2], second["stream_paragraph"][:, -5:]
    )
    # The inputs of the layers, of which the first is the words themselves.
    words = model.token_embedding(second["token_ids"][:, -5:])
    np.testing.assert_allclose(after["memory_hidden"][:, 0], words, atol=1e-6)
    assert output.shape == (2, 12, 14)


@pytest.mark.parametrize(
    "changed", ["token_ids", "stream_sentence", "stream_paragraph"]
)
@pytest.mark.parametrize("place", [0, 11, 23])
def test_what_comes_after_changes_not_one_bit(changed, place):
    model, features = _built(), stream()
    before, _ = model(features)
    features = {**features, changed: features[changed].copy()}
    after = features[changed][:, place:]
    if changed == "token_ids":
        after[:] = (after + 1 + np.arange(LENGTH - place)) % VOCAB_SIZE
    else:
        after[:] += 1 + np.arange(LENGTH - place) // 2
    after, _ = model(features)
    np.testing.assert_array_equal(after[:, :place], before[:, :place])
    if changed == "token_ids" or place:
        # Shifted from the first place on, distances are the same.
        assert (np.array(after[:, place:]) != np.array(before[:, place:])).any()
