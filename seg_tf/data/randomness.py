"""Random numbers computed by hashing integers, without state.

The hashed integers (seed, purpose, epoch, sample, position, …) are called names. NumPy
(in builds) and TensorFlow (in input pipelines) compute the same numbers. The hash is
splitmix64 (Steele, Lea and Flood, 2014: "Fast splittable pseudorandom number
generators"). Number i of the stream `key` is `finalize(key + (i + 1) * GAMMA)`.
"""

import numpy as np
import tensorflow as tf

_GAMMA = 0x9E3779B97F4A7C15
_MULTIPLIER_1 = 0xBF58476D1CE4E5B9
_MULTIPLIER_2 = 0x94D049BB133111EB
_MASK = (1 << 64) - 1

# Draws for different purposes are independent.
SHORT_WINDOWS = 1
SENTENCE_PERMUTATION = 2
MASKED_POSITIONS = 3
MASKED_REPLACEMENTS = 4
SAMPLE_ORDER = 5
TRAINING_SAMPLES = 6
VALIDATION_SAMPLES = 7
PACKING = 8
SENTENCE_MERGES = 9
WHETHER_SHUFFLED = 10
SENTENCE_ORDER = 11
EXCHANGED_SENTENCES = 12
LONG_TEXTS = 13


def key(*names: int) -> int:
    """Hashes names, such as seed and epoch, to a 64-bit int that selects a stream."""
    value = 0
    for name in names:
        value = (value + (int(name) + 1) * _GAMMA) & _MASK
        value = ((value ^ (value >> 30)) * _MULTIPLIER_1) & _MASK
        value = ((value ^ (value >> 27)) * _MULTIPLIER_2) & _MASK
        value ^= value >> 31
    return value


def uniform_integers(stream: int, count: int) -> np.ndarray:
    """Returns the first `count` numbers of a stream, a uint64 array `(count,)`."""
    with np.errstate(over="ignore"):
        counters = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GAMMA)
        bits = counters + np.uint64(stream)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(_MULTIPLIER_1)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(_MULTIPLIER_2)
        return bits ^ (bits >> np.uint64(31))


def extend_key(stream: int | tf.Tensor, names: int | tf.Tensor) -> tf.Tensor:
    """Hashes one more name into each stream, like `key`. Returns uint64 streams."""
    stream, names = (
        value if tf.is_tensor(value) else _uint64(value) for value in (stream, names)
    )
    counters = (tf.cast(names, tf.uint64) + _uint64(1)) * _uint64(_GAMMA)
    return _finalize(stream + counters)


def uniform_integers_like(streams: tf.Tensor, count: int | tf.Tensor) -> tf.Tensor:
    """Returns the first `count` numbers of each stream `(B,)`, uint64 `(B, count)`."""
    counters = tf.cast(tf.range(1, count + 1), tf.uint64) * _uint64(_GAMMA)
    return _finalize(streams[:, tf.newaxis] + counters[tf.newaxis, :])


def uniform_floats(integers: tf.Tensor) -> tf.Tensor:
    """Maps the upper 24 bits of uint64 draws exactly to float32 in [0, 1)."""
    upper = tf.bitwise.right_shift(integers, _uint64(40))
    # The cast from uint64 to float is slow. 24 bits fit into int32.
    return tf.cast(tf.cast(upper, tf.int32), tf.float32) * (1.0 / (1 << 24))


def integers_below(integers: tf.Tensor, bound: int | tf.Tensor) -> tf.Tensor:
    """Maps uint64 draws to int32 in [0, bound) with a bias below bound / 2**31."""
    return tf.cast(tf.bitwise.right_shift(integers, _uint64(33)), tf.int32) % bound


def _finalize(bits: tf.Tensor) -> tf.Tensor:
    shift, xor = tf.bitwise.right_shift, tf.bitwise.bitwise_xor
    bits = xor(bits, shift(bits, _uint64(30))) * _uint64(_MULTIPLIER_1)
    bits = xor(bits, shift(bits, _uint64(27))) * _uint64(_MULTIPLIER_2)
    return xor(bits, shift(bits, _uint64(31)))


def _uint64(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint64)
