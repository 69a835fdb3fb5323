"""Builds a run's inputs and learner. Only the inputs import TensorFlow."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import keras
import numpy as np

# Importing these modules registers the classes that configs name.
import seg_tf.models
import seg_tf.objectives
import seg_tf.training.optimizers  # noqa: F401
from seg_tf.config import RunConfig, TrainingConfig, build_from
from seg_tf.layers.common import under_dtype_policy
from seg_tf.training import engine
from seg_tf.training.distribution import Distribution
from seg_tf.training.learner import Learner
from seg_tf.training.step import Features, LaneMemory, NoLossScale, StepOptions

if TYPE_CHECKING:
    import tensorflow as tf

    from seg_tf.data.record_sources import RecordSource
    from seg_tf.text.encoding import TextPreparation

# Tensor cores need rows that begin at multiples of 16 bytes, 8 half-precision numbers.
_MULTIPLE_ON_GPU = 8


class Inputs(Protocol):
    """Interface of a run's inputs. The run's seed determines the order of samples.

    Attributes:
        sources: dict. The sources of a mixture by name, empty for other inputs. Each
            has a `weight`, `inputs`, and a function `num_samples` that maps a number of
            mixture samples to the number drawn from the source.
        vocab_size: int. Size of the records' vocabulary.
        vocab_checksum: str. SHA-256 of the records' vocabulary.
        text_preparation: conversion from text to ids, for checkpoints, or None.
        num_train_samples: int. Number of samples (rows) per epoch.
        num_validation_samples: int. Number of held-out samples.
        fill: float. Fraction of training batch positions that are not padding.
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
        """Returns an infinite dataset of a rank's rows, dicts of tensors `(rows, …)`.

        Args:
            batch_size: int. Number of rows in the global batch.
            first_sample: int. Number of samples that the run has consumed.
            rank: int. This process's rank.
            num_ranks: int. Number of ranks.
            micro_batch_size: int. Divides the number of rows of every rank. If None,
                all ranks get the same number of rows.
        """

    def validation_dataset(
        self,
        batch_size: int,
        max_samples: int | None = None,
        *,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> tf.data.Dataset:
        """Returns a finite dataset of a rank's held-out rows, in a fixed order.

        `batch_size` and `max_samples` (None for all) count the rows of all ranks. Each
        rank gets the same number of batches.
        """

    def describe_sample(self, sample: int) -> str:
        """Describes a training sample's position in the records, for messages."""


def build_inputs(
    config: RunConfig,
    records: str | pathlib.Path | Mapping[str, RecordSource],
    distribution: Distribution | None = None,
) -> Inputs:
    """Builds the input pipeline of a run for `distribution`, by default one process.

    `records` is a value of `--records_dir` or the result of `record_sources.parse`.
    Raises a `ValueError` if records are missing or damaged, or cannot be mixed.
    """
    from seg_tf.data import record_sources
    from seg_tf.data.inputs import MixtureInputs

    def read(folder: pathlib.Path) -> Any:
        return build_from(
            config.inputs,
            records_dir=str(folder),
            seed=config.training.seed,
            **config.model.inputs_arguments,
        )

    sources = (
        records if isinstance(records, Mapping) else record_sources.parse(str(records))
    )
    inputs: Inputs
    if len(sources) == 1:
        inputs = read(next(iter(sources.values())).folder)
    elif not getattr(config.inputs, "can_mix", False):
        raise ValueError(
            "`--records_dir` must be one folder, for the inputs of the config, "
            f"{type(config.inputs).__name__}, read one stream. Build one from all "
            "texts. Received: "
            + ", ".join(str(source.folder) for source in sources.values())
        )
    else:
        inputs = MixtureInputs(
            folders={name: source.folder for name, source in sources.items()},
            weights={name: source.weight for name, source in sources.items()},
            read=read,
        )
    # Damaged shards raise here, before anything is written.
    distribution = distribution or Distribution()
    train_dataset(inputs, config.training, 0, distribution)
    validation_datasets(inputs, config.training, distribution)
    return inputs


def train_dataset(
    inputs: Inputs,
    settings: TrainingConfig,
    first_sample: int,
    distribution: Distribution,
) -> tf.data.Dataset:
    """Returns this process's infinite training dataset, starting at `first_sample`."""
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
    """Returns this process's validation datasets by source name.

    Without a mixture, the only name is "". Without validation, the dict is empty. Every
    process gets the same number of micro-batches. The samples do not depend on the
    number of processes.
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


def build_learner(
    config: RunConfig, inputs: Inputs, distribution: Distribution | None = None
) -> Learner:
    """Builds a run's `Learner` for `inputs`. See `build_learner_from_batch`."""
    distribution = distribution or Distribution()
    spec = train_dataset(inputs, config.training, 0, distribution).element_spec
    batch = {
        name: np.zeros([1, *feature.shape[1:]], feature.dtype.as_numpy_dtype)
        for name, feature in spec.items()
    }
    vocab_size = config.model.vocab_size or inputs.vocab_size
    return build_learner_from_batch(config, vocab_size, batch, distribution)


def build_learner_from_batch(
    config: RunConfig,
    vocab_size: int,
    batch: Features,
    distribution: Distribution | None = None,
) -> Learner:
    """Builds a run's `Learner`, with model, objectives and optimizer.

    Sets Keras's global seed to `config.training.seed`. `batch` has the features of the
    training batches. Its values and number of rows do not matter. Raises a `ValueError`
    if `recompute_layers` is true for a model that does not support it.
    """
    settings, model = config.training, config.model
    if settings.recompute_layers and not hasattr(model, "recomputing_arguments"):
        raise ValueError(
            "`recompute_layers` needs a model that can recompute its layers. Received: "
            f"recompute_layers=True, model of {type(model).__name__}"
        )
    keras.utils.set_random_seed(settings.seed)
    with under_dtype_policy(settings.dtype_policy):
        encoder = build_from(
            model,
            vocab_size=vocab_size,
            **config.inputs.model_arguments,
            **_engine_arguments(model, settings),
            **(model.recomputing_arguments if settings.recompute_layers else {}),
        )
        objectives = {
            name: build_from(
                objective, encoder=encoder, **_engine_arguments(objective, settings)
            )
            for name, objective in config.objectives.items()
        }
        memories = [LaneMemory(), LaneMemory()]
        if hasattr(encoder, "initial_memory"):
            memories = [
                LaneMemory(encoder.initial_memory(num_lanes))
                for num_lanes in (settings.batch_size, config.inputs.validation_lanes)
            ]
        needs_scale = settings.dtype_policy == "mixed_float16"
        return Learner(
            encoder,
            objectives,
            build_from(config.optimizer, num_updates=settings.num_updates),
            batch,
            options=StepOptions(
                micro_batch_size=settings.micro_batch_size,
                clip_norm=settings.clip_norm,
                loss_scale=(
                    build_from(settings.loss_scale) if needs_scale else NoLossScale()
                ),
                compress_gradients=settings.compress_gradients,
                gradient_groups=settings.gradient_groups,
                jit_compile=engine.current().compiles(settings),
                seed=settings.seed,
                distribution=distribution or Distribution(),
            ),
            max_skipped_steps=settings.max_skipped_steps,
            memory=memories[0],
            validation_memory=memories[1],
        )


def _engine_arguments(config: Any, settings: TrainingConfig) -> dict[str, Any]:
    """Returns arguments that make a model or objective faster on the current engine."""
    arguments: dict[str, Any] = {}
    if engine.current().compiles(settings):
        arguments |= getattr(config, "compiled_arguments", {})
    if getattr(config, "pads_vocabulary", False):
        on_gpu = engine.current().has_gpu()
        arguments["vocab_multiple"] = settings.vocab_multiple or (
            _MULTIPLE_ON_GPU if on_gpu else 1
        )
    return arguments
