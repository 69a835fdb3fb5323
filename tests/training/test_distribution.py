"""What one process can tell; `test_horovod.py` starts several."""

import importlib.util
import os
import re
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf

from seg_tf.training import tensorflow_engine
from seg_tf.training.distribution import Distribution
from seg_tf.training.errors import TrainingStopped
from seg_tf.training.tensorflow_engine import HorovodDistribution

LAUNCHED = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


@pytest.fixture
def environment(monkeypatch):
    """Sets what launchers set; nothing is set at first."""
    for name in LAUNCHED:
        monkeypatch.delenv(name, raising=False)
    return lambda **values: [monkeypatch.setenv(*item) for item in values.items()]


@pytest.fixture
def without_horovod(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == "horovod" else find_spec(name),
    )


def test_process_that_nobody_launched_is_alone(environment, without_horovod):
    environment(HOROVOD_SIZE="1")
    processes = tensorflow_engine.join()
    assert type(processes) is Distribution
    assert (processes.rank, processes.size, processes.is_chief) == (0, 1, True)


@pytest.mark.parametrize("name", LAUNCHED)
def test_launched_process_without_horovod_does_not_train_alone(
    environment, without_horovod, name
):
    environment(**{name: "4"})
    with pytest.raises(TrainingStopped, match="4 processes were started, but Horovod"):
        tensorflow_engine.join()


def test_time_limits_are_set_unless_the_environment_sets_them(monkeypatch):
    module = types.ModuleType("horovod.tensorflow")
    module.init, module.local_rank = (lambda: None), (lambda: 0)
    package = types.ModuleType("horovod")
    package.tensorflow = module
    monkeypatch.setitem(sys.modules, "horovod", package)
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", module)
    set_by_user = {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "0"}
    monkeypatch.setattr(os, "environ", set_by_user)
    HorovodDistribution()
    # Four of these intervals pass at most until a late rank is named.
    assert 4 * int(os.environ["HOROVOD_STALL_CHECK_TIME_SECONDS"]) <= 60
    assert os.environ["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] == "0"
    # A stopped rank ends the run within five minutes.
    assert int(os.environ["HOROVOD_GLOO_TIMEOUT_SECONDS"]) < 5 * 60


def test_launcher_that_horovod_does_not_understand_is_found_out(
    environment, monkeypatch
):
    # As started by mpirun, with a Horovod that was built without MPI.
    class Alone(HorovodDistribution):
        size = 1

        def __init__(self):
            pass

    monkeypatch.setattr(tensorflow_engine, "HorovodDistribution", Alone)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    environment(OMPI_COMM_WORLD_SIZE="2")
    with pytest.raises(TrainingStopped, match="started, but Horovod found 1, so"):
        tensorflow_engine.join()


def test_process_without_a_gpu_of_its_own_is_refused(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    with pytest.raises(TrainingStopped, match="Received: process 1, but 1 GPUs"):
        tensorflow_engine._use_one_gpu(1)


class ThreadOfRanks(Distribution):
    """A rank that is a thread; all exchange values through one list."""

    rank = None

    def __init__(self, rank, values, barrier):
        self.rank, self._values, self._barrier = rank, values, barrier

    def gather(self, value):
        self._values[self.rank] = value
        self._barrier.wait(timeout=10)
        values = list(self._values)
        self._barrier.wait(timeout=10)
        return values


def on_ranks(function, number=2):
    """The message of each rank in which `function` ended the run; or its result."""
    values, barrier = [None] * number, threading.Barrier(number)

    def call(rank):
        try:
            return function(ThreadOfRanks(rank, values, barrier))
        except (TrainingStopped, ValueError) as error:
            return f"{type(error).__name__}: {error}"

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(call, range(number)))


FACTS = {
    "config": {"rate": 0.1, "tables": {"b": 1, "a": 2}, "records_dir": "/here"},
    "versions": {"keras": "3.15"},
}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"rate": 0.2}, "They differ in config.rate"),
        ({"more": 5, "rate": 1}, "They differ in config.rate, config.more"),
        ({"tables": {"a": 2, "b": 1}}, "They differ in the order of their settings"),
        ({"records_dir": "/x"}, None),
    ],
)
def test_ranks_whose_facts_differ_all_end(config, message):
    other = {**FACTS, "config": {**FACTS["config"], **config}}
    ended = on_ranks(
        lambda processes: processes.check_agreement(other if processes.rank else FACTS)
    )
    assert ended[0] == ended[1]
    assert ended[0] is None if message is None else ended[0].endswith(message)


def test_failure_of_one_rank_ends_all():
    def fail(processes):
        if processes.rank:
            raise ValueError("no such records")
        return "fine"

    first, second = on_ranks(
        lambda processes: processes.call_together(lambda: fail(processes))
    )
    assert re.search(r"TrainingStopped: .*Rank 1 on .*: no such records", first)
    assert second == "ValueError: no such records"
    assert on_ranks(lambda processes: processes.call_together(str)) == ["", ""]


def test_tensorflow_refuses_to_be_one_of_jax_processes(environment):
    environment(
        JAX_COORDINATOR_ADDRESS="host:1", JAX_NUM_PROCESSES="3", JAX_PROCESS_ID="2"
    )
    with pytest.raises(TrainingStopped, match="must be jax on every rank"):
        tensorflow_engine.ENGINE().join()
    environment(JAX_NUM_PROCESSES="1")
    assert tensorflow_engine.ENGINE().join().size == 1
