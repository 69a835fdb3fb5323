"""Segments, memories and their indices, for whatever reads them."""

from typing import Any, NamedTuple

import keras
import numpy as np

from seg_tf.layers.transformer_xl import (
    PARTS,
    RelativePositions,
    SegmentRelativeAttention,
)
from seg_tf.ops import relative_logits
from tests.conformance.case import set_fixed_weights, waves
from tests.numpy_reference import named_weights

HEADS, HEAD_SIZE, WIDTH = 2, 3, 14

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


def hidden_states(batch, length, number=0, width=WIDTH):
    return 2 * waves((batch, length, width), number) - 1


class _ReleasedVectors(NamedTuple):
    vectors: Any

    def logits(self, content_query, key, position_query, kernel):
        vectors = keras.ops.einsum("bkd,dhe->bkhe", self.vectors, kernel)
        products = keras.ops.einsum("bhte,bkhe->bhtk", position_query, vectors)
        content = keras.ops.matmul(content_query, keras.ops.swapaxes(key, 2, 3))
        return content + relative_logits.shift(products)


class ReleasedPositions(RelativePositions):
    """Positions as the authors' code computes them instead of eq. 3.

    Every key's indices are subtracted from the largest there are, not from the query's,
    and the products are shifted as if they rose by one from key to key. So a query gets
    the profile of boundaries that the row's last word sees.
    """

    def call(self, indices, memory_indices):
        _, mask = super().call(indices, memory_indices)
        keys = keras.ops.concatenate([memory_indices, indices], axis=1)
        distances = keras.ops.max(keys, axis=1, keepdims=True) - keys
        vectors = [
            self._vectors(part, distances[..., PARTS.index(part)], None)
            for part in self.parts
        ]
        return _ReleasedVectors(keras.ops.concatenate(vectors, axis=-1)), mask


class Attention:
    """An attention layer with its positions and biases, on numbers of its own."""

    def __init__(
        self,
        parts=PARTS,
        dtype=None,
        width=WIDTH,
        positions=RelativePositions,
        **arguments,
    ):
        self.parts = parts
        self.positions = positions(width, parts, dtype=dtype, **arguments)
        self.layer = SegmentRelativeAttention(HEADS, HEAD_SIZE, dtype=dtype)
        self.layer.build((None, None, width))
        set_fixed_weights(self.layer)
        self.biases = [waves((HEADS, HEAD_SIZE), number) for number in (1, 2)]

    def __call__(self, hidden, memory, indices, memory_indices):
        positions, mask = self.positions(indices, memory_indices)
        return self.layer(hidden, memory, positions, mask, *self.biases)

    def numpy(self, hidden, memory, indices, memory_indices):
        return keras.ops.convert_to_numpy(self(hidden, memory, indices, memory_indices))

    def arguments(self):
        """Weights that the NumPy form needs beside the inputs."""
        return named_weights(self.layer), self.biases, self.parts
