"""The pretraining command, once its flags are read and its config is a run's."""

import contextlib
import dataclasses
import pathlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from seg_tf import command_line, configuration, fidelity, output_paths
from seg_tf.checkpoints import contents, folder_names, folders
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.training import (
    devices,
    distribution,
    measurement,
    pretraining,
    record_sources,
    run_estimate,
    run_folder,
)
from seg_tf.training.distribution import Distribution
from seg_tf.training.errors import NonFiniteSteps, TrainingStopped
from seg_tf.training.inputs import Inputs
from seg_tf.training.outputs import run_callbacks, trackers
from seg_tf.training.outputs.profiler import Profiler
from seg_tf.training.pretrainer import Pretrainer
from seg_tf.training.run_folder import RunFolder


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Flags of the command beside the config; each is documented in its `--help`."""

    records_dir: str | None
    output_dir: str
    initial_checkpoint: str | None = None
    dry_run: bool = False
    measure: int | None = None
    resume: bool = True
    overwrite: bool = False
    profile_updates: range | None = None
    cache_gigabytes: float | None = None
    trackers: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _Prepared:
    """Everything that a run needs, checked and built."""

    folder: RunFolder
    description: dict[str, Any]
    initial_checkpoint: pathlib.Path | None
    inputs: Inputs
    pretrainer: Pretrainer
    processes: Distribution
    callback_factories: Sequence[run_callbacks.CallbackFactory]


def run(config: configuration.RunConfig, options: RunOptions) -> None:
    """Prints the plan of a run and, unless it is a dry run, trains.

    Raises:
        SystemExit: with a message that says what to do, if the run cannot start or
            ends early.
    """
    command_line.raise_open_files()
    try:
        prepared = _prepare(config, options)
        deviations = fidelity.describe(config)
    except (ValueError, OSError, CheckpointError, TrainingStopped) as error:
        sys.exit(f"error: {error}")
    figures = run_estimate.make_plan(config, prepared.inputs, prepared.pretrainer)
    if prepared.processes.is_chief:
        print(run_estimate.describe(figures, prepared.inputs))
        print(deviations, flush=True)
    if options.dry_run:
        _end_dry_run(config, options, prepared, figures)
    else:
        _train(config, options, prepared)


def _prepare(config: configuration.RunConfig, options: RunOptions) -> _Prepared:
    processes = distribution.join()
    folder = RunFolder(output_paths.local_path(options.output_dir, "output_dir"))
    initial = _initial_checkpoint(options)
    factories = run_callbacks.find_factories(
        config.training.callbacks, "config.training.callbacks"
    )
    sources = record_sources.parse(options.records_dir, options.cache_gigabytes)
    description = run_folder.describe_run(
        config,
        record_sources.describe(sources),
        contents.weights_checksum(initial) if initial else None,
    )
    if processes.is_chief:
        run_folder.check(
            folder, description, resume=options.resume, overwrite=options.overwrite
        )
    devices.set_determinism(
        config.training, print if processes.is_chief else lambda line: None
    )
    inputs = pretraining.build_inputs(config, sources, processes)
    pretrainer = pretraining.build_pretrainer(config, inputs, processes)
    return _Prepared(
        folder, description, initial, inputs, pretrainer, processes, factories
    )


def _end_dry_run(
    config: configuration.RunConfig,
    options: RunOptions,
    prepared: _Prepared,
    figures: run_estimate.Plan,
) -> None:
    is_chief = prepared.processes.is_chief
    if options.measure:
        try:
            seconds = measurement.measure(
                prepared.pretrainer, prepared.inputs, config.training, options.measure
            )
        except tf.errors.ResourceExhaustedError as error:
            sys.exit(
                "error: the memory is too small for an update; lower "
                f"--config.training.micro_batch_size. {error.message.splitlines()[0]}"
            )
        except NonFiniteSteps as error:
            sys.exit(f"error: no update could be measured: {error}")
        if is_chief:
            print(measurement.describe(seconds, figures))
    if is_chief:
        print(
            "Nothing was written; without --dry_run the run goes to "
            f"{prepared.folder.path}"
        )


def _train(
    config: configuration.RunConfig, options: RunOptions, prepared: _Prepared
) -> None:
    is_chief = prepared.processes.is_chief
    try:
        with contextlib.ExitStack() as stack:
            callbacks = run_callbacks.make_callbacks(
                prepared.callback_factories, prepared.folder.path
            )
            for tracker in _trackers(options, prepared):
                callbacks.append(stack.enter_context(tracker))
            if options.profile_updates:
                profiler = Profiler(
                    options.profile_updates, prepared.folder.events_folder, print
                )
                callbacks.append(stack.enter_context(profiler))
            result = pretraining.pretrain(
                config,
                prepared.inputs,
                prepared.pretrainer,
                prepared.folder,
                prepared.description,
                initial_checkpoint=prepared.initial_checkpoint,
                callbacks=callbacks,
                resume=options.resume,
                overwrite=options.overwrite,
            )
    except TrainingStopped as stop:
        if is_chief or not stop.is_common:
            print(stop, file=sys.stderr)
        sys.exit(stop.exit_code)
    if is_chief:
        print(_ending(result, prepared.folder))


def _trackers(options: RunOptions, prepared: _Prepared) -> list[trackers.Tracker]:
    parts = dict(prepared.description)
    run = trackers.TrackedRun(
        name=prepared.folder.path.absolute().name,
        parameters={**parts.pop("config"), **parts},
        id_file=prepared.folder.trackers_file,
    )
    # Of an elastic run another process may become the chief.
    return trackers.make_trackers(
        options.trackers, run, is_chief=lambda: prepared.processes.is_chief
    )


def _initial_checkpoint(options: RunOptions) -> pathlib.Path | None:
    if not options.initial_checkpoint:
        return None
    return folders.find_checkpoint(
        pathlib.Path(options.initial_checkpoint), "--initial_checkpoint"
    )


def _ending(result: pretraining.Result, folder: RunFolder) -> str:
    """Closing lines of a run; the commands in them work as they are."""
    path = shlex.quote(str(folder.path))
    # The curve of a run without validation is that of its training.
    training = "" if result.validation else " --training"
    longer = f"--config.training.num_updates={2 * result.updates}"
    curve = compare = ""
    # A run that was shorter than the interval of the log has neither.
    if folder.curve_file.exists():
        curve = f"\n  loss curve       {folder.curve_file}"
        compare = f"""
  compare runs          python -m seg_tf.commands.plot_runs --runs={path}{training}
                        (others after it, with commas)"""
    return f"""
Done after {result.updates:,} updates.
{_last_checkpoint(result, folder)}{curve}
  log              {folder.log_file}

What to do next:
  look at the curves    tensorboard --logdir={path}{compare}
  use the encoder       from seg_tf.checkpoints.pretrained import load_encoder
                        encoder, config = load_encoder("{folder.path}")
  train it for longer   the same command with {longer}:
                        it goes on from here, at the learning rates of that length"""


def _last_checkpoint(result: pretraining.Result, folder: RunFolder) -> str:
    def path(updates: int) -> pathlib.Path:
        return folder.checkpoints_folder / folder_names.name(updates)

    if not result.validation or result.best_updates is None:
        return (
            "  validation       none, as --config.training.validation_interval=0 says\n"
            f"  last checkpoint  {path(result.updates)}"
        )
    return (
        f"  validation loss  {result.validation['loss']:.4f} "
        f"(best: {result.best_loss:.4f})\n"
        f"  best checkpoint  {path(result.best_updates)}"
    )
