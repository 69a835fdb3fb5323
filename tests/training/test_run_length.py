"""Runs that are given another length while they continue."""

import dataclasses

import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import load_encoder
from seg_tf.config import MuonConfig
from seg_tf.training import run_folder, trainer
from tests.scripted_runs import variables_of
from tests.training.stand_ins import small_config
from tests.training.test_pretraining import rows_of, run

pytestmark = pytest.mark.slow


def stable(num_updates):
    """A run on a warm-up–stable–decay schedule, which keeps one checkpoint."""
    return dataclasses.replace(
        small_config(num_updates=num_updates, keep_checkpoints=1),
        optimizer=MuonConfig(learning_rate=1e-2, warmup_updates=3, decay_share=0.2),
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
    assert len(ours) > 60
    np.testing.assert_equal(ours, theirs)


def train_rows(folder):
    return [row for row in rows_of(folder) if row["kind"] == run_folder.TRAIN]


def test_longer_run_goes_back_before_the_decay_and_equals_one_of_its_length(
    tmp_path, monkeypatch
):
    thirty, longer = tmp_path / "thirty", tmp_path / "longer"
    run(thirty, stable(30))
    # It decays from update 16 on, whose checkpoint is kept.
    run(longer, stable(20))
    finished = values_of(last_checkpoint(longer, 20))
    with monkeypatch.context() as patch:  # killed before the new length is recorded
        patch.setattr(trainer.files, "write_json", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(longer, stable(30))
    reports = []
    run(longer, stable(30), reports=reports)
    assert "After update 16, the run continues to 30 updates, not to 20" in reports
    assert_ends_alike(longer, thirty, 30)
    assert train_rows(longer) == train_rows(thirty)
    end = longer / "set_aside" / "update-00000020"
    np.testing.assert_equal(values_of(end), finished)
    load_encoder(end)


def test_decaying_run_continues_at_the_rates_of_the_longer_run(tmp_path):
    run(tmp_path, small_config(num_updates=10, log_interval=1))
    run(tmp_path, small_config(num_updates=14, log_interval=1))
    rates = {row["updates"]: row["learning_rate"] for row in train_rows(tmp_path)}
    # Linear, after one update of warmup: up to update 10 of 10, then of 14.
    assert rates[10] == pytest.approx(1e-2 * 1 / 9)
    assert rates[11] == pytest.approx(1e-2 * 4 / 13)
    assert rates[14] == pytest.approx(1e-2 * 1 / 13)
