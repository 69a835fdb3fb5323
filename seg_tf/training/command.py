"""Runs the pretraining command after its flags and config have been parsed."""

import contextlib
import dataclasses
import pathlib
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from seg_tf import command_line, papers
from seg_tf.checkpoints import contents, folders, pretrained
from seg_tf.checkpoints.weight_files import CheckpointError
from seg_tf.command_table import in_called_form
from seg_tf.config import (
    CausalLMConfig,
    RunConfig,
    describe_taken,
    follow_source,
    to_dict,
)
from seg_tf.data import record_sources
from seg_tf.text.splitters import load_function
from seg_tf.training import build, dry_run, engine, run_folder, trackers
from seg_tf.training.distribution import Distribution
from seg_tf.training.errors import NonFiniteLossError, TrainingStopped
from seg_tf.training.run_folder import RunFolder
from seg_tf.training.trainer import Probe, Result, Trainer


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Flags of the pretraining command, except its config. `--help` documents them.

    Attributes:
        find_initial: `seg_tf.interop.convert.find_initial` for `--initial_checkpoint`,
            passed in because this package must not import `seg_tf.interop`.
        make_probes: `seg_tf.inference.probes.Probes`, passed in for the same reason.
        asked: paths of the config fields that are set by flags.
    """

    records_dir: str | None
    output_dir: str
    initial_checkpoint: str | None = None
    find_initial: Callable[..., pathlib.Path] | None = None
    make_probes: Callable[..., Probe] | None = None
    asked: frozenset[str] = frozenset()
    dry_run: bool = False
    measure: int | None = None
    overwrite: bool = False
    cache_gigabytes: float | None = None
    trackers: Mapping[str, str] = dataclasses.field(default_factory=dict)


def run(config: RunConfig, options: RunOptions) -> str | None:
    """Prints the plan of a run and, unless this is a dry run, trains.

    Returns the text printed at the end, or None for a dry run or a rank above 0. Exits
    with an error message if the run cannot start or stops early.
    """
    command_line.raise_open_files()
    try:
        processes = engine.current().join()
    except (ValueError, TrainingStopped) as error:
        sys.exit(f"error: {error}")
    try:
        # First compare everything that determines what a rank does next.
        names = ("dry_run", "measure", "overwrite")
        processes.check_agreement(
            {
                "versions": engine.installed_versions(),
                "config": to_dict(config),
                "--config": sorted(options.asked),
                "--initial_checkpoint": bool(options.initial_checkpoint),
                **{f"--{name}": getattr(options, name) for name in names},
            }
        )
        trainer = processes.call_together(lambda: _prepare(config, options, processes))
        processes.check_agreement(trainer.facts)
        plan = dry_run.describe(trainer.config, trainer.inputs, trainer.learner)
        deviations = papers.describe(trainer.config)
        if not options.dry_run:
            deviations = deviations.partition("\n")[0]
            deviations += f", see {trainer.folder.deviations_file}"
    except (ValueError, OSError, CheckpointError, TrainingStopped) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        # A launcher ends all ranks when the first one exits, so all print first.
        with contextlib.suppress(TrainingStopped):
            processes.gather(None)
        sys.exit(1)
    if processes.is_chief:
        print(f"{plan}\n{deviations}", flush=True)
    if not options.dry_run:
        return _train(options, trainer)
    _finish_dry_run(options, trainer)
    return None


def _prepare(
    config: RunConfig, options: RunOptions, processes: Distribution
) -> Trainer:
    """Checks a run and builds its trainer, without writing to its output folder."""
    folder = RunFolder(command_line.local_path(options.output_dir, "output_dir"))
    factories: list[Any] = [
        load_function(name, "config.training.callbacks")
        for name in config.training.callbacks
    ]
    initial = None
    initial_weights = None
    if options.initial_checkpoint and options.find_initial:
        initial = options.find_initial(
            options.initial_checkpoint,
            "--initial_checkpoint",
            config,
            options.asked,
            processes=processes,
        )
        if options.overwrite and folder.path.resolve() in initial.resolve().parents:
            raise ValueError(
                "`--overwrite` must not remove the run of `--initial_checkpoint`. "
                f"Received: --output_dir={folder.path} and {initial}"
            )
        checksums = contents.read_state(initial)["checksums"]
        initial_weights = checksums[contents.ENCODER_FILE]
        config, settings = _adopt_settings(config, initial, options.asked)
        if settings and processes.is_chief:
            print(f"As in {initial}: {describe_taken(settings)}")
    sources = record_sources.parse(options.records_dir, options.cache_gigabytes)
    described = record_sources.describe(sources)
    description = run_folder.describe_run(config, described, initial_weights)
    if processes.is_chief:
        run_folder.check(folder, description, overwrite=options.overwrite)
    engine.current().set_determinism(
        config.training, print if processes.is_chief else lambda line: None
    )
    inputs = build.build_inputs(config, sources, processes)
    learner = build.build_learner(config, inputs, processes)
    probe = None
    if config.training.probes and options.make_probes and processes.is_chief:
        probe = options.make_probes(config, inputs)
    return Trainer(
        config,
        inputs,
        learner,
        folder,
        description,
        probe=probe,
        overwrite=options.overwrite,
        initial_checkpoint=initial,
        callback_factories=factories,
    )


def _adopt_settings(
    config: RunConfig, initial: pathlib.Path, set_by_user: frozenset[str]
) -> tuple[RunConfig, dict[str, tuple[Any, Any]]]:
    """Applies `follow_source` if `initial` has the model's type."""
    source = pretrained.read_config(initial, contents.read_state(initial)).model
    if type(source) is not type(config.model):
        return config, {}
    return follow_source(config, vars(source), set_by_user)


