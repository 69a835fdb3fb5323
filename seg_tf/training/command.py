"""The pretraining command, once its flags are read and its config is a run's."""

import contextlib
import dataclasses
import pathlib
import shlex
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf

from seg_tf import command_line, output_paths, papers
from seg_tf.checkpoints import contents, folder_names, folders, pretrained
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.command_table import in_called_form
from seg_tf.config import RunConfig, describe_taken, follow_source, to_dict
from seg_tf.data import record_sources
from seg_tf.training import (
    build,
    dry_run,
    engine,
    run_folder,
    trackers,
)
from seg_tf.training.distribution import Distribution
from seg_tf.training.errors import NonFiniteSteps, TrainingStopped
from seg_tf.training.inputs import Inputs, train_dataset
from seg_tf.training.learner import Learner
from seg_tf.training.profiler import Profiler
from seg_tf.training.run_folder import RunFolder
from seg_tf.training.trainer import Result, Trainer


class FindInitial(Protocol):
    """Finds the checkpoint that `--initial_checkpoint` names, or makes it.

    Call arguments:
        given: value of the flag.
        output_dir: that of the run; what is made is kept in it.
        made_in: folder for it instead, if the output folder lacks it; of a dry run.
        argument: the flag, for messages.
        config: the run.
        asked: paths of the fields of `config` that the user set.
        processes: those that call this.
        overwrite: whether what was made for another run may be replaced.
    """

    def __call__(
        self,
        given: str,
        output_dir: pathlib.Path,
        argument: str,
        config: RunConfig,
        asked: Collection[str],
        *,
        processes: Distribution,
        made_in: pathlib.Path | None,
        overwrite: bool,
    ) -> pathlib.Path: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Flags of the command beside the config; each is documented in its `--help`."""

    records_dir: str | None
    output_dir: str
    initial_checkpoint: str | None = None
    asked: frozenset[str] = frozenset()  # paths of fields that flags set
    find_initial: FindInitial | None = None  # None finds checkpoints of ours alone
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

    config: RunConfig
    folder: RunFolder
    description: dict[str, Any]
    initial_checkpoint: pathlib.Path | None
    inputs: Inputs
    learner: Learner
    processes: Distribution
    callback_factories: Sequence[trackers.CallbackFactory]


def run(config: RunConfig, options: RunOptions) -> None:
    """Prints the plan of a run and, unless it is a dry run, trains.

    Raises:
        SystemExit: with a message that says what to do, if the run cannot start or
            ends early.
    """
    command_line.raise_open_files()
    try:
        processes = engine.current().join()
    except (ValueError, TrainingStopped) as error:
        sys.exit(f"error: {error}")
    with contextlib.ExitStack() as stack:
        try:
            prepared = _prepare_together(config, options, processes, stack)
            deviations = papers.describe(prepared.config)
        except (ValueError, OSError, CheckpointError, TrainingStopped) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            # A launcher ends all ranks when the first one exits; all print first.
            with contextlib.suppress(TrainingStopped):
                processes.gather(None)
            sys.exit(1)
        plan = dry_run.make_plan(prepared.config, prepared.inputs, prepared.learner)
        if processes.is_chief:
            print(dry_run.describe(plan))
            print(deviations, flush=True)
        if options.dry_run:
            _end_dry_run(options, prepared, plan)
        else:
            _train(options, prepared)


def _prepare_together(
    config: RunConfig,
    options: RunOptions,
    processes: Distribution,
    stack: contextlib.ExitStack,
) -> _Prepared:
    """Prepares every rank, and ends all if they differ or one of them fails."""
    # Whatever decides what a rank does next comes first.
    processes.check_agreement(
        {
            **engine.software(),
            "config": to_dict(config),
            "flags set": sorted(options.asked),
            "--initial_checkpoint": bool(options.initial_checkpoint),
            **{
                f"--{name}": getattr(options, name)
                for name in ("dry_run", "measure", "resume", "overwrite")
            },
        }
    )
    prepared = processes.call_together(
        lambda: _prepare(config, options, processes, stack)
    )
    processes.check_agreement(
        run_folder.facts(prepared.config, prepared.inputs, prepared.description)
    )
    return prepared


def _prepare(
    config: RunConfig,
    options: RunOptions,
    processes: Distribution,
    stack: contextlib.ExitStack,
) -> _Prepared:
    folder = RunFolder(output_paths.local_path(options.output_dir, "output_dir"))
    factories = trackers.find_factories(
        config.training.callbacks, "config.training.callbacks"
    )
    made_in = None
    if options.dry_run:
        made_in = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    initial = _initial_checkpoint(config, options, folder.path, made_in, processes)
    if initial:
        config, taken = _like_imported(config, initial, options.asked)
        if taken and processes.is_chief:
            print(f"As in {initial}: {describe_taken(taken)}")
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
    engine.current().devices.set_determinism(
        config.training, print if processes.is_chief else lambda line: None
    )
    inputs = build.build_inputs(config, sources, processes)
    learner = build.build_learner(config, inputs, processes)
    return _Prepared(
        config,
        folder,
        description,
        initial,
        inputs,
        learner,
        processes,
        factories,
    )


def _end_dry_run(options: RunOptions, prepared: _Prepared, plan: dry_run.Plan) -> None:
    is_chief = prepared.processes.is_chief
    if options.measure:
        batches = train_dataset(
            prepared.inputs, prepared.config.training, 0, prepared.processes
        )
        try:
            seconds = dry_run.measure(prepared.learner, iter(batches), options.measure)
        except tf.errors.ResourceExhaustedError as error:
            sys.exit(
                "error: the memory is too small for an update; lower "
                f"--config.training.micro_batch_size. {error.message.splitlines()[0]}"
            )
        except NonFiniteSteps as error:
            sys.exit(f"error: no update could be measured: {error}")
        if is_chief:
            print(dry_run.describe_measurement(seconds, plan))
    if is_chief:
        print(
            "Nothing was written; without --dry_run the run goes to "
            f"{prepared.folder.path}"
        )


def _train(options: RunOptions, prepared: _Prepared) -> None:
    folder, is_chief = prepared.folder, prepared.processes.is_chief
    try:
        with contextlib.ExitStack() as stack:
            others = dict(prepared.description)
            settings = others.pop("config")
            tracked = trackers.TrackedRun(
                name=folder.path.absolute().name,
                parameters={**others, **settings},
                id_file=folder.trackers_file,
            )
            started = [
                trackers.Tracker(name, project, tracked)
                for name, project in options.trackers.items()
            ]
            for tracker in started:
                stack.push(tracker.close)
            profiler = None
            if options.profile_updates and is_chief:
                profiler = Profiler(
                    options.profile_updates, folder.events_folder, print
                )
                stack.callback(profiler.close)
            result = Trainer(
                prepared.config,
                prepared.inputs,
                prepared.learner,
                folder,
                prepared.description,
                resume=options.resume,
                overwrite=options.overwrite,
                initial_checkpoint=prepared.initial_checkpoint,
                callbacks=trackers.make_callbacks(
                    prepared.callback_factories, folder.path
                ),
                trackers=started,
                profiler=profiler,
            ).train()
    except TrainingStopped as stop:
        if is_chief or not stop.is_common:
            print(stop, file=sys.stderr)
        sys.exit(stop.exit_code)
    if is_chief:
        print(_ending(result, folder))


def _initial_checkpoint(
    config: RunConfig,
    options: RunOptions,
    output_dir: pathlib.Path,
    made_in: pathlib.Path | None,
    processes: Distribution,
) -> pathlib.Path | None:
    given, argument = options.initial_checkpoint, "--initial_checkpoint"
    if not given:
        return None
    if options.find_initial is None:
        return folders.find_checkpoint(pathlib.Path(given), argument)
    return options.find_initial(
        given,
        output_dir,
        argument,
        config,
        options.asked,
        processes=processes,
        made_in=made_in,
        overwrite=options.overwrite,
    )


def _like_imported(
    config: RunConfig, initial: pathlib.Path, asked: frozenset[str]
) -> tuple[RunConfig, dict[str, tuple[Any, Any]]]:
    """The config with the settings that imported weights were trained with."""
    state = contents.read_state(initial)
    source = pretrained.read_config(initial, state).model
    if not state.get("imported") or type(source) is not type(config.model):
        return config, {}
    return follow_source(config, vars(source), asked)


def _ending(result: Result, folder: RunFolder) -> str:
    """Closing lines of a run; the commands in them work as they are."""
    path = shlex.quote(str(folder.path))
    # The curve of a run without validation is that of its training.
    training = "" if result.validation else " --training"
    longer = f"--config.training.num_updates={2 * result.updates}"
    curve = compare = ""
    # A run that was shorter than the interval of the log has neither.
    if folder.curve_file.exists():
        curve = f"\n  loss curve       {folder.curve_file}"
        command = in_called_form("seg-tf plot-runs")
        compare = f"""
  compare runs          {command} --runs={path}{training}
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


def _last_checkpoint(result: Result, folder: RunFolder) -> str:
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
