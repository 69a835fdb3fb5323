import itertools
import os
import types

import numpy as np
import psutil
import pytest
import tensorflow as tf

from seg_tf.training import memory_use
from seg_tf.training.flops import flops_per_update
from seg_tf.training.outputs import health
from seg_tf.training.outputs.health import Health
from seg_tf.training.outputs.run_outputs import SilentOutputs
from seg_tf.training.outputs.stopwatch import Lap, Stopwatch
from seg_tf.training.peak_flops import Peak
from seg_tf.training.supervisor import Supervisor, Validation
from tests.training.stand_ins import (
    VOCAB_SIZE,
    ArithmeticInputs,
    small_config,
    small_pretrainer,
)

GIB = 2**30
STEP_SECONDS = 1.0
FLOPS_PER_UPDATE = 600
PEAK = 400.0


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


class Recorder(SilentOutputs):
    """Keeps what would be written."""

    def __init__(self):
        self.figures = {}
        self.validations = {}

    def write_interval(self, updates, row, figures):
        self.figures[updates] = {"tokens": row["tokens"], **figures}

    def write_validation(self, updates, results, figures, pretrainer):
        self.validations[updates] = figures


@pytest.fixture(scope="module")
def pretrainer():
    return small_pretrainer()


def train(pretrainer, seconds_to_load):
    """Updates of a second each, on batches that take so many to load.

    After the fourth comes a validation of a minute. Returns the figures of each
    interval of two updates, and those of the validation.
    """
    clock, outputs = Clock(), Recorder()

    def batches():
        for seconds, features in zip(
            seconds_to_load, ArithmeticInputs().train_dataset(4), strict=False
        ):
            clock.advance(seconds)
            yield features

    def make_step():  # asked for stops between the arrival of a batch and its step
        clock.advance(STEP_SECONDS)
        return False

    pretrainer.collective_flags.listen(stop=make_step)
    pretrainer.stopwatch = Stopwatch(clock)
    supervisor = Supervisor(
        small_config(log_interval=2, checkpoint_interval=100).training,
        updates=0,
        validation=Validation(),
        outputs=outputs,
        health=Health(pretrainer.stopwatch, FLOPS_PER_UPDATE, PEAK, clock=clock),
        stop_request=None,
    )
    supervisor.set_model(pretrainer)
    update, iterator = pretrainer.make_train_function(), batches()
    for batch in range(len(seconds_to_load)):
        update(iterator)
        supervisor.on_train_batch_end(batch)
        if batch == 3:
            supervisor.on_test_begin()
            clock.advance(60)
            supervisor.on_test_end()
            supervisor.validated({"loss": 1.0})
    return outputs


@pytest.mark.slow
def test_data_wait_is_the_share_of_time_until_the_next_batch_is_there(pretrainer):
    slow = train(pretrainer, seconds_to_load=[50, 3, 3, 3, 0.25, 0.25]).figures
    assert slow[4]["data_wait_share"] == 6 / (6 + 2)
    assert slow[6]["data_wait_share"] == 0.5 / (0.5 + 2)
    fast = train(pretrainer, seconds_to_load=[50, 0, 0, 0]).figures
    assert fast[4]["data_wait_share"] == 0


def test_speed_leaves_out_the_first_update_and_validations(pretrainer):
    figures = train(pretrainer, seconds_to_load=[50, 3, 1, 1, 2, 2]).figures
    # The first update, which builds the graph, is not in the interval that it is of.
    assert figures[2]["model_flops_utilization"] == FLOPS_PER_UPDATE / (3 + 1) / PEAK
    for updates, seconds in ((4, 2 * (1 + 1)), (6, 2 * (2 + 1))):
        assert figures[updates]["tokens_per_second"] == pytest.approx(
            (figures[updates]["tokens"] - figures[updates - 2]["tokens"]) / seconds
        )
        utilization = 2 * FLOPS_PER_UPDATE / seconds / PEAK
        assert figures[updates]["model_flops_utilization"] == utilization


def test_time_counts_everything_from_the_start(pretrainer):
    outputs = train(pretrainer, seconds_to_load=[50, 3, 1, 1, 2, 2])
    elapsed = {
        updates: row["elapsed_seconds"] for updates, row in outputs.figures.items()
    }
    assert elapsed == {2: 50 + 3 + 2, 4: 55 + 4, 6: 59 + 60 + 6}
    assert outputs.validations[4]["elapsed_seconds"] == 59 + 60
    assert "tokens_per_second" not in outputs.validations[4]


def test_model_without_a_count_of_flops_has_all_the_other_figures():
    clock = Clock()
    measured = Health(Stopwatch(clock), None, PEAK, clock=clock)
    measured.update_done(1, lambda: 10.0)
    clock.advance(2)
    figures = measured.interval(3, 30.0)
    assert figures["tokens_per_second"] == 10
    assert "model_flops_utilization" not in figures


def test_interval_in_which_nothing_was_timed_has_no_speeds():
    clock = Clock()
    measured = Health(Stopwatch(clock), FLOPS_PER_UPDATE, PEAK, clock=clock)
    measured.update_done(1, lambda: 10.0)
    figures = measured.interval(1, 10.0)  # a log interval of one update
    assert not figures.keys() & {"tokens_per_second", "data_wait_share"}