def _finish_dry_run(options: RunOptions, trainer: Trainer) -> None:
    is_chief = trainer.distribution.is_chief
    if options.measure:
        batches = build.train_dataset(
            trainer.inputs, trainer.config.training, 0, trainer.distribution
        )
        try:
            seconds = dry_run.measure(trainer.learner, iter(batches), options.measure)
        except tf.errors.ResourceExhaustedError as error:
            sys.exit(
                "error: the memory is too small for an update; lower "
                f"--config.training.micro_batch_size. {error.message.splitlines()[0]}"
            )
        except NonFiniteLossError as error:
            sys.exit(f"error: no update could be measured: {error}")
        if is_chief:
            print(dry_run.describe_measurement(seconds, trainer.config, trainer.inputs))
    if is_chief:
        print(f"Nothing was written. Without --dry_run: {trainer.folder.path}")


def _train(options: RunOptions, trainer: Trainer) -> str | None:
    folder, is_chief = trainer.folder, trainer.distribution.is_chief
    parameters = dict(trainer.description)
    settings = parameters.pop("config")
    try:
        with contextlib.ExitStack() as stack:
            for name, project in options.trackers.items():
                tracker = trackers.Tracker(
                    name=name,
                    project=project,
                    run_name=folder.path.absolute().name,
                    parameters={**parameters, **settings},
                    id_file=folder.trackers_file,
                )
                stack.push(tracker.close)
                trainer.sinks.append(tracker)
            result = trainer.train()
    except TrainingStopped as stop:
        if is_chief or not stop.is_common:
            print(stop, file=sys.stderr)
        # If another process failed first, the launcher would stop the chief.
        sys.exit(stop.exit_code if is_chief or not stop.is_common else 0)
    if not is_chief:
        return None
    end = _describe_end(result, folder, trainer.config)
    print(end, flush=True)
    return end


def _describe_end(result: Result, folder: RunFolder, config: RunConfig) -> str:
    """Returns the closing lines of a run, with suggestions for the next commands."""
    path = shlex.quote(str(folder.path))
    updates, last = result.updates, "none, as --config.training.validation_interval=0"
    best, best_updates = result.best_loss, result.best_updates
    if result.validation and best is not None and best_updates is not None:
        updates, loss = best_updates, result.validation["loss"]
        last = f"{loss:.4f} (best: {best:.4f})"
        if loss > best + 0.1:
            last += f"\n{'':19}It rose after update {updates:,}, as it does with more"
            last += f"\n{'':19}passes over a text than its size allows."
    training = "" if result.validation else " --training"
    if CausalLMConfig in map(type, config.objectives.values()):
        use = f"""
  continue a prompt     seg-tf generate-text --checkpoint={path} --prompt="The"
  measure perplexity    seg-tf evaluate-perplexity --checkpoint={path} --text=FILE"""
    else:
        use = f"""
  see what it does      seg-tf demo --checkpoint={path}
  fine-tune it          seg-tf finetune --checkpoint={path} --task=glue/mrpc \\
                          --data_dir=GLUE_FOLDER --output_dir=finetuned
  serve it              seg-tf export --checkpoint={path} --output_dir=exported"""
    return in_called_form(f"""
Done after {result.updates:,} updates.
  validation loss  {last}
  checkpoint       {folder.checkpoints_folder / folders.name(updates)}
  loss curve       {folder.curve_file}
  log              {folder.log_file}

What to do next:
  look at the curves    tensorboard --logdir={path}
  compare runs          seg-tf plot-runs --runs={path},OTHER{training}{use}
  use the encoder       from seg_tf.checkpoints.pretrained import load_encoder
                        encoder, config = load_encoder("{folder.path}")
  train it for longer   the same command with
                        --config.training.num_updates={2 * result.updates}""")
