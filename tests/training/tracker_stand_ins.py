"""Modules that take the place of `wandb` and `mlflow`, and record their calls."""

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
    """A `wandb` whose runs have `rows` and, when ended, `exit_code`."""
    wandb = _install(monkeypatch, "wandb")

    class Run:
        def __init__(self, run_id):
            self.id, self.rows, self.exit_code = run_id, [], None
            self.log = self.rows.append

        def define_metric(self, name, step_metric=None):
            assert (name, step_metric) in {("updates", None), ("*", "updates")}

        def finish(self, exit_code):
            self.exit_code = exit_code

    def init(*, id, resume, **settings):
        assert resume == "allow"
        wandb.openings.append(settings)
        id = id or f"w{len(wandb.runs)}"
        return wandb.runs.setdefault(id, Run(id))

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
        info = types.SimpleNamespace(run_id=run_id)
        new = types.SimpleNamespace(rows=[], params={}, info=info, status=None)
        active.append(mlflow.runs.setdefault(run_id, new))
        return active[0]

    def log_params(params):
        # As MLflow does.
        assert not active[0].params.keys() & params.keys()
        active[0].params.update(params)

    def log_metrics(row, step, synchronous):
        active[0].rows.append({"updates": step, **row})

    def end_run(status):
        active.pop().status = status

    mlflow.experiments = []
    mlflow.set_experiment = mlflow.experiments.append
    mlflow.start_run, mlflow.end_run = start_run, end_run
    mlflow.log_params, mlflow.log_metrics = log_params, log_metrics
    mlflow.flush_async_logging = lambda: None
    return mlflow