def test_pauses_are_in_no_lap():
    clock = Clock()
    stopwatch = Stopwatch(clock)
    stopwatch.pause()
    stopwatch.go_on()  # of a validation before the first update
    clock.advance(5)
    stopwatch.start()
    clock.advance(1)
    stopwatch.pause()
    clock.advance(10)
    stopwatch.pause()
    stopwatch.go_on()
    clock.advance(2)
    assert stopwatch.lap() == Lap(seconds=3, waited=0)
    assert stopwatch.next_of(itertools.count()) == 0
    assert stopwatch.lap() == Lap(seconds=0, waited=0)


def test_host_memory_is_that_of_this_process():
    before = memory_use.memory_use()
    held = np.ones(2**25)  # a quarter of a GiB
    during = memory_use.memory_use()
    assert during["host_memory_bytes"] > before["host_memory_bytes"] + held.nbytes / 2
    assert during["host_memory_bytes"] <= psutil.virtual_memory().total
    del held
    after = memory_use.memory_use()
    assert after["host_memory_bytes"] < during["host_memory_bytes"] - 2**27
    assert after["host_memory_peak_bytes"] > during["host_memory_bytes"] - 2**27
    assert not any(name.startswith("gpu") for name in after)


def test_peak_of_host_without_a_proc_file_system(monkeypatch, tmp_path):
    monkeypatch.setattr(memory_use, "_STATUS", tmp_path / "absent")
    figures = memory_use.memory_use()
    assert figures["host_memory_peak_bytes"] >= figures["host_memory_bytes"] > 0
    assert psutil.Process(os.getpid()).memory_info().rss > 10 * 2**20


def test_gpu_memory_is_that_of_the_first_gpu(monkeypatch):
    gpus = [
        tf.config.LogicalDevice(f"/device:GPU:{number}", "GPU") for number in (0, 1)
    ]
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: gpus)
    monkeypatch.setattr(
        tf.config.experimental,
        "get_memory_info",
        {"/device:GPU:0": {"current": 5, "peak": 7}}.__getitem__,
    )
    figures = memory_use.memory_use()
    assert figures["gpu_memory_bytes"] == 5
    assert figures["gpu_memory_peak_bytes"] == 7


def test_console_has_short_names_and_rounded_values():
    figures = {
        "tokens_per_second": 12_345.6,
        "model_flops_utilization": 0.4567,
        "data_wait_share": 0.0123,
        "host_memory_bytes": 1.5 * GIB,
        "host_memory_peak_bytes": 2 * GIB,
        "gpu_memory_bytes": 10 * GIB,
        "gpu_memory_peak_bytes": 12.25 * GIB,
        "elapsed_seconds": 83.0,
        "total_seconds": 83.0,
    }
    assert health.shown(figures) == {
        "tokens/s": "12,346",
        "MFU": "45.7%",
        "data wait": "1.2%",
        "host": "1.50/2.00 GiB",
        "GPU": "10.00/12.25 GiB",
        "elapsed": "01:23",
    }
    assert figures.keys() == set(health.FIGURES)
    resumed = health.shown({"elapsed_seconds": 83.0, "total_seconds": 7_283.0})
    assert resumed == {"elapsed": "01:23 (2:01:23 in all)"}


def start_of_two(monkeypatch, *, is_chief=True):
    """The health of a run of two processes, and what is reported of it."""
    distribution = types.SimpleNamespace(
        size=2, is_chief=is_chief, gather=lambda own: [own, 3e12]
    )
    two = types.SimpleNamespace(
        encoder=types.SimpleNamespace(compute_dtype="float16"),
        step_options=types.SimpleNamespace(distribution=distribution),
        stopwatch=Stopwatch(),
    )
    peak = Peak(1e12, "float16 on a GPU")
    monkeypatch.setattr(health.peak_flops, "find_peak", lambda dtype: peak)
    reports = []
    return health.of_run(small_config(), VOCAB_SIZE, two, reports.append), reports


def test_peaks_of_all_processes_are_added_up(monkeypatch):
    started, reports = start_of_two(monkeypatch)
    assert reports == [
        "Peak for MFU: 4 TFLOP/s, float16 on a GPU (of rank 0; the sum is of 2 "
        "processes)"
    ]
    started.update_done(1, lambda: 0.0)
    figures = started.interval(2, 10.0)
    flops = flops_per_update(small_config(), VOCAB_SIZE, num_processes=2)
    updates_per_second = figures["tokens_per_second"] / 10
    assert figures["model_flops_utilization"] == pytest.approx(
        flops * updates_per_second / 4e12
    )
    assert start_of_two(monkeypatch, is_chief=False)[1] == []


def test_model_of_unknown_flops_is_said_to_have_no_utilization(monkeypatch):
    def refuse(*_, **__):
        raise ValueError("`config.model` has no count of FLOPs")

    monkeypatch.setattr(health, "flops_per_update", refuse)
    started, reports = start_of_two(monkeypatch)
    assert reports[1] == "No MFU: `config.model` has no count of FLOPs"
    started.update_done(1, lambda: 0.0)
    assert "model_flops_utilization" not in started.interval(2, 10.0)
