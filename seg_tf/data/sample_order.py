"""Maps sample k of epoch e to a record, as a pure function of (seed, e, k).

A run consumes samples 0, 1, 2, and so on. With n records, sample c is number `c % n` of
epoch `c // n`. Each epoch is a permutation of the records, computed entry by entry with
a keyed cipher. No shuffle buffer is needed, and a checkpoint stores one integer.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from seg_tf.data import randomness


@dataclasses.dataclass(frozen=True)
class Share:
    """Rows of a global batch that a rank reads: `num_rows` rows from `first_row` on."""

    batch_size: int
    first_row: int
    num_rows: int


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Order of an epoch that mixes the records of `at_once` blocks of `size` records.

    Blocks of consecutive records are permuted and grouped, and the records of each
    group are permuted. An incomplete block is always in the last group.
    """

    size: int
    at_once: int

    @property
    def group_size(self) -> int:
        return self.size * self.at_once


def share_of_rank(
    batch_size: int,
    rank: int = 0,
    num_ranks: int = 1,
    micro_batch_size: int | None = None,
) -> Share:
    """Returns the rows of the global batch that `rank` reads.

    Whole micro-batches are distributed among the ranks as evenly as possible. If
    `micro_batch_size` is None, all ranks read the same number of rows. Raises a
    ValueError if the batch cannot be split this way.
    """
    num_micro_batches = num_ranks
    if micro_batch_size is None:
        micro_batch_size, rest = divmod(batch_size, num_ranks)
    else:
        num_micro_batches, rest = divmod(batch_size, micro_batch_size)
    if rest or not micro_batch_size or num_micro_batches < num_ranks:
        raise ValueError(
            "`batch_size` must be a multiple of `micro_batch_size`, or of `num_ranks` "
            "without it, with a micro-batch for every rank. Received: "
            f"batch_size={batch_size}, micro_batch_size={micro_batch_size}, "
            f"num_ranks={num_ranks}"
        )
    first, end = (
        num_micro_batches * number // num_ranks for number in (rank, rank + 1)
    )
    return Share(batch_size, first * micro_batch_size, (end - first) * micro_batch_size)


def rank_samples(step: tf.Tensor, first_sample: int, share: Share) -> tf.Tensor:
    """Returns the numbers of a rank's samples at a step, int64 `(num_rows,)`."""
    begin = first_sample + step * share.batch_size + share.first_row
    return begin + tf.range(share.num_rows, dtype=tf.int64)


def epochs_and_records(
    samples: tf.Tensor, num_records: int, seed: int, blocks: Blocks | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the epoch and the record number of each sample, both int64 `(B,)`.

    If `blocks` is None, all records of an epoch are permuted together.
    """
    epochs = samples // num_records
    positions = samples % num_records
    stream = randomness.key(seed, randomness.SAMPLE_ORDER)
    streams = randomness.extend_key(stream, epochs)
    if blocks is None:
        return epochs, permuted(positions, streams, num_records)
    groups, places = positions // blocks.group_size, positions % blocks.group_size
    # 0 names the order of the blocks.
    group_streams = randomness.extend_key(streams, groups + 1)
    num_groups, rest = divmod(num_records, blocks.group_size)
    shuffled = places
    if num_groups:
        shuffled = permuted(places, group_streams, blocks.group_size)
    if rest:
        in_rest = permuted(places % rest, group_streams, rest)
        shuffled = tf.where(groups == num_groups, in_rest, shuffled)
    in_order = groups * blocks.group_size + shuffled
    block, place = in_order // blocks.size, in_order % blocks.size
    if num_blocks := num_records // blocks.size:
        block_streams = randomness.extend_key(streams, 0)
        moved = permuted(tf.minimum(block, num_blocks - 1), block_streams, num_blocks)
        block = tf.where(block < num_blocks, moved, block)
    return epochs, block * blocks.size + place


def permuted(positions: tf.Tensor, streams: tf.Tensor, count: int) -> tf.Tensor:
    """Looks up positions in pseudorandom permutations of 0 … count - 1.

    `positions`, int64 `(B,)`, are below `count`. Each of the `streams`, uint64 `(B,)`,
    determines a permutation. Returns int64 `(B,)`.
    """
    if count == 1:
        return positions
    # TensorFlow's shuffle is not a permutation for 4^8 + 1, 4^9 + 1, … entries. Its
    # cipher has one bit too few and treats the largest index as 0.
    largest = count - 1
    bits = largest.bit_length() - 1
    if largest != 1 << bits or bits < 16 or bits % 2:
        return _shuffled(positions, streams, count)
    # Use a permutation of one more entry, and remove the last entry from its cycle:
    # its predecessor is mapped to its successor.
    numbers = _shuffled(positions, streams, count + 1)
    return tf.where(numbers == count, _shuffled(numbers, streams, count + 1), numbers)


def _shuffled(positions: tf.Tensor, streams: tf.Tensor, count: int) -> tf.Tensor:
    # The public wrapper pads batched seeds along the batch, unlike the raw operator,
    # which rejects empty batches and therefore gets one more entry.
    return tf.raw_ops.RandomIndexShuffle(
        index=tf.pad(positions, [[0, 1]]),
        seed=tf.pad(tf.bitcast(streams, tf.int32), [[0, 1], [1, 0]]),
        max_index=tf.constant(count - 1, tf.int64),
        rounds=4,
    )[:-1]


class MixtureOrder:
    """Maps samples of a mixture to samples of its sources, without state.

    With weights w, samples are read in blocks of sum(w). All blocks have the same
    order, in which the w_i samples of source i are spread evenly: sample j of w_i is
    placed at about (j + 1/2) / w_i of the block (Sainte-Laguë method). For example,
    weights 3, 1 and 2 give blocks with the sources 0 2 0 1 2 0. An epoch has as many
    whole blocks as are needed to read every source completely.
    """

    def __init__(self, weights: Sequence[int]):
        self._weights = np.array(weights, np.int64)
        ranks = [np.arange(weight) for weight in weights]
        shares = [
            (2 * rank + 1) / weight for rank, weight in zip(ranks, weights, strict=True)
        ]
        # Ties are resolved in the order of the sources.
        order = np.argsort(np.concatenate(shares), kind="stable")
        self._sources = np.repeat(np.arange(len(weights)), weights)[order]
        self._ranks = np.concatenate(ranks)[order]

    def __call__(self, samples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns each sample's source and number in the source, both int64 `(B,)`."""
        places = samples % len(self._sources)
        sources = tf.gather(self._sources, places)
        before = samples // len(self._sources) * tf.gather(self._weights, sources)
        return sources, before + tf.gather(self._ranks, places)

    def counts(self, num_samples: int) -> list[int]:
        """Counts the samples of each source among the first `num_samples`."""
        blocks, rest = divmod(num_samples, len(self._sources))
        in_rest = np.bincount(self._sources[:rest], minlength=len(self._weights))
        counts: list[int] = (blocks * self._weights + in_rest).tolist()
        return counts

    def epoch(self, sizes: Sequence[int]) -> int:
        """Returns the number of samples in an epoch, given the sources' `sizes`."""
        blocks = max(
            -(-size // weight)
            for size, weight in zip(sizes, self._weights.tolist(), strict=True)
        )
        return int(blocks) * len(self._sources)
