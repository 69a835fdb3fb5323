"""Training steps of any run on a made batch, on the installed engine."""

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
    """A function that makes one update and waits for it.

    Args:
        config: the run; its rows are the batch's rows.
        vocab_size: entries of the vocabulary.
        batch: what every update is made of.
        distribution: the processes of the run; None is this process only.
    """
    learner = build.build_learner_from_batch(config, vocab_size, batch, distribution)
    batches = itertools.repeat(batch)

    def update() -> int:
        learner.make_update(batches)
        return learner.updates  # reading it waits for the weights

    return update
