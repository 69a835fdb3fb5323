import dataclasses
import errno
import shutil
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from seg_tf.checkpoints import contents
from seg_tf.training import logs, run_folder, throughput
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.errors import Interrupted, NonFiniteLossError, TrainingStopped
from tests import command_calls
from tests.training.stand_ins import (
    VOCAB_SIZE,
    ArithmeticInputs,
    At,
    pretrain,
    small_config,
    small_learner,
    terminate,
)
from tests.training.test_checkpoint import state_of

pytestmark = pytest.mark.slow


def run(folder, config=None, *events, reports=None, **choice):
    """Pretrains into `folder`; returns the learner and the result."""
    if reports is not None:
        choice["report"] = reports.append
    config = config or small_config()
    return pretrain(folder, config, ArithmeticInputs(), *events, **choice)


def rows_of(folder):
    """The rows of a run's log without the figures that differ between runs."""
    return [
        {name: value for name, value in row.items() if name not in throughput.FIGURES}
        for row in run_folder.read_log(folder / "log.jsonl")
    ]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    learner, result = run(folder)
    return folder, state_of(learner), result


def assert_same_run(folder, learner, result, unbroken):
    unbroken_folder, state, unbroken_result = unbroken
    np.testing.assert_equal(state_of(learner), state)
    assert rows_of(folder) == rows_of(unbroken_folder)
    assert result == unbroken_result


def test_run_stopped_again_and_again_equals_an_unbroken_one(tmp_path, unbroken):
    # Dropout is on, so that the random state matters too.
    stops = [
        (1, "train"),  # at the first update
        (5, "train"),  # at a checkpoint
        (7, "train"),  # between everything; the checkpoint is damaged
        (8, "train"),  # before a validation
        (16, "test"),  # during a validation
        (20, "test"),  # during the last one
    ]
    lines = []
    for number, (updates, during) in enumerate(stops):
        reports = []
        message = f"SIGTERM after update {updates} "
        with pytest.raises(Interrupted, match=message) as caught:
            run(tmp_path, None, At(updates, terminate, during), reports=reports)
        assert caught.value.exit_code == 128 + signal.SIGTERM
        checkpoint = str(tmp_path / f"checkpoints/update-{updates:08d}")
        assert checkpoint in str(caught.value)
        if number:
            assert f"update-{stops[number - 1][0]:08d}" in reports[0]
        if updates == 7:
            damaged = tmp_path / "checkpoints/update-00000007" / contents.ENCODER_FILE
            damaged.write_bytes(damaged.read_bytes()[:-1])
        elif updates == 8:
            assert str(damaged) in reports[0]
            assert "update-00000005" in reports[1]
        lines += reports
    command_calls.check_image(tmp_path / "loss_curve.png")
    learner, result = run(tmp_path, reports=lines)
    assert_same_run(tmp_path, learner, result, unbroken)
    assert sum("ignores the context" in line for line in lines) == 1

    # Finished, it trains no further.
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("update-*/*")}
    learner, result = run(tmp_path)
    assert_same_run(tmp_path, learner, result, unbroken)
    assert stamps == {
        path: path.stat().st_mtime_ns for path in tmp_path.rglob("update-*/*")
    }


def test_log_has_a_row_for_each_interval_and_validation(unbroken):
    folder, _, result = unbroken
    rows = run_folder.read_log(folder / "log.jsonl")
    assert [(row["kind"], row["updates"]) for row in rows] == [
        ("train", 3),
        ("train", 6),
        ("validation", 8),
        ("train", 9),
        ("train", 12),
        ("train", 15),
        ("validation", 16),
        ("train", 18),
        ("validation", 20),
    ]
    assert result.validation["loss"] == rows[-1]["loss"]
    # The default warm-up of so short a run is one update.
    train = [row for row in rows if row["kind"] == "train"]
    expected = [1e-2 * (20 - (row["updates"] - 1)) / 19 for row in train]
    rates = [row["learning_rate"] for row in train]
    np.testing.assert_allclose(rates, expected, rtol=1e-6)
    for row in train:
        assert row["samples"] == 4 * row["updates"]
        # Every third sample is half padding: 6 of its 12 tokens are real.
        samples = range(row["samples"])
        assert row["tokens"] == sum(6 if n % 3 == 0 else 12 for n in samples)
        share = 1 - row["tokens"] / (12 * row["samples"])
        assert row["padding_share"] == pytest.approx(share)
        assert row["gradient_norm"] > 0


