"""A pretraining run from its config to its last checkpoint."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seg_tf import papers
from seg_tf.checkpoints import pretrained
from seg_tf.config import RunConfig, build_from
from seg_tf.data.inputs import MixtureInputs
from seg_tf.training import (
    assembly,
    engine,
    fitting,
    record_sources,
    validation,
    versions,
)
from seg_tf.training.distribution import Distribution
from seg_tf.training.inputs import Inputs
from seg_tf.training.interrupts import stop_requests
from seg_tf.training.pretrainer import Pretrainer
from seg_tf.training.record_sources import RecordSource
from seg_tf.training.run import PretrainingRun
from seg_tf.training.run_folder import RunFolder


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
    config: RunConfig,
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
    # What is wrong with the shards comes out here, before anything is written.
    distribution = distribution or Distribution()
    fitting.train_dataset(inputs, config.training, 0, distribution)
    validation.validation_datasets(inputs, config.training, distribution)
    return inputs


def build_pretrainer(
    config: RunConfig,
    inputs: Inputs,
    distribution: Distribution | None = None,
) -> Pretrainer:
    """Builds the pretrainer of a run on its records, with every variable created.

    Args:
        config: the run.
        inputs: the input pipeline; shapes and vocabulary are taken from it.
        distribution: the processes of the run; None is this one alone.
    """
    processes = distribution or Distribution()
    dataset = fitting.train_dataset(inputs, config.training, 0, processes)
    return assembly.build_pretrainer(
        config,
        _vocab_size(config, inputs),
        _empty_batch(dataset.element_spec),
        distribution,
    )


def pretrain(
    config: RunConfig,
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
    facts = describe(config, inputs, run)

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
        with pretrainer.step_options.distribution.failures_explained():
            whole.train()
    return Result(
        updates=pretrainer.updates,
        validation=whole.validation.results,
        best_updates=whole.checkpoints.best(),
        best_loss=whole.checkpoints.best_loss(),
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


def _vocab_size(config: RunConfig, inputs: Inputs) -> int:
    return config.model.vocab_size or inputs.vocab_size


def describe(
    config: RunConfig, inputs: Inputs, run: Mapping[str, Any]
) -> dict[str, Any]:
    """Description of the run that every checkpoint contains.

    Args:
        config: the run.
        inputs: its input pipeline.
        run: what `run_folder.describe_run` says of it.
    """
    return {
        **run,
        "seed": config.training.seed,
        "vocab_size": _vocab_size(config, inputs),
        "vocab_checksum": inputs.vocab_checksum,
        "deviations": [str(one) for one in papers.deviations(config)],
        "versions": versions.installed(engine.current().packages),
    }


def _empty_batch(element_spec: Mapping[str, tf.TensorSpec]) -> dict[str, Any]:
    """One row of zeros for every feature."""
    return {
        name: np.zeros([1, *spec.shape[1:]], spec.dtype.as_numpy_dtype)
        for name, spec in element_spec.items()
    }
