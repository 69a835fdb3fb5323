"""A pretraining run from its config to its last checkpoint."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf

from seg_tf import configuration, fidelity, files
from seg_tf.training import distribution as distributions
from seg_tf.training import fitting, plots, run_folder, versions
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.errors import TrainingStopped
from seg_tf.training.event_file import EventFile
from seg_tf.training.interrupts import stop_requests
from seg_tf.training.pretrainer import Pretrainer
from seg_tf.training.progress import progress
from seg_tf.training.run_folder import RunFolder
from seg_tf.training.run_log import RunLog
from seg_tf.training.supervisor import Supervisor


@dataclasses.dataclass(frozen=True)
class Result:
    """Where a run ended.

    Attributes:
        updates: updates done.
        validation: results of the last validation.
        best_updates: updates of the checkpoint with the lowest validation loss.
        best_loss: that loss.
    """

    updates: int
    validation: Mapping[str, float]
    best_updates: int
    best_loss: float


def build_inputs(config: configuration.RunConfig, records_dir: str) -> Any:
    """The input pipeline of a run.

    Raises:
        ValueError: if the records do not fit the config, or cannot be read.
    """
    inputs = configuration.build(
        config.inputs,
        records_dir=records_dir,
        index_tables=config.model.index_tables,
        vocab_size=config.model.vocab_size,
        seed=config.training.seed,
    )
    # What is wrong with the shards comes out here, before anything is written.
    distribution = distributions.current()
    fitting.train_dataset(inputs, config.training, 0, distribution)
    fitting.validation_dataset(inputs, config.training, distribution)
    return inputs


def build_pretrainer(config: configuration.RunConfig, inputs: Any) -> Pretrainer:
    """Builds model, objectives and optimizer, with every variable created.

    Initial weights and dropout are those of `config.training.seed`.

    Args:
        config: the run.
        inputs: the input pipeline; shapes and vocabulary are taken from it.
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
        )
        objectives = {
            name: configuration.build(objective, encoder=encoder)
            for name, objective in config.objectives.items()
        }
        pretrainer = Pretrainer(encoder, objectives)
        pretrainer.compile(
            optimizer=configuration.build(
                config.optimizer, num_updates=settings.num_updates
            ),
            jit_compile=settings.jit_compile,
            auto_scale_loss=False,
        )
        pretrainer.build_from(
            _empty_batch(inputs.train_dataset(batch_size=1).element_spec)
        )
    finally:
        keras.config.set_dtype_policy(policy_before)
    return pretrainer


def pretrain(
    config: configuration.RunConfig,
    inputs: Any,
    pretrainer: Pretrainer,
    folder: RunFolder,
    run: Mapping[str, Any],
    *,
    resume: bool = True,
    overwrite: bool = False,
    callbacks: Iterable[keras.callbacks.Callback] = (),
    report: Callable[[str], None] = print,
) -> Result:
    """Trains until the run is complete, going on from what its folder holds.

    Args:
        config: the run.
        inputs: its input pipeline.
        pretrainer: what `build_pretrainer` made.
        folder: where it writes.
        run: what `run_folder.describe_run` says of it.
        resume: whether to go on from the folder's checkpoints.
        overwrite: whether to remove the run that the folder holds first.
        callbacks: further Keras callbacks.
        report: called with each line worth saying.

    Raises:
        TrainingStopped: if the run cannot start or ends early; its message says
            what to do.
    """
    with folder.locked():
        run_folder.prepare(folder, run, resume=resume, overwrite=overwrite)
        files.write_text(folder.deviations_file, fidelity.describe(config) + "\n")
        checkpoints = Checkpoints(
            folder.checkpoints_folder,
            keep=config.training.keep_checkpoints,
            facts=_facts(config, inputs, run),
            report=report,
        )
        state = checkpoints.newest_intact()
        if state:
            checkpoints.restore(pretrainer, state["updates"])
            checkpoints.discard_newer(state["updates"])
            report(f"Going on from {checkpoints.path(state['updates'])}")
        with stop_requests() as stop_request:
            supervisor = _supervisor(
                config.training, folder, checkpoints, state, stop_request
            )
            try:
                _train(
                    pretrainer, inputs, config.training, supervisor, state, callbacks
                )
                plots.save_loss_curve({config.name: folder.path}, folder.curve_file)
            except OSError as error:
                raise TrainingStopped(
                    f"Stopped after update {supervisor.updates:,}: {error}. "
                    f"{checkpoints.describe_newest()}; make room or mend the disk, "
                    "then start the same command again"
                ) from error
            finally:
                supervisor.close()
        return Result(
            updates=supervisor.updates,
            validation=supervisor.last_validation,
            best_updates=checkpoints.best(),
            best_loss=checkpoints.best_loss(),
        )


def _vocab_size(config: configuration.RunConfig, inputs: Any) -> int:
    return config.model.vocab_size or inputs.vocab_size


def _facts(
    config: configuration.RunConfig, inputs: Any, run: Mapping[str, Any]
) -> dict[str, Any]:
    """What every checkpoint says about the run it is of."""
    return {
        **run,
        "seed": config.training.seed,
        "vocab_size": _vocab_size(config, inputs),
        "deviations": [str(one) for one in fidelity.deviations(config)],
        "versions": versions.installed(),
    }


def _supervisor(
    settings: configuration.TrainingConfig,
    folder: RunFolder,
    checkpoints: Checkpoints,
    state: Mapping[str, Any] | None,
    stop_request: Any,
) -> Supervisor:
    updates = state["updates"] if state else 0
    return Supervisor(
        settings,
        updates=updates,
        checkpoints=checkpoints,
        log=RunLog(
            folder.log_file, updates, validated=bool(state and state["validation"])
        ),
        events=EventFile(folder.events_folder, updates),
        display=progress(settings.num_updates, updates),
        stop_request=stop_request,
    )


def _train(
    pretrainer: Pretrainer,
    inputs: Any,
    settings: configuration.TrainingConfig,
    supervisor: Supervisor,
    state: Mapping[str, Any] | None,
    callbacks: Iterable[keras.callbacks.Callback],
) -> None:
    distribution = distributions.current()
    if state and state["validation"]:
        supervisor.last_validation = state["validation"]
    elif state and _ends_interval(state["updates"], settings):
        fitting.validate(pretrainer, inputs, settings, supervisor, distribution)
    fitting.fit(pretrainer, inputs, settings, supervisor, distribution, callbacks)
    # A callback may have ended the run between two checkpoints.
    supervisor.save(supervisor.last_validation)


def _ends_interval(updates: int, settings: configuration.TrainingConfig) -> bool:
    return (
        updates % settings.validation_interval == 0 or updates == settings.num_updates
    )


def _empty_batch(element_spec: Mapping[str, tf.TensorSpec]) -> dict[str, tf.Tensor]:
    """One row of zeros for every feature."""
    return {
        name: tf.zeros([1, *spec.shape[1:]], spec.dtype)
        for name, spec in element_spec.items()
    }
