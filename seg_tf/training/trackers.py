"""Sends a run's log to experiment trackers and to the user's callbacks.

A tracker or callback may have a method `on_log(updates, row)`, which is called on the
first process. In pretraining, a row has the values in `log.jsonl` under TensorBoard's
names. In fine-tuning, it has the values of an epoch.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras

from seg_tf import files
from seg_tf.config.base import flat
from seg_tf.training.errors import TrainingStopped

CallbackFactory = Callable[[pathlib.Path], keras.callbacks.Callback]

# Id of a tracker's run, function that logs a row, and function that ends the run.
_Opened = tuple[str, Callable[[int, Mapping[str, float]], Any], Callable[[bool], Any]]


def _open_wandb(tracker: Tracker, run_id: str | None) -> _Opened:
    import wandb  # type: ignore[import-not-found, unused-ignore]

    tracked = wandb.init(
        project=tracker.project or None,
        name=tracker.run_name,
        id=run_id,
        resume="allow",
        dir=os.environ.get("WANDB_DIR", tracker.id_file.parent),
        config=dict(tracker.parameters),
        allow_val_change=True,
    )
    # W&B's own step must not decrease, but runs go back when they are resumed.
    tracked.define_metric("updates")
    tracked.define_metric("*", step_metric="updates")
    return (
        tracked.id,
        lambda updates, row: tracked.log({"updates": updates, **row}),
        lambda succeeded: tracked.finish(exit_code=0 if succeeded else 1),
    )


def _open_mlflow(tracker: Tracker, run_id: str | None) -> _Opened:
    import mlflow  # type: ignore[import-not-found, unused-ignore]

    if tracker.project:
        mlflow.set_experiment(tracker.project)
    run = mlflow.start_run(run_id=run_id, run_name=tracker.run_name)
    if run_id is None:  # MLflow refuses to change a parameter
        mlflow.log_params(flat(tracker.parameters))

    def log(updates: int, row: Mapping[str, float]) -> None:
        mlflow.log_metrics(dict(row), updates, synchronous=False)

    def close(succeeded: bool) -> None:
        mlflow.flush_async_logging()
        mlflow.end_run("FINISHED" if succeeded else "FAILED")

    return run.info.run_id, log, close


SERVICES = {"wandb": _open_wandb, "mlflow": _open_mlflow}  # by flag


@dataclasses.dataclass(kw_only=True)
class Tracker:
    """Sends each row of the log to an experiment tracker.

    A failing tracker never ends the training. Only its first failure is reported. The
    tracker's run starts with the first row, which only the first process receives.
    """

    name: str  # key of `SERVICES`
    project: str  # project or experiment; if empty, the environment decides
    run_name: str
    parameters: Mapping[str, Any]
    id_file: pathlib.Path  # ids of the run in each tracker, for a resumed run
    report: Callable[[str], Any] = print
    _opened: _Opened | None = None
    _has_failed: bool = False

    def on_log(self, updates: int, row: Mapping[str, float]) -> None:
        if self._opened is None and not self._has_failed:
            self._attempt(self._start)
        if self._opened is not None:
            self._attempt(self._opened[1], updates, row)

    def close(self, error_type: type[BaseException] | None, *_: object) -> None:
        """Ends the tracker's run as finished or failed, for `ExitStack.push`."""
        if self._opened is not None:
            self._attempt(self._opened[2], error_type is None)

    def _start(self) -> None:
        path = self.id_file
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = files.read_json(path) if path.exists() else {}
        self._opened = SERVICES[self.name](self, ids.get(self.name))
        files.write_json(path, {**ids, self.name: self._opened[0]})

    def _attempt(self, action: Callable[..., None], *arguments: Any) -> None:
        try:
            action(*arguments)
        except Exception as error:  # each SDK raises its own
            if not self._has_failed:
                self.report(
                    f"`--{self.name}` failed; the run's own log is complete. "
                    f"{type(error).__name__}: {error}"
                )
            self._has_failed = True


def make_callbacks(
    factories: Iterable[CallbackFactory], folder: pathlib.Path
) -> list[keras.callbacks.Callback]:
    """Creates callbacks by calling each factory with the output folder.

    Raises `TrainingStopped` if a result is not a Keras callback.
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
    """Sends a log row to all trackers and callbacks with a method `on_log`."""
    for sink in sinks:
        if hasattr(sink, "on_log"):
            sink.on_log(updates, dict(row))
