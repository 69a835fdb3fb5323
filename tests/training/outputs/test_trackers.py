"""Trackers: what Weights & Biases and MLflow are told of a run, and when they fail."""

import shutil
import threading

import pytest

from seg_tf import files
from seg_tf.training.errors import TrainingStopped
from seg_tf.training.outputs import trackers
from seg_tf.training.outputs.trackers import TrackedRun, Tracker, make_trackers
from tests.training.outputs import tracker_stand_ins

ROWS = [(5, {"train/loss": 2.0}), (10, {"train/loss": 1.5, "health/speed": 7.0})]
SENT = [{"updates": updates, **row} for updates, row in ROWS]


def tracked_run(folder, **changes):
    parameters = {"model": {"num_layers": 2, "tables": {}}, "seed": None}
    return TrackedRun(
        **{
            "name": "bert",
            "parameters": parameters,
            "id_file": folder / "trackers.json",
            **changes,
        }
    )


def track(chosen, run, rows=ROWS, failing=False):
    """Tracks rows as a run does; `failing` ends it by an exception."""
    (tracker,) = make_trackers(chosen, run)
    try:
        with tracker:
            tracker.on_train_begin()
            for updates, row in rows:
                tracker.on_log(updates, row)
            if failing:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert failing


class Service:
    """Fails where it is told to."""

    def __init__(self, *, opens=True, fails_at=(), closes=True):
        self.opens = opens
        self.fails_at = fails_at
        self.closes = closes
        self.opened = []
        self.rows = []
        self.closed = []

    def open(self, run, run_id):
        if not self.opens:
            raise ConnectionError("nobody there")
        self.opened.append(run_id)
        return "id"

    def log(self, updates, row):
        if updates in self.fails_at:
            raise RuntimeError(f"lost at {updates}")
        self.rows.append((updates, row))

    def close(self, succeeded):
        self.closed.append(succeeded)
        if not self.closes:
            raise TimeoutError("too slow")


def test_wandb_gets_name_project_config_and_rows_by_update(tmp_path, monkeypatch):
    wandb = tracker_stand_ins.install_wandb(monkeypatch)
    run = tracked_run(tmp_path, group="all")
    track({"wandb": "project"}, run)
    (settings,) = wandb.openings
    assert settings["project"] == "project"
    assert settings["name"] == "bert"
    assert settings["group"] == "all"
    assert settings["dir"] == tmp_path
    assert settings["config"] == run.parameters
    assert wandb.runs["w0"].rows == SENT
    assert wandb.runs["w0"].metrics == {"updates": None, "*": "updates"}
    assert wandb.runs["w0"].exit_code == 0
    monkeypatch.setenv("WANDB_DIR", "elsewhere")
    track({"wandb": ""}, run, failing=True)
    # "" leaves the project to the environment.
    assert wandb.openings[1]["project"] is None
    assert wandb.openings[1]["dir"] == "elsewhere"
    assert wandb.runs["w0"].exit_code == 1


def test_mlflow_gets_name_experiment_params_and_rows_by_update(tmp_path, monkeypatch):
    mlflow = tracker_stand_ins.install_mlflow(monkeypatch)
    many = {"model": {f"x{number}": number for number in range(150)}, "seed": 3}
    track({"mlflow": "experiment"}, tracked_run(tmp_path, parameters=many))
    assert mlflow.experiments == ["experiment"]
    assert mlflow.openings == ["bert"]
    run = mlflow.runs["m0"]
    assert run.rows == SENT
    assert run.status == "FINISHED"
    assert len(run.params) == 151
    assert run.params["model.x149"] == 149
    track({"mlflow": ""}, tracked_run(tmp_path, id_file=tmp_path / "b"), failing=True)
    assert mlflow.experiments == ["experiment"]
    assert mlflow.runs["m1"].status == "FAILED"


@pytest.mark.parametrize("name", list(trackers.SERVICES))
def test_resumed_run_continues_the_trackers_run(name, tmp_path, monkeypatch):
    module = getattr(tracker_stand_ins, f"install_{name}")(monkeypatch)
    run = tracked_run(tmp_path)
    track({name: ""}, run, failing=True)
    # Parameters that a resumed run may change, too.
    again = tracked_run(tmp_path, parameters={"seed": 1, "more": 2})
    track({name: ""}, again, rows=[(15, {"train/loss": 1.0})])
    (only,) = module.runs.values()
    assert only.rows == [*SENT, {"updates": 15, "train/loss": 1.0}]
    # Another run in another folder.
    track({name: ""}, tracked_run(tmp_path / "other"))
    assert len(module.runs) == 2


