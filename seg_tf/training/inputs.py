"""Contract between the input pipeline of a run and training."""

from collections.abc import Mapping
from typing import Any, Protocol

import tensorflow as tf

from seg_tf.config import TrainingConfig
from seg_tf.text.encoding import TextPreparation
from seg_tf.training.distribution import Distribution


class Inputs(Protocol):
    """The batches of a run, in an order that the seed of the run fixes.

    Attributes:
        sources: sources of a mixture by name, each with its `weight`, its `inputs` and
            `num_samples`, which maps a number of samples of the mixture to those of
            the source; empty for other inputs.
        vocab_size: entries of the vocabulary of the records.
        vocab_checksum: SHA-256 of that vocabulary.
        text_preparation: steps from text to ids, for checkpoints; None if unknown.
        num_train_samples: samples, which are rows, of an epoch.
        num_validation_samples: held-out samples.
        fill: share of the positions of a training batch that are no padding.
    """

    @property
    def sources(self) -> Mapping[str, Any]: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def vocab_checksum(self) -> str: ...
    @property
    def text_preparation(self) -> TextPreparation | None: ...
    @property
    def num_train_samples(self) -> int: ...
    @property
    def num_validation_samples(self) -> int: ...
    @property
    def fill(self) -> float: ...

    def train_dataset(
        self,
        batch_size: int,
        first_sample: int = 0,
        *,
        rank: int = 0,
        num_ranks: int = 1,
        micro_batch_size: int | None = None,
    ) -> tf.data.Dataset:
        """Endless batches of `{feature name: tensor}` with the rows of a rank.

        Args:
            batch_size: rows of the global batch.
            first_sample: samples that the run has consumed.
            rank: this rank.
            num_ranks: number of ranks.
            micro_batch_size: a rank's rows are a multiple of it; None gives all ranks
                equally many rows.
        """

    def validation_dataset(
        self,
        batch_size: int,
        max_samples: int | None = None,
        *,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> tf.data.Dataset:
        """Held-out batches, the same each time and equally many for every rank."""

    def describe_sample(self, sample: int) -> str:
        """Place of a training sample in the records, for error messages."""


def train_dataset(
    inputs: Inputs,
    settings: TrainingConfig,
    first_sample: int,
    distribution: Distribution,
) -> tf.data.Dataset:
    """This process's rows of all batches from `first_sample` on."""
    return inputs.train_dataset(
        batch_size=settings.batch_size,
        first_sample=first_sample,
        rank=distribution.rank,
        num_ranks=distribution.size,
        micro_batch_size=distribution.local_micro_batch_size(settings.micro_batch_size),
    )


def validation_datasets(
    inputs: Inputs, settings: TrainingConfig, distribution: Distribution
) -> dict[str, tf.data.Dataset]:
    """This process's micro-batches of a validation, equally many on every process.

    One dataset for each source of a mixture, or a single one named ""; nothing if the
    run has no validation. The samples are the same for any number of processes.
    """
    if not settings.validation_interval:
        return {}
    micro_batch_size = settings.micro_batch_size or -(
        -settings.batch_size // distribution.size
    )
    parts = {name: source.inputs for name, source in inputs.sources.items()}
    return {
        name: part.validation_dataset(
            batch_size=micro_batch_size * distribution.size,
            max_samples=settings.validation_batches * settings.batch_size,
            rank=distribution.rank,
            num_ranks=distribution.size,
        )
        for name, part in (parts or {"": inputs}).items()
    }
