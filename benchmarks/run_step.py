"""Training steps of any run on a given batch, with the selected Keras backend."""

import itertools
from collections.abc import Callable

from benchmarks.made_batches import Batch
from seg_tf.config import RunConfig
from seg_tf.training import build
from seg_tf.training.distribution import Distribution


def training_step(
    config: RunConfig,
    vocab_size: int,
    batch: Batch,
    distribution: Distribution | None = None,
) -> Callable[[], object]:
    """Returns a function that makes one update and waits for it.

    Args:
        config: the run. Its batch size must be the number of rows in `batch`.
        vocab_size: size of the vocabulary.
        batch: the batch of every update.
        distribution: the processes of the run. Default: only this process.
    """
    learner = build.build_learner_from_batch(config, vocab_size, batch, distribution)
    batches = itertools.repeat(batch)

    def update() -> int:
        learner.make_update(batches)
        return learner.updates  # reading it waits for the weights

    return update
