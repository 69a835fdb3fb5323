"""Callbacks of users, and trackers: what they receive, and what failures do."""

import contextlib

import keras
import pytest

from seg_tf.training import trackers
from seg_tf.training.errors import TrainingStopped
from seg_tf.training.trackers import Tracker
from tests.training import tracker_stand_ins

ROWS = [(5, {"train/loss": 2.0}), (10, {"train/loss": 1.5, "health/speed": 7.0})]
SENT = [{"updates": updates, **row} for updates, row in ROWS]


def tracked_run(folder, **changes):
    return {
        "run_name": "bert",
        "parameters": {"model": {"num_layers": 2, "tables": {}}, "seed": None},
        "id_file": folder / "trackers.json",
        **changes,
    }


def track(name, run, rows=ROWS, project="project", failing=False, report=print):
    """Tracks rows as a run does; `failing` ends it by an exception."""
    try:
        with contextlib.ExitStack() as stack:
            tracker = Tracker(name=name, project=project, report=report, **run)
            stack.push(tracker.close)
            for updates, row in rows:
                tracker.on_log(updates, row)
            if failing:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert failing


def test_wandb_gets_name_project_config_and_rows_by_update(tmp_path, monkeypatch):
    wandb = tracker_stand_ins.install_wandb(monkeypatch)
    run = tracked_run(tmp_path)
    track("wandb", run)
    track("wandb", run, project="", failing=True, rows=ROWS[:1])
    first, second = wandb.openings
    assert (first["project"], second["project"]) == ("project", None)
    assert (first["name"], first["dir"]) == ("bert", tmp_path)
    assert first["config"] == run["parameters"]
    assert wandb.runs["w0"].rows == [*SENT, SENT[0]]
    assert wandb.runs["w0"].exit_code == 1


def test_mlflow_gets_name_experiment_params_and_rows_by_update(tmp_path, monkeypatch):
    mlflow = tracker_stand_ins.install_mlflow(monkeypatch)
    track("mlflow", tracked_run(tmp_path, parameters={"model": {"x": 2}, "seed": 3}))
    # A resumed run may have other parameters, which MLflow would refuse.
    track("mlflow", tracked_run(tmp_path, parameters={"seed": 1}), project="")
    assert mlflow.experiments == ["project"]
    assert mlflow.openings == ["bert", "bert"]
    run = mlflow.runs["m0"]
    assert run.rows == [*SENT, *SENT]
    assert run.status == "FINISHED"
    assert run.params == {"model.x": 2, "seed": 3}


@pytest.mark.parametrize(
    "function", ["set_experiment", "log_metrics", "flush_async_logging"]
)
def test_failure_is_reported_once_and_ends_no_run(tmp_path, monkeypatch, function):
    mlflow = tracker_stand_ins.install_mlflow(monkeypatch)
    monkeypatch.setattr(mlflow, function, None)
    reports = []
    track("mlflow", tracked_run(tmp_path), report=reports.append)
    (report,) = reports
    assert report.startswith("`--mlflow` failed; the run's own log is complete. TypeEr")


class Folder(keras.callbacks.Callback):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.rows = []

    def on_log(self, updates, row):
        self.rows.append((updates, row))
        row.clear()


def test_callbacks_are_made_with_an_existing_folder(tmp_path):
    (made,) = trackers.make_callbacks([Folder], tmp_path / "run")
    assert isinstance(made, Folder)
    assert made.folder == tmp_path / "run"
    assert made.folder.is_dir()


def test_function_that_makes_something_else_is_an_error(tmp_path):
    with pytest.raises(TrainingStopped, match=r"must name functions that return a Ker"):
        trackers.make_callbacks([str], tmp_path)


def test_rows_go_to_callbacks_that_take_them_each_its_own(tmp_path):
    row = {"loss": 1.0}
    takes = Folder(tmp_path), Folder(tmp_path)
    trackers.send_row([keras.callbacks.Callback(), *takes], 5, row)
    assert row == {"loss": 1.0}
    assert [len(one.rows) for one in takes] == [1, 1]
