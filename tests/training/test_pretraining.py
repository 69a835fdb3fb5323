import dataclasses
import errno
import os
import pathlib
import signal

import keras
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from seg_tf.checkpoints import contents
from seg_tf.data.record_sources import RecordSource
from seg_tf.training import build, logs, run_folder, throughput
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.errors import Interrupted, NonFiniteLossError, TrainingStopped
from seg_tf.training.logs import RunWriter
from seg_tf.training.run_folder import RunFolder
from tests import command_calls
from tests.training.stand_ins import (
    LENGTH,
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


def run(folder, config=None, *callbacks, reports=None, **choice):
    """Pretrains into `folder`; returns the learner and the result."""
    if reports is not None:
        choice["report"] = reports.append
    config = config or small_config()
    return pretrain(folder, config, ArithmeticInputs(), *callbacks, **choice)


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
    for one, two in zip(state_of(learner), state, strict=True):
        np.testing.assert_array_equal(one, two)
    assert rows_of(folder) == rows_of(unbroken_folder)
    assert result == unbroken_result


def test_run_stopped_again_and_again_equals_an_unbroken_one(tmp_path, unbroken):
    # Dropout is on, so that the random state matters too.
    stops = [
        (1, "train"),  # at the first update
        (5, "train"),  # at a checkpoint
        (7, "train"),  # between everything
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
        lines += reports
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


def test_run_whose_newest_checkpoint_is_damaged_equals_an_unbroken_one(
    tmp_path, unbroken
):
    with pytest.raises(Interrupted):
        run(tmp_path, None, At(13, terminate))
    damaged = tmp_path / "checkpoints" / "update-00000013" / contents.ENCODER_FILE
    damaged.write_bytes(damaged.read_bytes()[:-1])
    reports = []
    learner, result = run(tmp_path, reports=reports)
    assert str(damaged) in reports[0]
    assert "update-00000010" in reports[1]
    assert_same_run(tmp_path, learner, result, unbroken)


def test_damaged_checkpoint_takes_no_place_of_a_whole_one(tmp_path):
    config = small_config(keep_checkpoints=1, checkpoint_interval=4)
    with pytest.raises(Interrupted):
        run(tmp_path, config, At(15, terminate))
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=1)
    assert 15 in checkpoints.updates()
    (checkpoints.path(15) / contents.ENCODER_FILE).write_bytes(b"")
    # 8 is the best so far; from there the run is stopped again before 15.
    with pytest.raises(Interrupted):
        run(tmp_path, config, At(13, terminate))
    assert checkpoints.updates()[-1] == 13
    assert checkpoints.newest_intact()["updates"] == 13


def test_callbacks_are_told_of_each_row_of_the_log(tmp_path):
    class Listener(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.rows = []

        def on_log(self, updates, row):
            self.rows.append((updates, row))

    first, second = Listener(), Listener()
    with pytest.raises(Interrupted):
        run(tmp_path, None, At(16, terminate, "test"), first)
    # Begins with the validation that was interrupted, before any training.
    run(tmp_path, None, second)
    told = [*first.rows, *second.rows]
    rows = run_folder.read_log(tmp_path / "log.jsonl")
    assert [updates for updates, _ in told] == [row["updates"] for row in rows]
    assert second.rows[0][0] == 16
    for row, (_, values) in zip(rows, told, strict=True):
        kind = row["kind"]
        for name in row.keys() - {"kind", "updates"}:
            prefix = "health" if name in throughput.FIGURES else kind
            assert values.pop(f"{prefix}/{name}") == row[name]
        assert not values


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
    rates = [row["learning_rate"] for row in rows if row["kind"] == "train"]
    expected = [1e-2 * (20 - (updates - 1)) / 19 for updates in range(3, 19, 3)]
    np.testing.assert_allclose(rates, expected, rtol=1e-6)
    train = [row for row in rows if row["kind"] == "train"]
    assert [row["samples"] for row in train] == [4 * row["updates"] for row in train]
    # Every third sample is half padding: 6 of its 12 tokens are real.
    tokens = [
        sum(6 if sample % 3 == 0 else 12 for sample in range(row["samples"]))
        for row in train
    ]
    assert [row["tokens"] for row in train] == tokens
    for row in train:
        positions = 12 * row["samples"]
        assert row["padding_share"] == pytest.approx(1 - row["tokens"] / positions)
    assert all(row["gradient_norm"] > 0 for row in train)


def test_log_and_tensorboard_have_the_health_of_the_run(unbroken):
    folder, _, _ = unbroken
    rows = run_folder.read_log(folder / "log.jsonl")
    for row in rows:
        assert row["host_memory_peak_bytes"] >= row["host_memory_bytes"] > 0
        assert row["total_seconds"] == row["elapsed_seconds"]
        assert ("tokens_per_second" in row) == (row["kind"] == "train")
        if row["kind"] == "train":
            assert row["tokens_per_second"] > 0
            assert row["model_flops_utilization"] > 0
            assert 0 <= row["data_wait_share"] < 1
    seconds = [row["elapsed_seconds"] for row in rows]
    assert sorted(seconds) == seconds
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    levels = [row for row in rows if row["kind"] == "validation"]
    for name in ("loss_without_context", "masked_lm_loss_without_context"):
        assert levels[0][name] == levels[-1][name] > 3
        written = [event.value for event in events.Scalars(f"validation/{name}")]
        np.testing.assert_allclose(written, [row[name] for row in levels])
    for name in rows[-2].keys() & set(throughput.FIGURES):
        written = [event.value for event in events.Scalars(f"health/{name}")]
        expected = [row[name] for row in rows if name in row]
        np.testing.assert_allclose(written, expected, rtol=1e-6)


def test_total_time_goes_on_where_the_resumed_log_ends(tmp_path):
    def outputs(updates):
        folder = RunFolder(tmp_path)
        checkpoints = Checkpoints(folder.checkpoints_folder, keep=1)
        return RunWriter(folder, checkpoints, small_config(), updates, False)

    def write(outputs, updates, seconds):
        row = {"loss": 1.0, "learning_rate": 0.1}
        outputs.write_interval(updates, row, {"elapsed_seconds": seconds})

    first = outputs(0)
    write(first, 3, 10.0)
    write(first, 6, 20.0)  # lost, since the process is killed before a checkpoint
    first.close()
    second = outputs(5)
    write(second, 6, 7.0)
    second.close()
    rows = run_folder.read_log(tmp_path / "log.jsonl")
    assert [(row["elapsed_seconds"], row["total_seconds"]) for row in rows] == [
        (10, 10),
        (7, 17),
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_run_leaves_its_curve(tmp_path, number):
    stop = At(7, lambda model: os.kill(os.getpid(), number))
    with pytest.raises(Interrupted):
        run(tmp_path, None, stop)
    command_calls.check_image(tmp_path / "loss_curve.png")


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


def test_loss_that_is_not_finite_stops_with_the_last_good_checkpoint(tmp_path):
    def poison(model):
        model.encoder.weights[0].assign(model.encoder.weights[0] * np.nan)

    config = small_config(log_interval=100, checkpoint_interval=3)
    with pytest.raises(NonFiniteLossError) as caught:
        run(tmp_path, config, At(4, poison))
    assert "after update 3: the 21 steps after it were all skipped" in str(caught.value)
    # The batch of the last step, in which every sample meets the bad weight.
    samples = [f"sample {3 * 4 + 20 * 4 + row}" for row in range(4)]
    assert f"not finite for {', '.join(samples)}." in str(caught.value)
    assert f"{tmp_path}/checkpoints/update-00000003" in str(caught.value)
    assert Checkpoints(tmp_path / "checkpoints", keep=3).updates() == [3]


def test_validation_that_is_not_finite_stops_the_run(tmp_path):
    def poison(model):
        model.encoder.weights[0].assign(model.encoder.weights[0] * np.nan)

    config = small_config(log_interval=100, checkpoint_interval=100)
    with pytest.raises(NonFiniteLossError, match="No checkpoint was written before"):
        run(tmp_path, config, At(8, poison))


def test_callback_that_ends_the_run_early_leaves_a_checkpoint(tmp_path):
    def stop(model):
        model.stop_training = True

    _, result = run(tmp_path, None, At(7, stop))
    assert result.updates == 7
    assert Checkpoints(tmp_path / "checkpoints", keep=3).updates() == [5, 7]
    assert [row["updates"] for row in rows_of(tmp_path)][-1] == 7


def test_disk_that_is_full_for_the_log_stops_the_run_cleanly(tmp_path, monkeypatch):
    def write(self, kind, updates, values, original=logs.RunLog.write):
        if updates == 9:
            raise OSError(errno.ENOSPC, "No space left on device", str(self.path))
        original(self, kind, updates, values)

    monkeypatch.setattr(logs.RunLog, "write", write)
    with pytest.raises(TrainingStopped, match=r"after update 9: .*No space") as caught:
        run(tmp_path)
    assert f"{tmp_path}/log.jsonl" in str(caught.value)
    assert f"{tmp_path}/checkpoints/update-00000008" in str(caught.value)


def test_half_precision_trains_and_resumes_exactly(tmp_path):
    config = small_config(dtype_policy="mixed_bfloat16", num_updates=5)
    whole, whole_result = run(tmp_path / "whole", config)
    state = state_of(whole)
    with pytest.raises(Interrupted):
        run(tmp_path / "broken", config, At(2, terminate))
    resumed, result = run(tmp_path / "broken", config)
    assert resumed.encoder.compute_dtype == "bfloat16"
    for one, two in zip(state_of(resumed), state, strict=True):
        np.testing.assert_array_equal(one, two)
    assert result == whole_result
    assert keras.config.dtype_policy().name == "float32"  # only the model's


def test_inputs_that_do_not_fit_are_refused_before_anything_is_written():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class NoShardsConfig:
        implementation = NoShards

    config = dataclasses.replace(small_config(), inputs=NoShardsConfig())
    with pytest.raises(ValueError, match="the shard is missing"):
        build.build_inputs(
            config, {"records": RecordSource(pathlib.Path("records"), 1)}
        )


class NoShards(ArithmeticInputs):
    """Records whose shards are found wanting when a dataset is made of them."""

    def __init__(self, records_dir, index_tables, seed, vocab_size):
        assert (records_dir, seed, vocab_size) == ("records", 0, None)
        assert index_tables == {"position_index": LENGTH}

    def validation_dataset(self, **arguments):
        raise ValueError("the shard is missing")


def test_vocabulary_of_the_records_is_taken_unless_the_config_has_one():
    def rows(vocab_size):
        config = small_config()
        model = dataclasses.replace(config.model, vocab_size=vocab_size)
        return small_learner(config, model=model).encoder.vocab_size

    assert rows(None) == VOCAB_SIZE
    assert rows(64) == 64
