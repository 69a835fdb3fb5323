"""Experiment trackers and users' callbacks, which receive the rows of a run's log.

Trackers and Keras callbacks may have a method `on_log(updates, row)`. It is called on
the first process with each row of the log. In pretraining, a row has the values of
`log.jsonl` under TensorBoard's names; in fine-tuning, the values of an epoch.
"""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras

from seg_tf import files
from seg_tf.config.base import flat
from seg_tf.text.splitters import load_function
from seg_tf.training.errors import TrainingStopped

CallbackFactory = Callable[[pathlib.Path], keras.callbacks.Callback]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """A run as trackers show it.

    Attributes:
        name: its title.
        parameters: its settings, nested or flat.
        id_file: file with the run's id in each tracker, by which a resumed run
            continues there. Local files of a tracker go to the same folder.
        group: title of the group of runs that it belongs to.
    """

    name: str
    parameters: Mapping[str, Any]
    id_file: pathlib.Path
    group: str | None = None


class Wandb:
    """A run in Weights & Biases."""

    def __init__(self, project: str | None, run: TrackedRun, run_id: str | None):
        import wandb  # type: ignore[import-not-found, unused-ignore]

        self._run = wandb.init(
            project=project,
            name=run.name,
            group=run.group,
            id=run_id,
            resume="allow",
            dir=os.environ.get("WANDB_DIR", run.id_file.parent),
            config=dict(run.parameters),
            allow_val_change=True,
        )
        self.id = self._run.id
        # W&B's own step never decreases, but a run resumed from a checkpoint goes back.
        self._run.define_metric("updates")
        self._run.define_metric("*", step_metric="updates")

    def log(self, updates: int, row: Mapping[str, float]) -> None:
        self._run.log({"updates": updates, **row})

    def close(self, succeeded: bool) -> None:
        self._run.finish(exit_code=0 if succeeded else 1)


class MLflow:
    """A run in MLflow."""

    def __init__(self, experiment: str | None, run: TrackedRun, run_id: str | None):
        import mlflow  # type: ignore[import-not-found, unused-ignore]

        self._mlflow = mlflow
        if experiment:
            mlflow.set_experiment(experiment)
        self.id = mlflow.start_run(run_id=run_id, run_name=run.name).info.run_id
        if run_id is None:  # MLflow refuses to change a parameter
            mlflow.log_params(flat(run.parameters))

    def log(self, updates: int, row: Mapping[str, float]) -> None:
        self._mlflow.log_metrics(dict(row), updates, synchronous=False)

    def close(self, succeeded: bool) -> None:
        self._mlflow.flush_async_logging()
        self._mlflow.end_run("FINISHED" if succeeded else "FAILED")


SERVICES: dict[str, Any] = {"wandb": Wandb, "mlflow": MLflow}  # by flag


class Tracker:
    """Sends each row of the log to a tracker.

    A failing tracker never ends the training: its first failure is reported. The
    tracker's run starts with the first row, which only the first process receives.

    Args:
        name: key of `SERVICES`.
        project: project or experiment; "" leaves it to the environment.
        run: what is tracked.
        report: called with a line about the first failure.
    """

    def __init__(
        self,
        name: str,
        project: str,
        run: TrackedRun,
        report: Callable[[str], Any] = print,
    ):
        self._name = name
        self._project = project or None
        self._run = run
        self._report = report
        self._service: Wandb | MLflow | None = None
        self._has_failed = False

    def on_log(self, updates: int, row: Mapping[str, float]) -> None:
        with self._failures_reported():
            if self._service is None and not self._has_failed:
                self._service = self._start()
            if self._service is not None:
                self._service.log(updates, row)

    def close(self, error_type: type[BaseException] | None, *_: object) -> None:
        """Ends the tracker's run; for `ExitStack.push`."""
        if self._service is not None:
            with self._failures_reported():
                self._service.close(succeeded=error_type is None)

    def _start(self) -> Wandb | MLflow:
        path = self._run.id_file
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = files.read_json(path) if path.exists() else {}
        known = ids.get(self._name)
        service = SERVICES[self._name](self._project, self._run, known)
        if service.id != known:
            files.write_json(path, {**ids, self._name: service.id})
        return service

    @contextlib.contextmanager
    def _failures_reported(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # each SDK raises its own
            if not self._has_failed:
                self._report(
                    f"`--{self._name}` failed; the run's own log is complete. "
                    f"{type(error).__name__}: {error}"
                )
            self._has_failed = True


def find_factories(references: Sequence[str], argument: str) -> list[CallbackFactory]:
    """Imports functions that make Keras callbacks, each `"package.module:function"`.

    Args:
        references: their names.
        argument: argument for error messages.

    Raises:
        ValueError: if a function cannot be imported.
    """
    factories: list[Any] = [load_function(name, argument) for name in references]
    return factories


def make_callbacks(
    factories: Iterable[CallbackFactory], folder: pathlib.Path
) -> list[keras.callbacks.Callback]:
    """Calls each factory with the output folder, which is created if necessary.

    Raises:
        TrainingStopped: if a factory returns anything but a Keras callback.
    """
    callbacks = []
    for factory in factories:
        folder.mkdir(parents=True, exist_ok=True)
        callback = factory(folder)
        if not isinstance(callback, keras.callbacks.Callback):
            raise TrainingStopped(
                "`callbacks` must name functions that return a Keras callback. "
                f"Received: {factory!r}, which returned {callback!r}"
            )
        callbacks.append(callback)
    return callbacks


def send_row(sinks: Iterable[Any], updates: int, row: Mapping[str, float]) -> None:
    """Sends a row of the log to those trackers and callbacks that receive rows."""
    for sink in sinks:
        if hasattr(sink, "on_log"):
            sink.on_log(updates, dict(row))
