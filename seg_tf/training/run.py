"""A run of one process or of many: taking it up, training, ending."""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import keras

from seg_tf import files, papers
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.config import RunConfig
from seg_tf.training import (
    fitting,
    run_folder,
    run_length,
    throughput,
    training_state,
    yardstick,
)
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.errors import NonFiniteLossError, NonFiniteSteps, TrainingStopped
from seg_tf.training.inputs import Inputs
from seg_tf.training.interrupts import StopRequest
from seg_tf.training.outputs.run_outputs import Outputs, SilentOutputs
from seg_tf.training.pretrainer import Pretrainer
from seg_tf.training.run_folder import RunFolder
from seg_tf.training.supervisor import Supervisor, Validation
from seg_tf.training.validation import IntervalValidation

_ADVICE = (
    "Lower --config.optimizer.learning_rate, lengthen "
    "--config.optimizer.warmup_updates or lower --config.training.clip_norm, in "
    "another --output_dir"
)


class PretrainingRun:
    """Trains until the run is complete, continuing from its current state.

    Only the chief reads the output folder. It resumes the run from its newest
    checkpoint; the other processes receive its state.

    Args:
        config: the run.
        inputs: its input pipeline.
        pretrainer: what `build_pretrainer` made.
        folder: where the chief writes.
        description: what `run_folder.describe_run` says of the run.
        stop_request: true once a signal has come to this process.
        facts: what every checkpoint says about the run.
        resume: whether to continue from the folder's checkpoints.
        overwrite: whether to remove the run that the folder holds first.
        initialise: called on the chief where a run starts from nothing.
        callbacks: further Keras callbacks, which have to decide alike on every
            process whether to end the run.
        report: called with each line worth saying.
    """

    def __init__(
        self,
        config: RunConfig,
        inputs: Inputs,
        pretrainer: Pretrainer,
        folder: RunFolder,
        description: Mapping[str, Any],
        stop_request: StopRequest,
        *,
        facts: Mapping[str, Any],
        resume: bool,
        overwrite: bool,
        initialise: Callable[[], None],
        callbacks: Iterable[keras.callbacks.Callback],
        report: Callable[[str], None],
    ):
        self.checkpoints = Checkpoints(
            folder.checkpoints_folder,
            keep=config.training.keep_checkpoints,
            facts=facts,
            text_preparation=inputs.text_preparation,
            report=report,
            decay_begin=config.decay_begin(config.training.num_updates),
        )
        self.validation = Validation()
        self._config = config
        self._inputs = inputs
        self._pretrainer = pretrainer
        self._distribution = pretrainer.step_options.distribution
        self._folder = folder
        self._description = description
        self._stop_request = stop_request
        self._choice = {"resume": resume, "overwrite": overwrite}
        self._initialise = initialise
        self._callbacks = list(callbacks)
        self._report = report
        pretrainer.collective_flags.listen(stop=lambda: bool(stop_request))

    def train(self) -> None:
        """Resumes or starts the run, and trains to its end; all processes call it.

        Raises:
            TrainingStopped: if it ends early; its message says what to do.
        """
        with self._in_words(), contextlib.ExitStack() as stack:
            if self._distribution.is_chief:
                stack.enter_context(self._folder.locked())
                self._take_up()
            self._distribution.broadcast(training_state.all_variables(self._pretrainer))
            self._pretrainer.memory.share()
            self.validation = self._distribution.broadcast_object(self.validation)
            outputs = self._outputs()
            stack.callback(outputs.close)
            try:
                self._train(outputs)
            except Exception:
                self._try_to_draw_curve(outputs)
                raise

    def _take_up(self) -> None:
        previous = run_folder.prepare(self._folder, self._description, **self._choice)
        files.write_text(
            self._folder.deviations_file, papers.describe(self._config) + "\n"
        )
        state: Mapping[str, Any] | None
        if previous:
            state = run_length.choose_checkpoint(
                previous, self._config, self.checkpoints, self._folder, self._report
            )
            run_folder.record(self._folder, self._description)
        else:
            state = self.checkpoints.newest_intact()
        if state:
            self.checkpoints.restore(self._pretrainer, state["updates"])
            self.checkpoints.discard_newer(state["updates"])
            if state.get("validation"):
                self.validation = Validation(state["updates"], state["validation"])
            self._report(f"Going on from {self.checkpoints.path(state['updates'])}")
        else:
            self._initialise()

    def _outputs(self) -> SilentOutputs:
        if not self._distribution.is_chief:
            return SilentOutputs()
        updates = self._pretrainer.updates
        return Outputs(
            self._folder,
            self.checkpoints,
            self._config.training,
            updates,
            validated=self.validation.updates == updates,
            name=self._config.name,
            callbacks=self._callbacks,
            measure_levels=functools.partial(
                yardstick.losses_without_context, self._config, self._inputs
            ),
            report=self._report,
        )

    def _train(self, outputs: SilentOutputs) -> None:
        settings, pretrainer = self._config.training, self._pretrainer
        supervisor = Supervisor(
            settings,
            updates=pretrainer.updates,
            validation=self.validation,
            outputs=outputs,
            throughput=throughput.start(
                self._config, self._inputs.vocab_size, pretrainer, self._report
            ),
            stop_request=self._stop_request,
        )
        try:
            if self._owes_validation(supervisor.updates):
                owed = IntervalValidation(
                    pretrainer, self._inputs, settings, [supervisor]
                )
                supervisor.validated(owed.measure())
            fitting.fit(pretrainer, self._inputs, settings, supervisor, self._callbacks)
        finally:
            self.validation = supervisor.validation
        pretrainer.memory.collect(self._distribution)
        outputs.save(pretrainer)
        outputs.draw_curve()

    def _try_to_draw_curve(self, outputs: SilentOutputs) -> None:
        """Draws the losses of a run that fails, which must not hide the reason."""
        try:
            outputs.draw_curve()
        except (OSError, ValueError) as error:
            self._report(f"The loss curve was not drawn: {error}")

    def _owes_validation(self, updates: int) -> bool:
        settings = self._config.training
        if not settings.validation_interval:
            return False
        due = (
            updates % settings.validation_interval == 0
            or updates == settings.num_updates
        )
        return bool(updates) and due and self.validation.updates != updates

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        """Turns what may go wrong into what to do about it."""
        try:
            yield
        except NonFiniteSteps as error:
            raise NonFiniteLossError(
                f"{self._describe(error)}. {self._way_out()}"
            ) from error
        except NonFiniteLossError as error:
            raise NonFiniteLossError(f"{error}. {self._way_out()}") from error
        except CheckpointError as error:
            raise TrainingStopped(str(error)) from error
        except OSError as error:
            raise TrainingStopped(
                f"Stopped after update {self._pretrainer.updates:,}: {error}. "
                f"{self.checkpoints.describe_newest()}; free or repair the disk, "
                "then start the same command again"
            ) from error

    def _describe(self, error: NonFiniteSteps) -> str:
        of_ranks = [sample for of_rank in error.samples for sample in of_rank]
        samples = list(dict.fromkeys(of_ranks))
        if samples:
            found = "The loss is not finite for " + ", ".join(
                self._inputs.describe_sample(sample) for sample in samples[:10]
            )
            if len(samples) > 10:
                found += f" and {len(samples) - 10} more"
        else:
            end = self._pretrainer.samples
            found = (
                "Every sample's own loss is finite; the gradient of the samples "
                f"{end - self._config.training.batch_size} to {end - 1} is not"
            )
        return (
            f"Stopped after update {self._pretrainer.updates:,}: the "
            f"{error.num_steps} steps after it were all skipped, because loss or "
            f"gradient was not finite. {found}"
        )

    def _way_out(self) -> str:
        return f"{self.checkpoints.describe_newest()}. {_ADVICE}"
