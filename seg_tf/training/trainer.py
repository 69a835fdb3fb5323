"""Implements the training loop, with logs, checkpoints and validations."""

import contextlib
import dataclasses
import math
import pathlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from seg_tf import files, papers
from seg_tf.checkpoints import pretrained
from seg_tf.checkpoints.weight_files import CheckpointError
from seg_tf.config import RunConfig
from seg_tf.training import checkpoint, engine, errors, run_folder, throughput
from seg_tf.training.build import Inputs, train_dataset, validation_datasets
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.learner import Learner
from seg_tf.training.logs import RunWriter
from seg_tf.training.run_folder import RunFolder
from seg_tf.training.step import Features
from seg_tf.training.trackers import CallbackFactory, make_callbacks

_ADVICE = (
    "Lower --config.optimizer.learning_rate, lengthen "
    "--config.optimizer.warmup_updates or lower --config.training.clip_norm, in "
    "another --output_dir"
)

# From the encoder and the objectives to named measures.
Probe = Callable[[keras.Model, Mapping[str, Any]], Mapping[str, float]]


class Result(NamedTuple):
    """Updates of a run, its last validation results and best checkpoint, if any."""

    updates: int
    validation: Mapping[str, float] | None
    best_updates: int | None
    best_loss: float | None


@dataclasses.dataclass
class Trainer:
    """Trains a run to its end, from the checkpoint in its output folder, if any.

    Each process has a trainer. All trainers take the same actions at the same update.
    Only the chief restores and writes checkpoints. It sends its state to the others.

    Attributes:
        description: dict. Result of `run_folder.describe_run`.
        overwrite: bool. Whether to remove an existing run in the folder first.
        initial_checkpoint: path. Checkpoint whose weights a new run starts from.
        callback_factories: functions that return a Keras callback for the output
            folder. A callback must affect training equally on all processes, if at all.
        probe: function of encoder and objectives that returns measures to add to each
            validation, or None. Only the chief needs one.
        report: function that prints a line.
        facts: dict. Information about the run that is stored in every checkpoint.
        sinks: trackers and callbacks that receive each row of the log.
    """

    config: RunConfig
    inputs: Inputs
    learner: Learner
    folder: RunFolder
    description: Mapping[str, Any]
    overwrite: bool = False
    initial_checkpoint: pathlib.Path | None = None
    callback_factories: Sequence[CallbackFactory] = ()
    probe: Probe | None = None
    report: Callable[[str], None] = print

    def __post_init__(self) -> None:
        config, inputs = self.config, self.inputs
        self.distribution = self.learner.options.distribution
        self.facts = {
            **self.description,
            "seed": config.training.seed,
            "vocab_size": config.model.vocab_size or inputs.vocab_size,
            "vocab_checksum": inputs.vocab_checksum,
            "deviations": [str(deviation) for deviation in papers.deviations(config)],
            "versions": engine.installed_versions(),
        }
        self.sinks: list[Any] = []
        self.updates = 0
        self.checkpoints = Checkpoints(
            self.folder.checkpoints_folder,
            keep=config.training.keep_checkpoints,
            facts=self.facts,
            text_preparation=inputs.text_preparation,
            report=self.report,
            decay_begin=config.decay_begin(config.training.num_updates),
        )
        # Update number and results of the last validation.
        self._validation: tuple[int, dict[str, float]] | None = None
        self._settings = config.training
        self._writer: RunWriter | None = None  # of the chief
        self._stop_request = errors.StopRequest()
        self._callbacks = keras.callbacks.CallbackList(model=self.learner)

    def train(self) -> Result:
        """Resumes or starts the run and returns its `Result`.

        All processes must call this. Raises `TrainingStopped` if a failure or a signal
        ends the run early, but not if a callback does.
        """
        with contextlib.ExitStack() as stack:
            self._stop_request = stack.enter_context(errors.stop_requests())
            stack.enter_context(self.distribution.failures_explained())
            stack.enter_context(self._readable_errors())
            self.learner.stop_requested = lambda: bool(self._stop_request)
            self.learner.stop_agreed = False
            if self.distribution.is_chief:
                stack.enter_context(self.folder.locked())
                self._resume_or_initialize()
            callbacks = make_callbacks(self.callback_factories, self.folder.path)
            self._callbacks = keras.callbacks.CallbackList(
                callbacks, model=self.learner
            )
            self.sinks += callbacks
            self._share_state()
            if self.distribution.is_chief:
                self._writer = RunWriter(self)
                stack.callback(self._writer.close)
            self._run()
        best, loss = self.checkpoints.best(), self.checkpoints.best_loss()
        validation = self._validation[1] if self._validation else None
        return Result(self.updates, validation, best, loss)

    # --- The loop -------------------------------------------------------------------

    def _run(self) -> None:
        settings, learner = self._settings, self.learner
        self._speed = throughput.start(
            self.config, self.inputs.vocab_size, learner, self.report
        )
        self._validation_batches = validation_datasets(
            self.inputs, settings, self.distribution
        )
        self._batches = iter(
            train_dataset(self.inputs, settings, learner.samples, self.distribution)
        )
        self._callbacks.on_train_begin()
        if self._is_due(settings.validation_interval) and not self.is_validated:
            self._validate()  # the run stopped between checkpoint and validation
        while self.updates < settings.num_updates and not learner.stop_training:
            learner.start_update(self._next_batch)
            self.updates += 1
            if self._needs_result():
                learner.finish_update(self._next_batch)
            if self._writer:
                self._writer.advance(self.updates)
            self._speed.update_done(self.updates, lambda: learner.tokens)
            if self._callbacks.callbacks:
                self._callbacks.on_train_batch_end(
                    self.updates - 1, learner.interval_results()
                )
            if self.updates % settings.log_interval == 0:
                self._write_interval()
            if self._is_due(settings.checkpoint_interval):
                self._save()
            self._stop_if_agreed()
            if self._is_due(settings.validation_interval):
                self._validate()
        self._callbacks.on_train_end()
        self._save()

    def _next_batch(self) -> Features:
        features: Features = self._speed.next_of(self._batches)
        return features

    def _is_due(self, interval: int) -> bool:
        """Returns True every `interval` updates and at the end. 0 means never."""
        if not (interval and self.updates):
            return False
        at_end = self.updates >= self._settings.num_updates
        return at_end or self.updates % interval == 0

    def _needs_result(self) -> bool:
        """Returns whether all processes must wait for the outcome of this update."""
        settings = self._settings
        return (
            bool(self._callbacks.callbacks)
            or not self._speed.is_measuring
            or not settings.max_skipped_steps
            or self._is_due(settings.log_interval)
            or self._is_due(settings.checkpoint_interval)
            or self._is_due(settings.validation_interval)
            or (self.distribution.size == 1 and bool(self._stop_request))
        )

    def _write_interval(self) -> None:
        learner = self.learner
        row = {
            **learner.interval_results(),
            "learning_rate": learner.learning_rate,
            "samples": learner.samples,
            "tokens": learner.tokens,
            "padding_share": learner.padding_share,
            "skipped_steps": learner.skipped_steps,
        }
        loss_scale = learner.options.loss_scale
        if loss_scale.variables:
            row["loss_scale"] = float(loss_scale.value)
        learner.reset_interval()
        figures = self._speed.interval(self.updates, row["tokens"])
        if self._writer:
            self._writer.write_interval(self.updates, row, figures)

    def _save(self) -> None:
        with self._speed.paused():
            self.learner.memory.collect(self.distribution)
            if self._writer:
                self._writer.save(self.learner)

    def _stop_if_agreed(self) -> None:
        """If any process requested a stop, saves the run and raises `Interrupted`."""
        if not self.learner.stop_agreed:
            return
        self.learner.finish_update(self._next_batch)
        self._save()
        state = "the checkpoint that the first process wrote"
        if self._writer:
            self._writer.draw_curve()
            state = str(self.checkpoints.path(self.updates))
        # The launcher kills all processes when one ends, so they wait for the chief.
        self.distribution.gather(None)
        # Another process may have received the signal.
        number = self._stop_request.signal_number or signal.SIGTERM
        raise errors.Interrupted(
            f"Stopped by {signal.Signals(number).name} after update {self.updates:,} "
            f"of {self._settings.num_updates:,}. The state is in {state}; the same "
            "command resumes from there, if it has no --overwrite",
            number,
        )

    # --- Validation -----------------------------------------------------------------

    def _validate(self) -> None:
        """Validates the model and logs the results, or raises `NonFiniteLossError`."""
        with self._speed.paused():
            results = {
                name: self._validate_on(batches)
                for name, batches in self._validation_batches.items()
            }
            probed: Mapping[str, float] = {}
            if self.probe:
                probed = self.probe(self.learner.encoder, self.learner.objectives)
            # Callbacks and errors must be the same on all processes.
            probed = self.distribution.broadcast_object(probed)
        weights = [source.weight for source in self.inputs.sources.values()]
        means = {
            metric: float(
                np.average([row[metric] for row in results.values()], weights=weights)
                if weights
                else results[""][metric]
            )
            for metric in next(iter(results.values()))
        }
        for name, source_results in results.items() if weights else ():
            means |= {f"{name}/{key}": value for key, value in source_results.items()}
        means |= probed
        bad = {name: value for name, value in means.items() if not math.isfinite(value)}
        if bad:
            raise errors.NonFiniteLossError(f"the validation is not finite: {bad}")
        self._validation = (self.updates, means)
        with self._speed.paused():
            self._callbacks.on_epoch_end(
                (self.updates - 1) // self._settings.validation_interval,
                {f"val_{name}": value for name, value in means.items()},
            )
            self.learner.memory.collect(self.distribution)
            if self._writer:
                self._writer.write_validation(
                    self.updates, means, self._speed.now(), self.learner
                )

    def _validate_on(self, batches: tf.data.Dataset) -> dict[str, float]:
        self.learner.take_validation_results()
        for features in batches:
            self.learner.validate(features)
            self._stop_if_agreed()
        return self.learner.take_validation_results()

    @property
    def is_validated(self) -> bool:
        """Returns whether the model was validated after the last update."""
        return self._validation is not None and self._validation[0] == self.updates

    # --- Start ----------------------------------------------------------------------

    def _resume_or_initialize(self) -> None:
        """Restores a checkpoint or initializes a new run. Only the chief calls it."""
        is_new = self.overwrite or not self.checkpoints.updates()
        if is_new:
            self._load_initial()  # may fail, and nothing has been removed or written
        previous = run_folder.prepare(
            self.folder, self.description, overwrite=self.overwrite
        )
        files.write_text(
            self.folder.deviations_file, papers.describe(self.config) + "\n"
        )
        state = checkpoint.choose_for_length(previous, self.config, self.checkpoints)
        if state:
            self.checkpoints.restore(self.learner, state["updates"])
            self.checkpoints.set_aside_newer(state["updates"])
            if state.get("validation"):
                self._validation = (state["updates"], state["validation"])
            self.report(f"Resuming from {self.checkpoints.path(state['updates'])}")
        else:
            if not is_new:
                self._load_initial()
            if rows := run_folder.read_log(self.folder.log_file):
                aside = self.folder.set_aside_folder / f"{rows[-1]['updates']}.jsonl"
                aside.parent.mkdir(exist_ok=True)
                self.folder.log_file.replace(aside)
                self.report(
                    f"No checkpoint to resume from in {self.checkpoints.folder}: "
                    f"starting again from update 0. The log so far is {aside}"
                )
        files.write_json(self.folder.run_file, self.description)

    def _load_initial(self) -> None:
        if self.initial_checkpoint:
            pretrained.restore_weights(
                self.initial_checkpoint,
                self.learner.encoder,
                self.learner.objectives,
                self.config,
                self.facts,
            )
            self.report(f"Starting from the weights of {self.initial_checkpoint}")

    def _share_state(self) -> None:
        self.distribution.broadcast(checkpoint.all_variables(self.learner))
        self.learner.memory.share()
        self._validation = self.distribution.broadcast_object(self._validation)
        self.updates = self.learner.updates

    # --- Failures -------------------------------------------------------------------

    @contextlib.contextmanager
    def _readable_errors(self) -> Iterator[None]:
        """Context manager that turns some errors into `TrainingStopped` with advice."""
        try:
            yield
        except errors.NonFiniteLossError as error:
            end = self.learner.samples
            first, last = map(
                self.inputs.describe_sample, (end - self._settings.batch_size, end - 1)
            )
            raise errors.NonFiniteLossError(
                f"Stopped after update {self.learner.updates:,}: {error}. The last "
                f"batch was from {first} to {last}. "
                f"{self.checkpoints.describe_newest()}. {_ADVICE}"
            ) from error
        except CheckpointError as error:
            raise errors.TrainingStopped(str(error)) from error
        except OSError as error:
            raise errors.TrainingStopped(
                f"Stopped after update {self.learner.updates:,}: {error}. "
                f"{self.checkpoints.describe_newest()}; free or repair the disk, "
                "then start the same command again"
            ) from error
