"""Trials as experiment trackers show them."""

import pytest

from seg_tf import files
from seg_tf.finetuning.trials.trial import Setting
from seg_tf.finetuning.trials.trial_runs import TrialsFolder, all_trials, run_trials
from seg_tf.finetuning.trials.watched_trials import watched_trials
from tests.finetuning.scripted_trials import ScriptedRunner, SilentDisplay
from tests.training import tracker_stand_ins
from tests.training.test_trackers import Folder

SETTINGS = {"task": "scripted/task", "probe": None}
TRIALS = all_trials([Setting(1e-4, 16, 2)], [1, 2])


@pytest.fixture
def folder(tmp_path):
    folder = TrialsFolder(tmp_path / "mrpc")
    folder.prepare(SETTINGS)
    return folder


@pytest.fixture
def wandb(monkeypatch):
    return tracker_stand_ins.install_wandb(monkeypatch)


def run(folder, runner, factories=()):
    watch = watched_trials(folder, SETTINGS, factories, {"wandb": "project"})
    left = [trial for trial in TRIALS if not folder.is_finished(trial)]
    return run_trials(runner, folder, left, SilentDisplay(), watch=watch)


def test_each_trial_is_a_run_with_its_epochs_and_its_scores(folder, wandb):
    run(folder, ScriptedRunner())
    assert [one["name"] for one in wandb.openings] == [
        f"mrpc: lr 0.0001, batch 16, 2 epochs, seed {seed}" for seed in (1, 2)
    ]
    assert {one["group"] for one in wandb.openings} == {"mrpc"}
    assert wandb.openings[1]["config"] == {
        **SETTINGS,
        "learning_rate": 1e-4,
        "batch_size": 16,
        "epochs": 2,
        "seed": 2,
    }
    # A scripted epoch has 4 updates.
    expected = [
        {"updates": 4, "epoch": 1, "loss": 1.0, "dev_f1": 0.25},
        {"updates": 8, "epoch": 2, "loss": 0.5, "dev_f1": 0.5},
        {"updates": 8, "final/f1": 0.5, "final/accuracy": 0.5},
    ]
    assert [one.rows for one in wandb.runs.values()] == [expected, expected]
    assert [one.exit_code for one in wandb.runs.values()] == [0, 0]


def test_a_trial_that_was_cut_off_continues_its_run(folder, wandb):
    with pytest.raises(KeyboardInterrupt):
        run(folder, ScriptedRunner(dies_in=[1]))
    assert [one.exit_code for one in wandb.runs.values()] == [0, 1]
    run(folder, ScriptedRunner())
    assert len(wandb.runs) == 2
    assert [one.exit_code for one in wandb.runs.values()] == [0, 0]
    # Trackers' files are no trials.
    assert len(folder.finished()) == 2


def test_a_trial_that_diverges_is_a_failed_run(folder, wandb):
    assert run(folder, ScriptedRunner(diverges_in=[0])) == TRIALS[:1]
    assert [one.exit_code for one in wandb.runs.values()] == [1, 0]


def test_files_of_callbacks_of_ones_own_are_kept_with_the_trial(folder, wandb):
    made = []

    def factory(path):
        made.append(Folder(path))
        files.write_text(path / "mine.txt", "")
        return made[-1]

    run(folder, ScriptedRunner(), [factory])
    assert [len(one.rows) for one in made] == [3, 3]
    for trial in TRIALS:
        assert (folder.trial_folder(trial) / "mine.txt").exists()
