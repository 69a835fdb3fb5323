"""A run of one process or of many: taking it up, training, ending."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import keras

from seg_tf import configuration, fidelity, files
from seg_tf.training import checkpoint_files, fitting, plots, run_folder
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.errors import NonFiniteLossError, NonFiniteSteps, TrainingStopped
from seg_tf.training.interrupts import StopRequest, stop_requests
from seg_tf.training.outputs import Outputs, SilentOutputs
from seg_tf.training.pretrainer import Pretrainer
from seg_tf.training.run_folder import RunFolder
from seg_tf.training.supervisor import Supervisor

_ADVICE = (
    "Lower --config.optimizer.learning_rate, lengthen "
    "--config.optimizer.warmup_updates or lower --config.training.clip_norm, in "
    "another --output_dir"
)


class Run:
    """Trains until the run is complete, going on from wherever it stands.

    The chief alone looks at the output folder. It takes the run up from its newest
    checkpoint, once; the others get its state. From then on the state is what the
    variables hold, so that a process can fail and others can go on.

    Args:
        config: the run.
        inputs: its input pipeline.
        pretrainer: what `build_pretrainer` made.
        folder: where the chief writes.
        description: what `run_folder.describe_run` says of the run.
        facts: what every checkpoint says about the run.
        resume: whether to go on from the folder's checkpoints.
        overwrite: whether to remove the run that the folder holds first.
        initialise: called on the chief where a run starts from nothing.
        callbacks: further Keras callbacks.
        report: called with each line worth saying.
    """

    def __init__(
        self,
        config: configuration.RunConfig,
        inputs: Any,
        pretrainer: Pretrainer,
        folder: RunFolder,
        description: Mapping[str, Any],
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
            report=report,
        )
        self._config = config
        self._inputs = inputs
        self._pretrainer = pretrainer
        self._distribution = pretrainer.step_options.distribution
        self._folder = folder
        self._description = description
        self._choice = {"resume": resume, "overwrite": overwrite}
        self._initialise = initialise
        self._callbacks = list(callbacks)
        self._report = report
        self._ownership = contextlib.ExitStack()
        self._owns_folder = False
        self._taken_up = False
        # Results of the last validation, and after how many updates it was.
        self.validation: Mapping[str, float] | None = None
        self._validated_updates: int | None = None

    def synchronise(self) -> None:
        """Gives all processes the state of the chief; each has to call it."""
        if self._distribution.is_chief and not self._taken_up:
            self._take_up()
        elif self._distribution.is_chief:
            self._report(
                f"Going on after update {self._pretrainer.updates:,} with "
                f"{self._distribution.size} processes"
            )
        self._taken_up = True
        self._distribution.broadcast(
            [
                variable.value
                for variable in checkpoint_files.all_variables(self._pretrainer)
            ]
        )
        self.validation, self._validated_updates = self._distribution.broadcast_object(
            (self.validation, self._validated_updates)
        )

    def train(self) -> None:
        """Goes on from the state that the variables hold.

        Raises:
            TrainingStopped: if it ends early; its message says what to do.
        """
        with self._owned_folder(), stop_requests() as stop_request:
            outputs = self._outputs()
            supervisor = self._supervisor(outputs, stop_request)
            try:
                self._train(supervisor)
                outputs.save(self._pretrainer)
                if self._distribution.is_chief:
                    plots.save_loss_curve(
                        {self._config.name: self._folder.path}, self._folder.curve_file
                    )
            except NonFiniteSteps as error:
                raise NonFiniteLossError(self._describe(error)) from error
            except NonFiniteLossError as error:
                raise NonFiniteLossError(f"{error}. {self._way_out()}") from error
            except OSError as error:
                raise TrainingStopped(
                    f"Stopped after update {supervisor.updates:,}: {error}. "
                    f"{self.checkpoints.describe_newest()}; make room or mend the "
                    "disk, then start the same command again"
                ) from error
            finally:
                self.validation = supervisor.last_validation
                self._validated_updates = supervisor.validated_updates
                outputs.close()

    def _take_up(self) -> None:
        self._own_folder()
        run_folder.prepare(self._folder, self._description, **self._choice)
        files.write_text(
            self._folder.deviations_file, fidelity.describe(self._config) + "\n"
        )
        state = self.checkpoints.newest_intact()
        if not state:
            self._initialise()
            return
        self.checkpoints.restore(self._pretrainer, state["updates"])
        self.checkpoints.discard_newer(state["updates"])
        if state["validation"]:
            self.validation = state["validation"]
            self._validated_updates = state["updates"]
        self._report(f"Going on from {self.checkpoints.path(state['updates'])}")

    def _own_folder(self) -> None:
        """Keeps other runs out of the output folder, until `train` ends."""
        if not self._owns_folder:
            self._ownership.enter_context(self._folder.locked())
            self._owns_folder = True

    @contextlib.contextmanager
    def _owned_folder(self) -> Iterator[None]:
        if self._distribution.is_chief:
            self._own_folder()
        try:
            yield
        finally:
            # After a process failed another one may be the chief.
            self._owns_folder = False
            self._ownership.close()

    def _outputs(self) -> SilentOutputs:
        if not self._distribution.is_chief:
            return SilentOutputs()
        updates = self._pretrainer.updates
        return Outputs(
            self._folder,
            self.checkpoints,
            self._config.training,
            updates,
            validated=self._validated_updates == updates,
        )

    def _supervisor(
        self, outputs: SilentOutputs, stop_request: StopRequest
    ) -> Supervisor:
        self._pretrainer.wishes.listen(
            stop=lambda: bool(stop_request),
            regroup=lambda: self._distribution.wishes_to_regroup,
        )
        return Supervisor(
            self._config.training,
            updates=self._pretrainer.updates,
            validation=self.validation,
            validated_updates=self._validated_updates,
            outputs=outputs,
            stop_request=stop_request,
        )

    def _train(self, supervisor: Supervisor) -> None:
        settings = self._config.training
        if self._owes_validation(supervisor.updates):
            fitting.validate(self._pretrainer, self._inputs, settings, supervisor)
        fitting.fit(
            self._pretrainer, self._inputs, settings, supervisor, self._callbacks
        )

    def _owes_validation(self, updates: int) -> bool:
        settings = self._config.training
        due = (
            updates % settings.validation_interval == 0
            or updates == settings.num_updates
        )
        return bool(updates) and due and self._validated_updates != updates

    def _describe(self, error: NonFiniteSteps) -> str:
        samples = [sample for of_rank in error.samples for sample in of_rank]
        if samples:
            found = "The loss is not finite for " + ", ".join(
                self._inputs.describe_sample(sample) for sample in samples[:10]
            )
            if len(samples) > 10:
                found += f" and {len(samples) - 10} more"
        else:
            last = self._pretrainer.samples
            found = (
                "Every sample's own loss is finite; the gradient of the samples "
                f"{last - self._config.training.batch_size} to {last - 1} is not"
            )
        return (
            f"Stopped after update {self._pretrainer.updates:,}: the "
            f"{error.num_steps} steps after it were all skipped, because loss or "
            f"gradient was not finite. {found}. {self._way_out()}"
        )

    def _way_out(self) -> str:
        return f"{self.checkpoints.describe_newest()}. {_ADVICE}"