class Listener(keras.callbacks.Callback):
    """Keeps the rows that it gets, by TensorBoard's names."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def on_log(self, updates, row):
        self.rows.append((updates, row))


def tensorboard_of(folder):
    """Names, updates and values, in the order of their rows."""
    events = EventAccumulator(str(folder / "tensorboard"), {"tensors": 0})
    events.Reload()
    return {
        name: [
            (event.step, float(tf.make_ndarray(event.tensor_proto)))
            for event in events.Tensors(name)
        ]
        for name in events.Tags()["tensors"]
    }


def test_rows_of_the_log_go_to_callbacks_and_once_to_tensorboard(tmp_path):
    listeners = Listener(), Listener()
    stop, factories = At(16, terminate, "test"), [lambda folder: listeners[0]]
    with pytest.raises(Interrupted):
        run(tmp_path, None, stop, callback_factories=factories)
    # Begins with the validation that was interrupted, before any training.
    run(tmp_path, callback_factories=[lambda folder: listeners[1]])
    assert listeners[1].rows[0][0] == 16
    rows = run_folder.read_log(tmp_path / "log.jsonl")
    told = {}
    for row, (updates, values) in zip(
        rows, listeners[0].rows + listeners[1].rows, strict=True
    ):
        assert updates == row["updates"]
        for name, value in values.items():
            told.setdefault(name, []).append((updates, pytest.approx(value)))
            kind, _, column = name.partition("/")
            assert row[column] == value
            assert kind == ("health" if column in throughput.FIGURES else row["kind"])
        assert len(values) == len(row) - 2
    assert tensorboard_of(tmp_path) == told


def test_log_has_the_health_of_the_run(unbroken):
    folder, _, _ = unbroken
    rows = run_folder.read_log(folder / "log.jsonl")
    for row in rows:
        assert row["host_memory_peak_bytes"] >= row["host_memory_bytes"] > 0
        assert ("tokens_per_second" in row) == (row["kind"] == "train")
        if row["kind"] == "train":
            assert row["tokens_per_second"] > 0
            assert row["model_flops_utilization"] > 0
            assert 0 <= row["data_wait_share"] < 1
        else:
            assert row["loss_without_context"] > 3
    seconds = [row["elapsed_seconds"] for row in rows]
    assert sorted(seconds) == seconds


def test_run_that_fails_leaves_its_curve(tmp_path):
    def fail(model):
        raise RuntimeError("a fault of the program")

    with pytest.raises(RuntimeError, match="a fault of the program"):
        run(tmp_path / "one", None, At(7, fail))
    command_calls.check_image(tmp_path / "one" / "loss_curve.png")
    # Before the first row there is nothing to draw, and the error stays the same.
    with pytest.raises(RuntimeError, match="a fault of the program"):
        run(tmp_path / "two", None, At(2, fail))
    assert not (tmp_path / "two" / "loss_curve.png").exists()


def test_checkpoints_are_those_of_the_intervals_and_the_best(unbroken):
    folder, _, result = unbroken
    checkpoints = Checkpoints(folder / "checkpoints", keep=3)
    validations = {
        row["updates"]: row["loss"]
        for row in rows_of(folder)
        if row["kind"] == "validation"
    }
    best = min(validations, key=validations.get)
    assert result.best_updates == best
    assert result.best_loss == validations[best]
    assert best in checkpoints.updates()
    assert checkpoints.updates()[-1] == 20
    state = checkpoints.newest_intact()
    assert state["samples"] == 80
    assert state["seed"] == 0
    assert state["records"] == {"manifest_checksum": "abc"}
    assert state["validation"]["loss"] == validations[20]
    assert any("model.hidden_size: 8" in line for line in state["deviations"])
    assert {"python", "tensorflow", "keras", "keras-hub"} <= state["versions"].keys()


@pytest.mark.parametrize(("skipped", "samples"), [(20, (92, 95)), (0, (12, 15))])
def test_loss_that_is_not_finite_stops_with_the_last_good_checkpoint(
    tmp_path, skipped, samples
):
    def poison(model):
        model.encoder.weights[0].assign(model.encoder.weights[0] * np.nan)

    config = small_config(
        log_interval=100, checkpoint_interval=3, max_skipped_steps=skipped
    )
    with pytest.raises(NonFiniteLossError) as caught:
        run(tmp_path, config, At(4, poison))
    expected = f"after update 3: {skipped + 1} steps in a row were not finite"
    assert expected in str(caught.value)
    expected = "The last batch was from sample {} to sample {}".format(*samples)
    assert expected in str(caught.value)
    assert f"{tmp_path}/checkpoints/update-00000003" in str(caught.value)
    assert Checkpoints(tmp_path / "checkpoints", keep=3).updates() == [3]


def test_disk_that_is_full_for_the_log_stops_the_run_cleanly(tmp_path, monkeypatch):
    def write(self, kind, updates, values, original=logs.RunLog.write):
        if updates == 9:
            raise OSError(errno.ENOSPC, "No space left on device", str(self.path))
        return original(self, kind, updates, values)

    monkeypatch.setattr(logs.RunLog, "write", write)
    with pytest.raises(TrainingStopped, match=r"after update 9: .*No space") as caught:
        run(tmp_path)
    assert f"{tmp_path}/log.jsonl" in str(caught.value)
    assert f"{tmp_path}/checkpoints/update-00000008" in str(caught.value)


def test_disk_that_is_full_for_events_stops_the_run_cleanly(tmp_path, monkeypatch):
    def scalar(name, value):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left")

    monkeypatch.setattr(tf.summary, "scalar", scalar)
    with pytest.raises(TrainingStopped, match="after update 3: No space left"):
        run(tmp_path)


def test_log_of_a_run_whose_checkpoints_are_gone_is_set_aside(tmp_path, unbroken):
    with pytest.raises(Interrupted):
        run(tmp_path, None, At(16, terminate, "test"))
    log = (tmp_path / "log.jsonl").read_text()
    shutil.rmtree(tmp_path / "checkpoints")
    assert_same_run(tmp_path, *run(tmp_path), unbroken)
    (kept,) = (tmp_path / "set_aside").iterdir()
    assert kept.read_text() == log


def test_vocabulary_of_the_records_is_taken_unless_the_config_has_one():
    def rows(vocab_size):
        config = small_config()
        model = dataclasses.replace(config.model, vocab_size=vocab_size)
        return small_learner(config, model=model).encoder.vocab_size

    assert rows(None) == VOCAB_SIZE
    assert rows(64) == 64
