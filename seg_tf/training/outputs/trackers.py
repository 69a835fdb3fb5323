"""Experiment trackers: Weights & Biases and MLflow, as callbacks of a run."""

import dataclasses
import os
import pathlib
import queue
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

import keras

from seg_tf import files
from seg_tf.configuration.differences import flat
from seg_tf.training.errors import TrainingStopped

# At the end of a run, for rows that a slow or absent server has not taken.
_SECONDS_TO_SEND = 60
# What a server of MLflow takes at once.
_MOST_PARAMETERS = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """A run as trackers show it.

    Attributes:
        name: its title.
        parameters: its settings, in mappings or not.
        id_file: file of the ids by which trackers know the run, so that a resumed run
            continues there. Local files of a tracker go to its folder.
        group: title of the runs that it belongs with.
    """

    name: str
    parameters: Mapping[str, Any]
    id_file: pathlib.Path
    group: str | None = None


class TrackerService(Protocol):
    """Program that shows runs. Its methods may raise anything."""

    def open(self, run: TrackedRun, run_id: str | None) -> str:
        """Starts a run, or continues that of an id; returns the id."""

    def log(self, updates: int, row: Mapping[str, float]) -> None:
        """Sends a row, and returns when it is sent or safe in a file."""

    def close(self, succeeded: bool) -> None:
        """Ends the run."""


class Wandb:
    """Weights & Biases. Everything but the project is set by its own `WANDB_…`.

    Args:
        project: of the run; "" is that of `WANDB_PROJECT`.
    """

    def __init__(self, project: str):
        self._project = project

    def open(self, run: TrackedRun, run_id: str | None) -> str:
        import wandb

        self._run = wandb.init(
            project=self._project or None,
            name=run.name,
            group=run.group,
            id=run_id,
            resume="allow",
            dir=os.environ.get("WANDB_DIR", run.id_file.parent),
            config=dict(run.parameters),
            allow_val_change=True,
        )
        # Its own step never goes back, as a run does that continues from a checkpoint:
        # rows would be dropped.
        self._run.define_metric("updates")
        self._run.define_metric("*", step_metric="updates")
        return self._run.id

    def log(self, updates: int, row: Mapping[str, float]) -> None:
        self._run.log({"updates": updates, **row})

    def close(self, succeeded: bool) -> None:
        self._run.finish(exit_code=0 if succeeded else 1)


class MLflow:
    """MLflow. Everything but the experiment is set by its own `MLFLOW_…`.

    Args:
        experiment: of the run; "" is that of `MLFLOW_EXPERIMENT_NAME`.
    """

    def __init__(self, experiment: str):
        self._experiment = experiment

    def open(self, run: TrackedRun, run_id: str | None) -> str:
        import mlflow

        if self._experiment:
            mlflow.set_experiment(self._experiment)
        self._id = mlflow.start_run(run_id=run_id, run_name=run.name).info.run_id
        # It refuses to change one, such as the length of a run that was made longer.
        if run_id is None:
            parameters = list(flat(run.parameters).items())
            for first in range(0, len(parameters), _MOST_PARAMETERS):
                mlflow.log_params(dict(parameters[first : first + _MOST_PARAMETERS]))
        return self._id

    def log(self, updates: int, row: Mapping[str, float]) -> None:
        import mlflow

        # The active run is that of the thread which opened it.
        mlflow.log_metrics(dict(row), updates, run_id=self._id, synchronous=True)

    def close(self, succeeded: bool) -> None:
        import mlflow

        mlflow.end_run("FINISHED" if succeeded else "FAILED")


# By name of the flag.
SERVICES: Mapping[str, Callable[[str], TrackerService]] = {
    "wandb": Wandb,
    "mlflow": MLflow,
}


class Tracker(keras.callbacks.Callback):
    """Sends the rows of a run's log to a tracker, from a thread of its own.

    A tracker that cannot start ends the run before its first update. One that fails
    later is reported once, and the run continues.

    The callbacks of these packages (`WandbMetricsLogger`, `MlflowCallback`) get Keras's
    logs, which are means since the epoch began, know nothing of health, and count from
    0 in a resumed run (W&B) or by epochs (MLflow).

    As a context, it ends the tracker's run: Keras ends a training several times, once
    for each of its calls of `fit`.

    Args:
        name: one of `SERVICES`.
        service: made by that.
        run: what is tracked.
        report: called with each line worth saying.
        is_chief: whether this process, of several of one run, tracks it.
    """

    def __init__(
        self,
        name: str,
        service: TrackerService,
        run: TrackedRun,
        report: Callable[[str], Any] = print,
        is_chief: Callable[[], bool] = lambda: True,
    ):
        super().__init__()
        self._name = name
        self._service = service
        self._run = run
        self._report = report
        self._is_chief = is_chief
        self._rows: queue.SimpleQueue[tuple[int, Mapping[str, float]] | None] = (
            queue.SimpleQueue()
        )
        self._sender: threading.Thread | None = None
        self._has_failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._sender is None:
            return
        self._rows.put(None)
        self._sender.join(_SECONDS_TO_SEND)
        if self._sender.is_alive():
            self._failed(f"no answer for {_SECONDS_TO_SEND} s at the end")
        else:
            self._attempt(lambda: self._service.close(kind is None))

    def on_train_begin(self, logs: Any = None) -> None:
        if self._is_chief():
            self._open()

    def on_log(self, updates: int, row: Mapping[str, float]) -> None:
        # A validation that a resumed run owes comes before its training.
        self._open()
        self._rows.put((updates, row))

    def _open(self) -> None:
        if self._sender is not None:
            return
        path = self._run.id_file
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = files.read_json(path) if path.exists() else {}
        known = ids.get(self._name)
        try:
            run_id = self._service.open(self._run, known)
        # Each library has its own; none is worth a trace.
        except Exception as error:
            continued = f" of id {known} in {path}" if known else ""
            raise TrainingStopped(
                f"`--{self._name}` must be able to start a run, and failed{continued}. "
                "Nothing was trained; without the flag the same command trains "
                f"untracked. {type(error).__name__}: {error}"
            ) from error
        if run_id != known:
            files.write_json(path, {**ids, self._name: run_id})
        # A server that does not answer must not hold up an update, of all processes.
        self._sender = threading.Thread(target=self._send_rows, daemon=True)
        self._sender.start()

    def _send_rows(self) -> None:
        for updates, row in iter(self._rows.get, None):
            self._attempt(
                lambda updates=updates, row=row: self._service.log(updates, row)
            )

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._failed(f"{type(error).__name__}: {error}")

    def _failed(self, reason: str) -> None:
        if not self._has_failed:
            self._report(
                f"`--{self._name}` failed, and may lack rows that the run's own log "
                f"has: {reason}"
            )
        self._has_failed = True


def make_trackers(
    chosen: Mapping[str, str],
    run: TrackedRun,
    report: Callable[[str], Any] = print,
    is_chief: Callable[[], bool] = lambda: True,
) -> list[Tracker]:
    """A tracker for each one chosen; each has to be used as a context.

    Args:
        chosen: project or experiment by the name of the tracker; "" is its default.
        run: as for `Tracker`, and so are the others.
        report: likewise.
        is_chief: likewise.
    """
    return [
        Tracker(name, SERVICES[name](value), run, report, is_chief)
        for name, value in chosen.items()
    ]
