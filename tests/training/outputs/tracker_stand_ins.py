"""Modules that take the place of `wandb` and `mlflow`, and remember what they get."""

import importlib.machinery
import sys
import types


def _install(monkeypatch, name):
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    monkeypatch.setitem(sys.modules, name, module)
    module.runs = {}  # by id, over all starts
    module.openings = []
    return module


def install_wandb(monkeypatch):
    """A `wandb` whose runs have `rows`, `config` and, when ended, `exit_code`."""
    wandb = _install(monkeypatch, "wandb")

    class Run:
        def __init__(self, run_id):
            self.id = run_id
            self.rows = []
            self.metrics = {}
            self.exit_code = None

        def define_metric(self, name, step_metric=None):
            self.metrics[name] = step_metric

        def log(self, row):
            assert self.exit_code is None
            self.rows.append(row)

        def finish(self, exit_code):
            self.exit_code = exit_code

    def init(*, id, resume, **settings):
        assert resume == "allow"
        wandb.openings.append(settings)
        run = wandb.runs.setdefault(id or f"w{len(wandb.runs)}", None) or Run(id)
        run.id = id or f"w{len(wandb.runs) - 1}"
        run.exit_code = None
        wandb.runs[run.id] = run
        return run

    wandb.init = init
    return wandb


def install_mlflow(monkeypatch):
    """An `mlflow` whose runs have `rows`, `params` and, when ended, `status`."""
    mlflow = _install(monkeypatch, "mlflow")
    active = []

    def start_run(run_id, run_name):
        assert not active
        mlflow.openings.append(run_name)
        run_id = run_id or f"m{len(mlflow.runs)}"
        new = types.SimpleNamespace(rows=[], params={}, info=None)
        run = mlflow.runs.setdefault(run_id, new)
        run.info = types.SimpleNamespace(run_id=run_id)
        run.status = "RUNNING"
        active.append(run)
        return run

    def log_params(params):
        # As its servers do.
        assert len(params) <= 100
        assert not active[0].params.keys() & params.keys()
        active[0].params.update(params)

    def log_metrics(row, step, *, run_id, synchronous):
        assert synchronous
        mlflow.runs[run_id].rows.append({"updates": step, **row})

    def end_run(status):
        active.pop().status = status

    mlflow.experiments = []
    mlflow.set_experiment = mlflow.experiments.append
    mlflow.start_run = start_run
    mlflow.log_params = log_params
    mlflow.log_metrics = log_metrics
    mlflow.end_run = end_run
    return mlflow
