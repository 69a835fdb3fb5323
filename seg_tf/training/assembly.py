"""The pretrainer of a run, assembled from its config."""

from collections.abc import Mapping
from typing import Any

import keras

# Imported, what configs are of is registered.
import seg_tf.models
import seg_tf.objectives
import seg_tf.training.optimizers.optimizer  # noqa: F401
from seg_tf.config import RunConfig, TrainingConfig, build_from
from seg_tf.training import engine
from seg_tf.training.distribution import Distribution
from seg_tf.training.lane_memory import NoMemory
from seg_tf.training.optimizers.loss_scale import NoLossScale
from seg_tf.training.pretrainer import Pretrainer
from seg_tf.training.step import Features, StepOptions

# Numbers of half precision in 16 bytes, in which tensor cores read a row.
_MULTIPLE_ON_GPU = 8


def build_pretrainer(
    config: RunConfig,
    vocab_size: int,
    batch: Features,
    distribution: Distribution | None = None,
) -> Pretrainer:
    """Builds model, objectives and optimizer, with every variable created.

    Initial weights and dropout are those of `config.training.seed`.

    Args:
        config: the run.
        vocab_size: entries of the vocabulary.
        batch: features with the shapes of training, of any number of rows; their
            values do not matter.
        distribution: the processes of the run; None is this one alone.
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
        pretrainer = Pretrainer(
            encoder,
            objectives,
            _step_options(settings, distribution or Distribution()),
            settings.max_skipped_steps,
            memory,
            validation_memory,
        )
        pretrainer.compile(
            optimizer=build_from(config.optimizer, num_updates=settings.num_updates),
            # The step compiles its parts; the all-reduce is between them.
            jit_compile=False,
            auto_scale_loss=False,
        )
        pretrainer.build_from(batch)
    finally:
        keras.config.set_dtype_policy(policy_before)
    return pretrainer


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
