"""Builds the inputs and the learner of a run from its config."""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

# Importing these modules registers what configs name.
import seg_tf.models
import seg_tf.objectives
import seg_tf.training.optimizers.optimizer  # noqa: F401
from seg_tf.config import RunConfig, TrainingConfig, build_from
from seg_tf.data import record_sources
from seg_tf.data.inputs import MixtureInputs
from seg_tf.data.record_sources import RecordSource
from seg_tf.training import engine
from seg_tf.training.distribution import Distribution
from seg_tf.training.inputs import Inputs, train_dataset, validation_datasets
from seg_tf.training.learner import Learner
from seg_tf.training.optimizers.loss_scale import NoLossScale
from seg_tf.training.step import Features, NoMemory, StepOptions

# Numbers of half precision in 16 bytes, in which tensor cores read a row.
_MULTIPLE_ON_GPU = 8


def build_inputs(
    config: RunConfig,
    records: str | pathlib.Path | Mapping[str, RecordSource],
    distribution: Distribution | None = None,
) -> Inputs:
    """The input pipeline of a run.

    Args:
        config: the run.
        records: folder of the records, a mixture as in `--records_dir`, or the result
            of `record_sources.parse`.
        distribution: processes of the run; by default only this one.

    Raises:
        ValueError: if the records do not fit the config, or cannot be read, or the
            processes cannot share the batch.
    """

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
    if len(sources) == 1:
        inputs = read(next(iter(sources.values())).folder)
    else:
        inputs = _mixture(config.inputs, sources, read)
    # Damaged shards raise here, before anything is written.
    distribution = distribution or Distribution()
    train_dataset(inputs, config.training, 0, distribution)
    validation_datasets(inputs, config.training, distribution)
    return inputs


def build_learner(
    config: RunConfig, inputs: Inputs, distribution: Distribution | None = None
) -> Learner:
    """Builds model, objectives and optimizer of a run on its records.

    Args:
        config: the run.
        inputs: its input pipeline, which tells shapes and vocabulary.
        distribution: processes of the run; by default only this one.
    """
    processes = distribution or Distribution()
    spec = train_dataset(inputs, config.training, 0, processes).element_spec
    batch = {
        name: np.zeros([1, *one.shape[1:]], one.dtype.as_numpy_dtype)
        for name, one in spec.items()
    }
    vocab_size = config.model.vocab_size or inputs.vocab_size
    return build_learner_from_batch(config, vocab_size, batch, processes)


def build_learner_from_batch(
    config: RunConfig,
    vocab_size: int,
    batch: Features,
    distribution: Distribution | None = None,
) -> Learner:
    """Builds model, objectives and optimizer for batches of one form.

    Initial weights and dropout are those of `config.training.seed`.

    Args:
        config: the run.
        vocab_size: entries of the vocabulary.
        batch: features with the shapes of training and any number of rows; their
            values do not matter.
        distribution: processes of the run; by default only this one.
    """
    settings = config.training
    keras.utils.set_random_seed(settings.seed)
    policy_before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(settings.dtype_policy)
    try:
        encoder = build_from(
            config.model,
            vocab_size=vocab_size,
            **config.inputs.model_arguments,
            **_engine_arguments(config.model, settings),
            **_recomputing_arguments(config.model, settings),
        )
        objectives = {
            name: build_from(
                objective, encoder=encoder, **_engine_arguments(objective, settings)
            )
            for name, objective in config.objectives.items()
        }
        memory, validation_memory = _memories(encoder, config)
        return Learner(
            encoder,
            objectives,
            build_from(config.optimizer, num_updates=settings.num_updates),
            batch,
            options=_step_options(settings, distribution or Distribution()),
            max_skipped_steps=settings.max_skipped_steps,
            memory=memory,
            validation_memory=validation_memory,
        )
    finally:
        keras.config.set_dtype_policy(policy_before)


def _step_options(settings: TrainingConfig, distribution: Distribution) -> StepOptions:
    needs_scale = settings.dtype_policy == "mixed_float16"
    return StepOptions(
        micro_batch_size=settings.micro_batch_size,
        clip_norm=settings.clip_norm,
        loss_scale=(build_from(settings.loss_scale) if needs_scale else NoLossScale()),
        compress_gradients=settings.compress_gradients,
        gradient_groups=settings.gradient_groups,
        jit_compile=engine.current().compiles(settings),
        seed=settings.seed,
        distribution=distribution,
    )


def _engine_arguments(config: Any, settings: TrainingConfig) -> Mapping[str, Any]:
    """Further arguments of a part of the model: how the engine computes it best."""
    arguments: dict[str, Any] = {}
    if engine.current().compiles(settings):
        arguments |= getattr(config, "compiled_arguments", {})
    if getattr(config, "pads_vocabulary", False):
        on_gpu = engine.current().devices.has_gpu()
        arguments["vocab_multiple"] = settings.vocab_multiple or (
            _MULTIPLE_ON_GPU if on_gpu else 1
        )
    return arguments


def _recomputing_arguments(model: Any, settings: TrainingConfig) -> Mapping[str, Any]:
    """Further arguments of a model whose layers the backward pass computes again.

    Raises:
        ValueError: if the model has no such layers.
    """
    if not settings.recompute_layers:
        return {}
    if not hasattr(model, "recomputing_arguments"):
        raise ValueError(
            "`recompute_layers` needs a model that can recompute its layers. Received: "
            f"recompute_layers=True, model of {type(model).__name__}"
        )
    arguments: Mapping[str, Any] = model.recomputing_arguments
    return arguments


def _memories(encoder: Any, config: RunConfig) -> tuple[NoMemory, ...]:
    """The encoder's memories for training and for validation."""
    if not hasattr(encoder, "initial_memory"):
        return NoMemory(), NoMemory()
    num_lanes = (config.training.batch_size, config.inputs.validation_lanes)
    return tuple(
        engine.current().lane_memory(encoder.initial_memory(number))
        for number in num_lanes
    )


def _mixture(
    config: Any,
    sources: Mapping[str, RecordSource],
    read: Callable[[pathlib.Path], Any],
) -> Inputs:
    if not getattr(config, "can_mix", False):
        raise ValueError(
            "`--records_dir` must be one folder, for the inputs of the config, "
            f"{type(config).__name__}, read one stream. Build one from all texts. "
            "Received: " + ", ".join(str(source.folder) for source in sources.values())
        )
    inputs: Inputs = MixtureInputs(
        folders={name: source.folder for name, source in sources.items()},
        weights={name: source.weight for name, source in sources.items()},
        read=read,
    )
    return inputs
