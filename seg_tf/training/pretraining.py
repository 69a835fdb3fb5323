"""A pretraining run from its config to its last checkpoint."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seg_tf import configuration, fidelity
from seg_tf.checkpoints import pretrained
from seg_tf.training import engine, fitting, record_sources, validation, versions
from seg_tf.training.distribution import Distribution
from seg_tf.training.errors import TrainingStopped
from seg_tf.training.inputs import Inputs
from seg_tf.training.interrupts import stop_requests
from seg_tf.training.lane_memory import NoMemory
from seg_tf.training.optimizers.loss_scale import NoLossScale
from seg_tf.training.pretrainer import Pretrainer
from seg_tf.training.record_sources import RecordSource
from seg_tf.training.run import PretrainingRun
from seg_tf.training.run_folder import RunFolder
from seg_tf.training.step import StepOptions


@dataclasses.dataclass(frozen=True)
class Result:
    """Result of a run.

    Attributes:
        updates: updates done.
        validation: results of the last validation; None if there was none, and so are
            the next two.
        best_updates: updates of the checkpoint with the lowest validation loss.
        best_loss: that loss.
    """

    updates: int
    validation: Mapping[str, float] | None
    best_updates: int | None
    best_loss: float | None


def build_inputs(
    config: configuration.RunConfig,
    records: str | pathlib.Path | Mapping[str, RecordSource],
    distribution: Distribution | None = None,
) -> Inputs:
    """The input pipeline of a run.

    Args:
        config: the run.
        records: folder of the records, or a mixture as in `--records_dir`, or what
            `record_sources.parse` found there.
        distribution: the processes of the run; None is this one alone.

    Raises:
        ValueError: if the records do not fit the config, or cannot be read, or the
            processes cannot share the batch.
    """

    def read(folder: pathlib.Path) -> Inputs:
        inputs: Inputs = configuration.build(
            config.inputs,
            records_dir=str(folder),
            seed=config.training.seed,
            **config.model.inputs_arguments,
        )
        return inputs

    sources = (
        records if isinstance(records, Mapping) else record_sources.parse(str(records))
    )
    if len(sources) == 1:
        inputs = read(next(iter(sources.values())).folder)
    else:
        inputs = _mixture(config.inputs, sources, read)
    # What is wrong with the shards comes out here, before anything is written.
    distribution = distribution or Distribution()
    fitting.train_dataset(inputs, config.training, 0, distribution)
    validation.validation_datasets(inputs, config.training, distribution)
    return inputs


def build_pretrainer(
    config: configuration.RunConfig,
    inputs: Inputs,
    distribution: Distribution | None = None,
) -> Pretrainer:
    """Builds model, objectives and optimizer, with every variable created.

    Initial weights and dropout are those of `config.training.seed`.

    Args:
        config: the run.
        inputs: the input pipeline; shapes and vocabulary are taken from it.
        distribution: the processes of the run; None is this one alone.
    """
    settings = config.training
    keras.utils.set_random_seed(settings.seed)
    policy_before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(settings.dtype_policy)
    try:
        encoder = configuration.build(
            config.model,
            vocab_size=_vocab_size(config, inputs),
            **config.inputs.model_arguments,
            **_compiled_arguments(config.model, settings),
        )
        objectives = {
            name: configuration.build(
                objective, encoder=encoder, **_compiled_arguments(objective, settings)
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
            optimizer=configuration.build(
                config.optimizer, num_updates=settings.num_updates
            ),
            # The step compiles its parts; the all-reduce is between them.
            jit_compile=False,
            auto_scale_loss=False,
        )
        dataset = fitting.train_dataset(
            inputs, settings, 0, pretrainer.step_options.distribution
        )
        pretrainer.build_from(_empty_batch(dataset.element_spec))
    finally:
        keras.config.set_dtype_policy(policy_before)
    return pretrainer


def pretrain(
    config: configuration.RunConfig,
    inputs: Inputs,
    pretrainer: Pretrainer,
    folder: RunFolder,
    run: Mapping[str, Any],
    *,
    resume: bool = True,
    overwrite: bool = False,
    initial_checkpoint: pathlib.Path | None = None,
    callbacks: Iterable[keras.callbacks.Callback] = (),
    report: Callable[[str], None] = print,
) -> Result:
    """Trains until the run is complete, continuing from what its folder holds.

    Args:
        config: the run.
        inputs: its input pipeline.
        pretrainer: what `build_pretrainer` made.
        folder: where it writes.
        run: what `run_folder.describe_run` says of it.
        resume: whether to continue from the folder's checkpoints.
        overwrite: whether to remove the run that the folder holds first.
        initial_checkpoint: checkpoint whose weights a new run starts from.
        callbacks: further Keras callbacks.
        report: called with each line worth saying.

    Raises:
        TrainingStopped: if the run cannot start or ends early; its message says
            what to do.
    """
    if overwrite and pretrainer.step_options.distribution.is_elastic:
        raise TrainingStopped(
            "--overwrite would remove the run again whenever another process becomes "
            "the chief of an elastic run. Remove the folder by hand, or choose another "
            f"--output_dir. Received: {folder.path}"
        )
    facts = _facts(config, inputs, run)

    def initialise() -> None:
        if initial_checkpoint:
            pretrained.restore_weights(
                initial_checkpoint,
                pretrainer.encoder,
                pretrainer.objectives,
                config,
                facts,
            )
            report(f"Starting from the weights of {initial_checkpoint}")

    with stop_requests() as stop_request:
        whole = PretrainingRun(
            config,
            inputs,
            pretrainer,
            folder,
            run,
            stop_request,
            facts=facts,
            resume=resume,
            overwrite=overwrite,
            initialise=initialise,
            callbacks=callbacks,
            report=report,
        )
        pretrainer.step_options.distribution.run(whole.synchronise, whole.train)
    return Result(
        updates=pretrainer.updates,
        validation=whole.validation.results,
        best_updates=whole.checkpoints.best(),
        best_loss=whole.checkpoints.best_loss(),
    )


def _mixture(
    config: Any,
    sources: Mapping[str, RecordSource],
    read: Callable[[pathlib.Path], Inputs],
) -> Inputs:
    if not getattr(config, "mixture", None):
        raise ValueError(
            "`--records_dir` must be one folder, for the inputs of the config, "
            f"{type(config).__name__}, read one stream. Build one from all texts. "
            "Received: " + ", ".join(str(source.folder) for source in sources.values())
        )
    inputs: Inputs = configuration.find(config.mixture)(
        folders={name: source.folder for name, source in sources.items()},
        weights={name: source.weight for name, source in sources.items()},
        read=read,
    )
    return inputs


def _step_options(
    settings: configuration.TrainingConfig, distribution: Distribution
) -> StepOptions:
    needs_scale = settings.dtype_policy == "mixed_float16"
    return StepOptions(
        micro_batch_size=settings.micro_batch_size,
        clip_norm=settings.clip_norm,
        loss_scale=(
            configuration.build(settings.loss_scale) if needs_scale else NoLossScale()
        ),
        compress_gradients=settings.compress_gradients,
        jit_compile=settings.jit_compile,
        seed=settings.seed,
        distribution=distribution,
    )


def _compiled_arguments(
    config: Any, settings: configuration.TrainingConfig
) -> Mapping[str, Any]:
    """Further arguments of a part of the model that XLA is going to compile."""
    compiles = settings.jit_compile or engine.current().always_compiles
    return getattr(config, "compiled_arguments", {}) if compiles else {}


def _memories(encoder: Any, config: configuration.RunConfig) -> tuple[NoMemory, ...]:
    """The encoder's memories for training and for validation."""
    if not hasattr(encoder, "initial_memory"):
        return NoMemory(), NoMemory()
    num_lanes = (config.training.batch_size, config.inputs.validation_lanes)
    return tuple(
        engine.current().lane_memory(encoder.initial_memory(number))
        for number in num_lanes
    )


def _vocab_size(config: configuration.RunConfig, inputs: Inputs) -> int:
    return config.model.vocab_size or inputs.vocab_size


def _facts(
    config: configuration.RunConfig, inputs: Inputs, run: Mapping[str, Any]
) -> dict[str, Any]:
    """Description of the run that every checkpoint contains."""
    return {
        **run,
        "seed": config.training.seed,
        "vocab_size": _vocab_size(config, inputs),
        "vocab_checksum": inputs.vocab_checksum,
        "deviations": [str(one) for one in fidelity.deviations(config)],
        "versions": versions.installed(engine.current().packages),
    }


def _empty_batch(element_spec: Mapping[str, tf.TensorSpec]) -> dict[str, Any]:
    """One row of zeros for every feature."""
    return {
        name: np.zeros([1, *spec.shape[1:]], spec.dtype.as_numpy_dtype)
        for name, spec in element_spec.items()
    }
