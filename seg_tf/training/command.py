"""The pretraining command, after its flags and its config have been read."""

import contextlib
import dataclasses
import pathlib
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from seg_tf import command_line, output_paths, papers
from seg_tf.checkpoints import contents, folders, pretrained
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.command_table import in_called_form
from seg_tf.config import (
    CausalLMConfig,
    RunConfig,
    describe_taken,
    follow_source,
    to_dict,
)
from seg_tf.data import record_sources
from seg_tf.training import build, dry_run, engine, run_folder, trackers
from seg_tf.training.distribution import Distribution
from seg_tf.training.errors import NonFiniteSteps, TrainingStopped
from seg_tf.training.inputs import train_dataset
from seg_tf.training.run_folder import RunFolder
from seg_tf.training.throughput import Profiler
from seg_tf.training.trainer import Result, Trainer


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Flags of the command besides the config; its `--help` documents them.

    Attributes:
        asked: paths of the config's fields that flags set.
        find_initial: finds or converts the checkpoint that `--initial_checkpoint`
            names, as `seg_tf.interop.convert.find_initial` does. None only finds
            checkpoints of this package.
    """

    records_dir: str | None
    output_dir: str
    initial_checkpoint: str | None = None
    asked: frozenset[str] = frozenset()
    find_initial: Callable[..., pathlib.Path] | None = None
    dry_run: bool = False
    measure: int | None = None
    resume: bool = True
    overwrite: bool = False
    profile_updates: range | None = None
    cache_gigabytes: float | None = None
    trackers: Mapping[str, str] = dataclasses.field(default_factory=dict)


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
            trainer = _prepare_together(config, options, processes, stack)
            deviations = papers.describe(trainer.config)
        except (ValueError, OSError, CheckpointError, TrainingStopped) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            # A launcher ends all ranks when the first one exits; all print first.
            with contextlib.suppress(TrainingStopped):
                processes.gather(None)
            sys.exit(1)
        plan = dry_run.make_plan(trainer.config, trainer.inputs, trainer.learner)
        if processes.is_chief:
            print(dry_run.describe(plan))
            print(deviations, flush=True)
        if options.dry_run:
            _finish_dry_run(options, trainer, plan)
        else:
            _train(options, trainer)


def _prepare_together(
    config: RunConfig,
    options: RunOptions,
    processes: Distribution,
    stack: contextlib.ExitStack,
) -> Trainer:
    """Prepares every rank, and ends all if they differ or one of them fails."""
    # First, everything that decides what a rank does next.
    names = ("dry_run", "measure", "resume", "overwrite")
    processes.check_agreement(
        {
            **engine.software(),
            "config": to_dict(config),
            "flags set": sorted(options.asked),
            "--initial_checkpoint": bool(options.initial_checkpoint),
            **{f"--{name}": getattr(options, name) for name in names},
        }
    )
    trainer = processes.call_together(
        lambda: _prepare(config, options, processes, stack)
    )
    processes.check_agreement(trainer.facts)
    return trainer


def _prepare(
    config: RunConfig,
    options: RunOptions,
    processes: Distribution,
    stack: contextlib.ExitStack,
) -> Trainer:
    """Checks a run and builds its trainer; writes nothing to its output folder."""
    folder = RunFolder(output_paths.local_path(options.output_dir, "output_dir"))
    factories = trackers.find_factories(
        config.training.callbacks, "config.training.callbacks"
    )
    initial = _initial_checkpoint(config, options, folder.path, processes, stack)
    if initial:
        config, settings = _adopt_settings(config, initial, options.asked)
        if settings and processes.is_chief:
            print(f"As in {initial}: {describe_taken(settings)}")
    sources = record_sources.parse(options.records_dir, options.cache_gigabytes)
    description = run_folder.describe_run(
        config,
        record_sources.describe(sources),
        contents.weights_checksum(initial) if initial else None,
    )
    resume, overwrite = options.resume, options.overwrite
    if processes.is_chief:
        run_folder.check(folder, description, resume=resume, overwrite=overwrite)
    engine.current().devices.set_determinism(
        config.training, print if processes.is_chief else lambda line: None
    )
    inputs = build.build_inputs(config, sources, processes)
    return Trainer(
        config,
        inputs,
        build.build_learner(config, inputs, processes),
        folder,
        description,
        resume=resume,
        overwrite=overwrite,
        initial_checkpoint=initial,
        callback_factories=factories,
    )


def _initial_checkpoint(
    config: RunConfig,
    options: RunOptions,
    output_dir: pathlib.Path,
    processes: Distribution,
    stack: contextlib.ExitStack,
) -> pathlib.Path | None:
    path, argument = options.initial_checkpoint, "--initial_checkpoint"
    if not path:
        return None
    if options.find_initial is None:
        return folders.find_checkpoint(pathlib.Path(path), argument)
    scratch = None  # folder for converted weights, which a dry run does not keep
    if options.dry_run:
        scratch = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    return options.find_initial(
        path,
        output_dir,
        argument,
        config,
        options.asked,
        processes=processes,
        made_in=scratch,
        overwrite=options.overwrite,
    )


def _adopt_settings(
    config: RunConfig, initial: pathlib.Path, set_by_user: frozenset[str]
) -> tuple[RunConfig, dict[str, tuple[Any, Any]]]:
    """The config with the settings that imported weights were trained with."""
    state = contents.read_state(initial)
    source = pretrained.read_config(initial, state).model
    if not state.get("imported") or type(source) is not type(config.model):
        return config, {}
    return follow_source(config, vars(source), set_by_user)


def _finish_dry_run(options: RunOptions, trainer: Trainer, plan: dry_run.Plan) -> None:
    is_chief = trainer.distribution.is_chief
    if options.measure:
        batches = train_dataset(
            trainer.inputs, trainer.config.training, 0, trainer.distribution
        )
        try:
            seconds = dry_run.measure(trainer.learner, iter(batches), options.measure)
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
            f"{trainer.folder.path}"
        )


def _train(options: RunOptions, trainer: Trainer) -> None:
    folder, is_chief = trainer.folder, trainer.distribution.is_chief
    parameters = dict(trainer.description)
    settings = parameters.pop("config")
    tracked = trackers.TrackedRun(
        name=folder.path.absolute().name,
        parameters={**parameters, **settings},
        id_file=folder.trackers_file,
    )
    try:
        with contextlib.ExitStack() as stack:
            for name, project in options.trackers.items():
                tracker = trackers.Tracker(name, project, tracked)
                stack.push(tracker.close)
                trainer.trackers.append(tracker)
            if options.profile_updates and is_chief:
                trainer.profiler = Profiler(
                    options.profile_updates, folder.events_folder, print
                )
                stack.callback(trainer.profiler.close)
            result = trainer.train()
    except TrainingStopped as stop:
        if is_chief or not stop.is_common:
            print(stop, file=sys.stderr)
        sys.exit(stop.exit_code)
    if is_chief:
        print(_describe_end(result, folder, trainer.config))


def _describe_end(result: Result, folder: RunFolder, config: RunConfig) -> str:
    """Closing lines of a run, with commands in the form of the call."""
    path = shlex.quote(str(folder.path))
    longer = f"--config.training.num_updates={2 * result.updates}"
    if result.validation and result.best_updates is not None:
        checkpoint = folder.checkpoints_folder / folders.name(result.best_updates)
        last = (
            f"  validation loss  {result.validation['loss']:.4f} "
            f"(best: {result.best_loss:.4f})\n"
            f"  best checkpoint  {checkpoint}"
        )
    else:
        checkpoint = folder.checkpoints_folder / folders.name(result.updates)
        last = (
            "  validation       none, as --config.training.validation_interval=0 says\n"
            f"  last checkpoint  {checkpoint}"
        )
    curve = compare = ""
    # A run that was shorter than the log interval has no curve.
    if folder.curve_file.exists():
        training = "" if result.validation else " --training"
        curve = f"\n  loss curve       {folder.curve_file}"
        command = in_called_form("seg-tf plot-runs")
        compare = f"""
  compare runs          {command} --runs={path}{training}
                        (append other runs, separated by commas)"""
    if CausalLMConfig in map(type, config.objectives.values()):
        use = f"""
  continue a prompt     seg-tf generate-text --checkpoint={path} --prompt="The"
  measure perplexity    seg-tf evaluate-perplexity --checkpoint={path} --text=FILE"""
    else:
        use = f"""
  see what it does      seg-tf demo --checkpoint={path}
  fine-tune it          seg-tf finetune --checkpoint={path} --task=glue/mrpc \\
                          --data_dir=GLUE --output_dir=finetuned
  serve it              seg-tf export --checkpoint={path} --output_dir=exported"""
    return f"""
Done after {result.updates:,} updates.
{last}{curve}
  log              {folder.log_file}

What to do next:
  look at the curves    tensorboard --logdir={path}{compare}{in_called_form(use)}
  use the encoder       from seg_tf.checkpoints.pretrained import load_encoder
                        encoder, config = load_encoder("{folder.path}")
  train it for longer   the same command with {longer}:
                        it resumes from here, at the learning rates of that length"""