def test_trackers_of_a_run_keep_their_ids_beside_each_other(tmp_path, monkeypatch):
    tracker_stand_ins.install_wandb(monkeypatch)
    tracker_stand_ins.install_mlflow(monkeypatch)
    for name in trackers.SERVICES:
        track({name: ""}, tracked_run(tmp_path))
    ids = files.read_json(tmp_path / "trackers.json")
    assert ids == {"wandb": "w0", "mlflow": "m0"}


def test_tracker_that_cannot_start_stops_the_run_before_it_trains(tmp_path):
    reports = []
    run = tracked_run(tmp_path)
    tracker = Tracker("wandb", Service(opens=False), run, reports.append)
    with pytest.raises(TrainingStopped, match="ConnectionError: nobody there") as e:
        tracker.on_train_begin()
    assert "`--wandb` must be able to start a run" in str(e.value)
    assert not run.id_file.exists()
    # With an id, which may be what is wrong, it says where that is from.
    files.write_json(run.id_file, {"wandb": "w7"})
    with pytest.raises(TrainingStopped, match=f"of id w7 in {run.id_file}"):
        tracker.on_log(5, {})


def test_failure_later_is_said_once_and_later_rows_are_sent(tmp_path):
    reports = []
    service = Service(fails_at=[5, 10], closes=False)
    with Tracker("mlflow", service, tracked_run(tmp_path), reports.append) as tracker:
        for updates in (5, 10, 15):
            tracker.on_log(updates, {"loss": 1.0})
    assert service.rows == [(15, {"loss": 1.0})]
    assert service.closed == [True]
    (report,) = reports
    assert report.startswith("`--mlflow` failed")
    assert report.endswith("RuntimeError: lost at 5")


def test_tracker_that_does_not_answer_holds_up_neither_run_nor_end(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(trackers, "_SECONDS_TO_SEND", 0.05)
    answers, reports, service = threading.Event(), [], Service()
    service.log = lambda updates, row: answers.wait()
    with Tracker("mlflow", service, tracked_run(tmp_path), reports.append) as tracker:
        # Would wait for ever.
        tracker.on_log(5, {})
        tracker.on_log(10, {})
    assert service.closed == []
    assert "no answer for 0.05 s" in reports[0]
    answers.set()


def test_fit_that_begins_twice_is_one_run(tmp_path):
    service = Service()
    with Tracker("wandb", service, tracked_run(tmp_path)) as tracker:
        tracker.on_log(0, {})
        for _ in range(2):
            tracker.on_train_begin()
            tracker.on_train_end()
        assert service.closed == []
    assert service.opened == [None]
    assert service.closed == [True]


def test_process_that_is_not_the_chief_tracks_nothing(tmp_path):
    service = Service()
    run = tracked_run(tmp_path)
    with Tracker("wandb", service, run, is_chief=lambda: False) as tracker:
        tracker.on_train_begin()
    assert service.opened == service.closed == []


# What these packages warn of is theirs.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_real_wandb_writes_rows_and_continues_by_its_id(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    track({"wandb": "project"}, tracked_run(tmp_path), failing=True)
    run_id = files.read_json(tmp_path / "trackers.json")["wandb"]
    # Folders are named by the second, which may be the same one.
    shutil.move(tmp_path / "wandb", tmp_path / "first")
    track({"wandb": "project"}, tracked_run(tmp_path))
    wandb.teardown()  # waits for the process that writes
    for folder in ("first", "wandb"):
        (path,) = tmp_path.glob(f"{folder}/offline-run-*/run-*.wandb")
        assert path.name == f"run-{run_id}.wandb"
        content = path.read_bytes()
        assert all(name in content for name in (b"train/loss", b"num_layers"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_real_mlflow_has_rows_by_update_and_continues_by_its_id(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    monkeypatch.setattr(mlflow.tracking.fluent, "_active_experiment_id", None)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    try:
        track({"mlflow": "experiment"}, tracked_run(tmp_path), failing=True)
        track({"mlflow": "experiment"}, tracked_run(tmp_path), rows=[(15, {"a": 1.0})])
        client = mlflow.MlflowClient()
        experiment = client.get_experiment_by_name("experiment")
        (run,) = client.search_runs([experiment.experiment_id])
        assert run.info.run_id == files.read_json(tmp_path / "trackers.json")["mlflow"]
        assert run.info.run_name == "bert"
        assert run.info.status == "FINISHED"
        assert run.data.params == {"model.num_layers": "2", "seed": "None"}
        history = client.get_metric_history(run.info.run_id, "train/loss")
        assert [(one.step, one.value) for one in history] == [(5, 2.0), (10, 1.5)]
        assert run.data.metrics["a"] == 1.0
    finally:
        mlflow.set_tracking_uri(None)
