"""Which record is sample k of epoch e: a pure function of (seed, e, k).

A run consumes samples 0, 1, 2, …; with n records, sample c is number `c % n` of
epoch `c // n`. Each epoch is a permutation of the records that is computed entry by
entry (a keyed cipher), so nothing is shuffled in a buffer, any sample can be had at
once, and a checkpoint needs to store one integer.
"""

import tensorflow as tf

from data_pipelines import randomness


def epochs_and_records(
    samples: tf.Tensor, num_records: int, seed: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """The epoch and the record number of each sample of a run.

    Args:
        samples: int64 tensor `(B,)`, sample numbers counted from the run's start.
        num_records: records of the split; at least 1.
        seed: the run's seed.

    Returns:
        Two int64 tensors `(B,)`.
    """
    epochs = samples // num_records
    positions = samples % num_records
    if num_records == 1:
        return epochs, positions
    stream = randomness.key(seed, randomness.SAMPLE_ORDER)
    words = tf.bitcast(randomness.extend_key(stream, epochs), tf.int32)
    # The raw operator: the public wrapper pads batched seeds along the batch. One entry
    # more, since it refuses a batch of none.
    records = tf.raw_ops.RandomIndexShuffle(
        index=tf.pad(positions, [[0, 1]]),
        seed=tf.pad(words, [[0, 1], [1, 0]]),
        max_index=tf.constant(num_records - 1, tf.int64),
        rounds=4,
    )
    return epochs, records[:-1]


def rank_samples(
    step: tf.Tensor, first_sample: int, batch_size: int, rank: int, num_ranks: int
) -> tf.Tensor:
    """The samples that a rank takes of a step's global batch.

    The global batch of a step is the same for any number of ranks; they split it
    without overlap or loss.

    Args:
        step: int64 scalar, counted from where the run (re)started.
        first_sample: samples consumed before.
        batch_size: rows of the global batch; a multiple of `num_ranks`.
        rank: this rank.
        num_ranks: number of ranks.

    Returns:
        int64 tensor `(batch_size / num_ranks,)`.
    """
    rows = batch_size // num_ranks
    begin = first_sample + step * batch_size + rank * rows
    return begin + tf.range(rows, dtype=tf.int64)


def check_split(batch_size: int, rank: int, num_ranks: int) -> None:
    """Raises ValueError unless the ranks can share a batch in equal parts."""
    if not 0 <= rank < num_ranks:
        raise ValueError(
            f"`rank` must be below `num_ranks`. Received: rank={rank}, "
            f"num_ranks={num_ranks}"
        )
    if batch_size < 1 or batch_size % num_ranks:
        raise ValueError(
            "`batch_size` (of all ranks together) must be a multiple of `num_ranks`. "
            f"Received: batch_size={batch_size}, num_ranks={num_ranks}"
        )
