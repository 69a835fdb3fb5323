"""Runs that are given another length while they continue."""

import dataclasses
import json

import numpy as np
import pytest

from seg_tf import configuration
from seg_tf.checkpoints.pretrained import load_encoder
from seg_tf.training import run_folder
from seg_tf.training.errors import Interrupted
from seg_tf.training.outputs import run_log
from seg_tf.training.run_folder import RunFolder
from tests.scripted_runs import variables_of
from tests.training.stand_ins import At, small_config, terminate
from tests.training.test_pretraining import rows_of, run

pytestmark = pytest.mark.slow

WARMUP = 3


def stable(num_updates, config_class=configuration.StableAdamWConfig, **training):
    """A run on a warm-up–stable–decay schedule, which keeps one checkpoint."""
    return dataclasses.replace(
        small_config(num_updates=num_updates, keep_checkpoints=1, **training),
        optimizer=config_class(
            learning_rate=1e-2, warmup_updates=WARMUP, decay_share=0.2
        ),
    )


def last_checkpoint(folder, updates):
    return folder / "checkpoints" / f"update-{updates:08d}"


def values_of(folder):
    """Every array of a checkpoint, by what of its name two builds of a model share."""
    values = variables_of(folder).items()
    return {
        # Keras counts the layers of a process: group and number say the rest.
        name if "/" in name else ".".join(name.split(".")[:2]): value
        for name, value in values
    }


def assert_ends_alike(folder, other, updates):
    ours, theirs = (values_of(last_checkpoint(one, updates)) for one in (folder, other))
    assert ours.keys() == theirs.keys()
    assert len(ours) > 60
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def train_rows(folder):
    return [row for row in rows_of(folder) if row["kind"] == run_log.TRAIN]


@pytest.fixture(scope="module")
def thirty(tmp_path_factory):
    """A run of 30 updates, given this length from the start."""
    folder = tmp_path_factory.mktemp("thirty")
    run(folder, stable(30))
    return folder


def test_finished_run_goes_back_before_its_decay_and_equals_a_longer_one(
    thirty, tmp_path
):
    # It decays from update 16 on, whose checkpoint its validation has left.
    run(tmp_path, stable(20))
    finished = values_of(last_checkpoint(tmp_path, 20))
    reports = []
    run(tmp_path, stable(30), reports=reports)
    assert_ends_alike(tmp_path, thirty, 30)
    assert train_rows(tmp_path) == train_rows(thirty)
    # What the shorter run ended with is still there, as an output folder.
    end = RunFolder(tmp_path).end_folder(20)
    kept = values_of(last_checkpoint(end, 20))
    for name, value in finished.items():
        np.testing.assert_array_equal(value, kept[name], err_msg=name)
    load_encoder(end)
    said = "\n".join(reports)
    assert "Going back to update 16, before the decay" in said
    assert str(end) in said
    assert "The run has 30 updates from update 16 on, where it had 20" in said
    assert "at the learning rate 0.01, by either length" in said


def test_run_that_is_made_longer_before_its_decay_equals_a_longer_one(thirty, tmp_path):
    with pytest.raises(Interrupted):
        run(tmp_path, stable(20), At(11, terminate))
    reports = []
    run(tmp_path, stable(30), reports=reports)
    assert_ends_alike(tmp_path, thirty, 30)
    assert not any("Going back" in line for line in reports)
    assert not RunFolder(tmp_path).ends_folder.exists()


def test_run_with_muon_that_was_interrupted_ends_with_the_same_bits(tmp_path):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    config = stable(20, configuration.MuonConfig)
    run(whole, config)
    with pytest.raises(Interrupted):
        run(resumed, config, At(11, terminate))
    run(resumed, config)
    assert_ends_alike(resumed, whole, 20)
    assert train_rows(resumed) == train_rows(whole)


def test_kill_before_the_new_length_is_recorded_changes_nothing(
    thirty, tmp_path, monkeypatch
):
    run(tmp_path, stable(20))
    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "record", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError) as killed:
            run(tmp_path, stable(30))
    run(tmp_path, stable(30))
    # The run that failed still exists, in the error's traceback, and holds no lock.
    assert killed.traceback
    assert_ends_alike(tmp_path, thirty, 30)
    assert [one["updates"] for one in run_folder.history(RunFolder(tmp_path))] == [16]


def test_run_without_a_checkpoint_from_before_its_decay_says_so(tmp_path):
    at_the_end = {"checkpoint_interval": 20, "validation_interval": 20}
    run(tmp_path, stable(20, **at_the_end))
    reports = []
    run(tmp_path, stable(30, **at_the_end), reports=reports)
    assert "No checkpoint is left from before update 16" in reports[0]
    assert train_rows(tmp_path)[-1]["updates"] == 30


def test_decaying_run_goes_on_at_the_rates_of_the_longer_run(tmp_path):
    run(tmp_path, small_config(num_updates=10, log_interval=1))
    reports = []
    _, result = run(
        tmp_path, small_config(num_updates=14, log_interval=1), reports=reports
    )
    assert result.updates == 14
    rates = {row["updates"]: row["learning_rate"] for row in train_rows(tmp_path)}
    # Linear, after one update of warm-up: up to update 10 of 10, then of 14.
    assert rates[10] == pytest.approx(1e-2 * 1 / 9)
    assert rates[11] == pytest.approx(1e-2 * 4 / 13)
    assert rates[14] == pytest.approx(1e-2 * 1 / 13)
    assert "learning rate 0.00307692, which was to be 0" in "\n".join(reports)
    content = json.loads((tmp_path / "run.json").read_text())
    assert content["config"]["training"]["num_updates"] == 14
    (event,) = content["history"]
    assert (event["updates"], event["num_updates_before"]) == (10, 10)
    assert (event["num_updates"], event["learning_rate_before"]) == (14, 0.0)
    assert event["learning_rate"] == pytest.approx(1e-2 * 4 / 13)


def test_history_stays_when_the_run_is_taken_up_again(tmp_path):
    folder = RunFolder(tmp_path)
    one, two = (
        run_folder.describe_run(
            small_config(num_updates=number), {"manifest_checksum": "abc"}
        )
        for number in (10, 20)
    )
    choice = {"resume": True, "overwrite": False}
    assert run_folder.prepare(folder, one, **choice) is None
    change = run_folder.prepare(folder, two, **choice)
    assert change == run_folder.LengthChange(10, 20)
    # Not before it is decided where the new length begins.
    assert run_folder.prepare(folder, two, **choice) == change
    run_folder.record(folder, two, {"updates": 5})
    assert run_folder.prepare(folder, two, **choice) is None
    assert run_folder.history(folder) == [{"updates": 5}]
    run_folder.prepare(folder, two, resume=True, overwrite=True)
    assert run_folder.history(folder) == []
