"""Batches of rows: which examples come together, and how they reach Keras.

Shape key: E examples, R sizes that a row has.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

# Numbers of the examples and the shape of their rows -> features, with or without
# labels.
MakeBatch = Callable[[np.ndarray, tuple[int, ...]], Any]

_PREFETCHED_BATCHES = 2


def row_batches(
    make_batch: MakeBatch,
    row_shapes: np.ndarray,
    batch_size: int,
    seed: int | None,
    by_shape: bool = True,
) -> tf.data.Dataset:
    """A finite dataset of batches, gone through in a new order each time.

    Args:
        make_batch: makes a batch of some examples: a nested structure of arrays.
        row_shapes: int array `(E, R)`, the smallest row that takes each example.
        batch_size: examples of a batch; the last one may have fewer.
        seed: of the orders; None keeps the order of the examples.
        by_shape: whether a random batch is of examples whose rows have one shape, which
            saves padding, or of any.

    Returns:
        Dataset of what `make_batch` gives.

    Raises:
        ValueError: if batches would be empty.
    """
    if batch_size < 1:
        raise ValueError(
            f"`batch_size` must be at least 1. Received: batch_size={batch_size}"
        )
    times = itertools.count()

    def of(numbers: np.ndarray) -> Any:
        row_shape = tuple(row_shapes[numbers].max(axis=0).tolist())
        return make_batch(numbers, row_shape)

    def go_through() -> Iterator[Any]:
        numbers = np.arange(len(row_shapes))
        if seed is None:
            yield from map(of, _cut(numbers, batch_size))
            return
        generator = np.random.default_rng((seed, next(times)))
        if by_shape:
            batches = shuffled(row_shapes, batch_size, generator)
        else:
            batches = _cut(generator.permutation(numbers), batch_size)
        yield from map(of, batches)

    signature = keras.tree.map_structure(
        lambda array: tf.TensorSpec([None] * array.ndim, array.dtype),
        of(np.arange(1)),
    )
    dataset = tf.data.Dataset.from_generator(go_through, output_signature=signature)
    num_batches = -(-len(row_shapes) // batch_size)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(num_batches))
    return dataset.prefetch(_PREFETCHED_BATCHES)


def shuffled(
    row_shapes: np.ndarray, batch_size: int, generator: np.random.Generator
) -> Sequence[np.ndarray]:
    """Batches in random order, of examples whose rows have one shape wherever it goes.

    What is left of each shape is put together with its neighbours, so that there are
    `ceil(E / batch_size)` batches, all but one of them full.

    Args:
        row_shapes: int array `(E, R)`.
        batch_size: examples of a batch.
        generator: what order and company are drawn from.

    Returns:
        Numbers of the examples of each batch.
    """
    order = generator.permutation(len(row_shapes))
    _, kinds = np.unique(row_shapes[order], axis=0, return_inverse=True)
    batches, left = [], []
    for kind in range(kinds.max() + 1):
        of_kind = order[kinds.reshape(-1) == kind]
        num_full = len(of_kind) // batch_size * batch_size
        batches += _cut(of_kind[:num_full], batch_size)
        left.append(of_kind[num_full:])
    batches += _cut(np.concatenate(left), batch_size)
    return [batches[number] for number in generator.permutation(len(batches))]


def _cut(numbers: np.ndarray, batch_size: int) -> list[np.ndarray]:
    return [
        numbers[begin : begin + batch_size]
        for begin in range(0, len(numbers), batch_size)
    ]
