"""The draws of dropout on JAX."""

import numpy as np

from seg_tf.layers.common import hashed_bits


def mixed(number):
    """The finaliser of MurmurHash3 in Python's integers."""
    number ^= number >> 16
    number = number * 0x85EBCA6B % 2**32
    number ^= number >> 13
    number = number * 0xC2B2AE35 % 2**32
    return number ^ number >> 16


def drawn(shape, *seed):
    return np.asarray(hashed_bits(shape, np.array(seed)))


def test_bits_are_hashes_of_number_and_seed():
    bits = drawn((3, 5), 7, 2**31 - 1)
    expected = [mixed(mixed(n ^ 7) ^ 2**31 - 1) for n in range(15)]
    np.testing.assert_array_equal(bits, np.reshape(expected, (3, 5)))


def test_bits_are_uniform_and_independent_of_their_neighbours_and_other_seeds():
    count = 2**20
    # Successive states of a generator, and of the next one.
    seeds = [(1, 0), (1, 1), (2, 0), (2**31 - 1, 5)]
    bits = np.stack([drawn((count,), *seed) for seed in seeds])
    bytes_of_bits = bits.view("uint8").reshape(len(seeds), count, 4)
    for row in np.moveaxis(bytes_of_bits, 1, -1).reshape(-1, count):
        counts = np.bincount(row, minlength=256)
        chi_square = np.sum((counts - count / 256) ** 2 / (count / 256))
        assert abs(chi_square - 255) < 5 * np.sqrt(2 * 255)
    kept = (bits >= 0.1 * 2**32) - 0.9
    kept /= np.sqrt(0.09)
    for other in range(1, len(seeds)):
        assert abs(np.mean(kept[0] * kept[other])) < 5 / np.sqrt(count)
    for distance in (1, 2, 64, 512, 768, 3072, 2**16):
        product = np.mean(kept[:, distance:] * kept[:, :-distance], axis=1)
        assert np.abs(product).max() < 5.5 / np.sqrt(count)
