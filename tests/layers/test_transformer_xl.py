"""Relative attention with memory, against loops."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layers.transformer_xl import (
    PARTS,
    RelativePositions,
    SegmentRelativeAttention,
)
from tests import numpy_relative_attention as reference
from tests import official_models
from tests.conformance.case import set_fixed_weights, waves
from tests.numpy_reference import named_weights

pytestmark = pytest.mark.slow
HEADS, HEAD_SIZE, WIDTH = 2, 3, 14
ABLATIONS = [
    PARTS,
    ("token", "sentence"),
    ("token", "paragraph"),
    ("token",),
    ("sentence", "paragraph"),
]
# Sentence and paragraph of eleven tokens: seven in the memory, four in the segment.
COUNTERS = {
    "a stream": ([5, 5, 5, 6, 6, 7, 7, 8, 8, 8, 9], [2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4]),
    "restarting": (
        [0, 0, 1, 2, 0, 1, 1, 2, 0, 0, 1],
        [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2],
    ),
    "jumping": (
        [3, 40, 40, 7, 7, 7, 90, 2, 2, 61, 61],
        [9, 9, 0, 0, 33, 33, 5, 5, 5, 8, 1],
    ),
    "all different": (list(range(20, 31)), list(range(11))),
    "all the same": ([4] * 11, [1] * 11),
}


def stream_indices(counters, first_token=100):
    """Indices (11, 3) of consecutive tokens."""
    sentences, paragraphs = counters
    tokens = first_token + np.arange(len(sentences))
    return np.stack([tokens, sentences, paragraphs], axis=-1).astype("int32")


def hidden_states(batch, length):
    return 2 * waves((batch, length, WIDTH), 0) - 1


def split(values, memory_length=7):
    return values[:, memory_length:], values[:, :memory_length]


def stream_inputs(name="a stream", first_token=100):
    """Hidden states, memory, indices and memory indices of a row."""
    indices = stream_indices(COUNTERS[name], first_token)[None]
    return [*split(hidden_states(1, 11)), *split(indices)]


class Attention:
    """An attention layer with fixed weights, its positions and biases."""

    def __init__(self, parts=PARTS, **arguments):
        self.parts = parts
        settings = {"width": WIDTH, "parts": parts, **arguments}
        self.positions = RelativePositions(**settings)
        self.layer = SegmentRelativeAttention(HEADS, HEAD_SIZE)
        self.layer.build((None, None, WIDTH))
        set_fixed_weights(self.layer)
        self.biases = [waves((HEADS, HEAD_SIZE), number) for number in (1, 2)]

    def __call__(self, hidden, memory, indices, memory_indices):
        prepared = self.positions(indices, memory_indices)
        return np.asarray(self.layer(hidden, memory, *prepared, *self.biases))

    def expected(self, *inputs):
        weights = named_weights(self.layer)
        return np.stack(
            [
                reference.attention(weights, *row, self.biases, self.parts)
                for row in zip(*inputs, strict=True)
            ]
        )


@pytest.mark.parametrize("static_shapes", [False, True])
@pytest.mark.parametrize("memory_length", [7, 3, 0])
@pytest.mark.parametrize("parts", ABLATIONS, ids="-".join)
def test_equals_loops(parts, memory_length, static_shapes):
    attention = Attention(parts, static_shapes=static_shapes)
    indices = np.stack([stream_indices(counters) for counters in COUNTERS.values()])
    hidden = hidden_states(len(COUNTERS), 11)
    inputs = (*split(hidden, memory_length), *split(indices, memory_length))
    expected = attention.expected(*inputs)
    np.testing.assert_allclose(attention(*inputs), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("memory_tokens", "num_visible"),
    [
        pytest.param(range(93, 100), 7, id="before the segment"),
        pytest.param([-(2**31)] * 7, 0, id="never filled"),
        pytest.param([-(2**31)] * 4 + [97, 98, 99], 3, id="partly filled"),
        pytest.param(range(50, 57), 0, id="from elsewhere"),
        pytest.param(range(92, 99), 0, id="one token missing"),
    ],
)
def test_memory_from_elsewhere_is_invisible(memory_tokens, num_visible):
    attention = Attention()
    hidden, memory, indices, memory_indices = stream_inputs(first_token=93)
    memory_indices = memory_indices.copy()
    memory_indices[0, :, 0] = list(memory_tokens)
    rest = slice(7 - num_visible, None)
    np.testing.assert_allclose(
        attention(hidden, memory, indices, memory_indices),
        attention(hidden, memory[:, rest], indices, memory_indices[:, rest]),
        atol=1e-6,
    )


def test_counters_may_overflow():
    attention = Attention()
    inputs = stream_inputs()
    near_the_end = np.array([2**31 - 109, 2**31 - 6, 2**31 - 3])
    moved = [
        (part.astype("int64") + near_the_end).astype("int32") for part in inputs[2:]
    ]
    assert moved[0].min() < 0 < moved[1].max()
    np.testing.assert_allclose(
        attention(*inputs[:2], *moved), attention(*inputs), atol=1e-6
    )


@pytest.mark.parametrize("memory_length", [7, 0])
def test_tokens_only_equal_the_attention_of_tf_models_official(memory_length):
    attention = Attention(("token",))
    weights = named_weights(attention.layer)
    indices = stream_indices(COUNTERS["jumping"])[None]
    hidden, memory = split(hidden_states(1, 11), memory_length)
    # It needs one more distance, where our shift pads.
    vectors = np.stack([reference.sinusoid(k, WIDTH) for k in range(11, -1, -1)])
    last_key = memory_length + np.arange(hidden.shape[1])[None, :, None]
    arguments = {
        "query": hidden,
        "value": hidden,
        "content_attention_bias": attention.biases[0],
        "positional_attention_bias": attention.biases[1],
        "relative_position_encoding": vectors[None].astype("float32"),
        "state": memory,
        "attention_mask": np.arange(11)[None, None] <= last_key,
    }
    arguments = {name: tf.constant(value) for name, value in arguments.items()}
    layer = official_models.nlp_layer("MultiHeadRelativeAttention")(
        num_heads=HEADS, key_dim=HEAD_SIZE, use_bias=False
    )
    layer(**arguments)
    names = {"attention_output": "output", "encoding": "position"}
    for kernel in layer.weights:
        name = kernel.name.split("/")[-2]
        kernel.assign(weights[f"{names.get(name, name)}_kernel"])
    outputs = attention(hidden, memory, *split(indices, memory_length))
    np.testing.assert_allclose(outputs, layer(**arguments), atol=1e-5)


@pytest.mark.parametrize("static_shapes", [False, True])
def test_dropout_of_position_vectors_is_unbiased(static_shapes):
    attention = Attention(dropout=0.25, static_shapes=static_shapes)
    _, _, indices, memory_indices = stream_inputs()
    query, key = (keras.ops.ones((1, HEADS, n, HEAD_SIZE)) for n in (4, 11))
    kernel = attention.layer.position_kernel

    @tf.function
    def logits(training):
        positions, _ = attention.positions(indices, memory_indices, training=training)
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
