"""Trials: what is run, what is kept, and what goes on after a cut-off."""

import pytest

from seg_tf import files
from seg_tf.finetuning.trials.trial import Setting
from seg_tf.finetuning.trials.trial_runs import TrialsFolder, all_trials, run_trials
from tests.finetuning.scripted_trials import ScriptedRunner, SilentDisplay

SETTINGS = [Setting(1e-4, 16, 2), Setting(3e-5, 16, 3)]
TRIALS = all_trials(SETTINGS, [1, 2])


@pytest.fixture
def folder(tmp_path):
    folder = TrialsFolder(tmp_path / "mrpc")
    folder.prepare({"task": "scripted/task", "limit": None})
    return folder


def run(runner, folder, trials=TRIALS, **arguments):
    left = [trial for trial in trials if not folder.is_finished(trial)]
    display = SilentDisplay()
    display.diverged = run_trials(runner, folder, left, display, **arguments)
    return display


def test_every_setting_has_every_seed_once():
    assert [(trial.setting, trial.seed) for trial in TRIALS] == [
        (SETTINGS[0], 1),
        (SETTINGS[0], 2),
        (SETTINGS[1], 1),
        (SETTINGS[1], 2),
    ]
    assert all_trials([*SETTINGS, SETTINGS[0]], [1, 2, 1]) == TRIALS


def test_a_finished_trial_is_a_folder_with_scores_epochs_and_predictions(folder):
    display = run(ScriptedRunner(), folder, TRIALS[:1])
    path = folder.path / "trials/learning_rate=0.0001,batch_size=16,epochs=2,seed=1"
    assert files.read_json(path / "scores.json") == {
        "setting": {"learning_rate": 1e-4, "batch_size": 16, "epochs": 2},
        "seed": 1,
        "scores": {"f1": 0.5, "accuracy": 0.5},
    }
    (found,) = folder.finished()
    assert found.trial == TRIALS[0]
    assert found.epochs == [
        {"epoch": 1, "loss": 1.0, "dev_f1": 0.25},
        {"epoch": 2, "loss": 0.5, "dev_f1": 0.5},
    ]
    assert (found.folder / "predictions.txt").read_text() == "0"
    assert display.told == [(0, TRIALS[0]), {"f1": 0.5, "accuracy": 0.5}]


def test_a_cut_off_command_goes_on_with_the_unfinished_trial_anew(folder):
    runner = ScriptedRunner(dies_in=[2])
    with pytest.raises(KeyboardInterrupt):
        run(runner, folder)
    assert [one.trial for one in folder.finished()] == TRIALS[:2]
    assert len(list(folder.path.glob("trials/*"))) == 2
    # What a killed one leaves.
    (folder.path / "trials" / f".aside-{TRIALS[2].name}.lock").touch()
    (folder.path / "trials" / ".aside-0" / TRIALS[2].name).mkdir(parents=True)
    run(runner, folder)
    assert runner.runs == [*TRIALS[:3], *TRIALS[2:]]
    assert {one.trial for one in folder.finished()} == set(TRIALS)
    (third,) = (one for one in folder.finished() if one.trial == TRIALS[2])
    assert (third.folder / "predictions.txt").read_text() == "3"
    assert len(list(folder.path.glob("trials/*"))) == 4
    run(runner, folder)
    assert len(runner.runs) == 5


def test_a_trial_that_diverges_keeps_no_other_from_being_run(folder):
    runner = ScriptedRunner(diverges_in=[1, 3])
    display = run(runner, folder)
    assert runner.runs == TRIALS
    assert display.diverged == [TRIALS[1], TRIALS[3]]
    assert {one.trial for one in folder.finished()} == {TRIALS[0], TRIALS[2]}
    # Nothing is left of them, under no name.
    assert len(list(folder.path.glob("trials/*"))) == 2
    assert display.told[2:4] == [(1, TRIALS[1]), None]
    # Given again, those two are tried again.
    assert run(runner, folder).diverged == []
    assert runner.runs[4:] == [TRIALS[1], TRIALS[3]]


def test_other_errors_end_the_trials(folder):
    runner = ScriptedRunner(dev_scores=())
    with pytest.raises(IndexError):
        run(runner, folder)
    assert runner.runs == TRIALS[:1]


def test_what_a_cut_off_left_is_removed_by_the_next_command(folder):
    runner = ScriptedRunner(dies_in=[1])
    with pytest.raises(KeyboardInterrupt):
        run(runner, folder)
    # Of a trial that no later command may ask for again.
    folder.prepare(folder.settings())
    (left,) = folder.path.glob("trials/*")
    assert left == folder.trial_folder(TRIALS[0])


def test_other_settings_are_an_error_that_names_them(folder):
    same = {"task": "scripted/task", "limit": None}
    folder.check(same)
    with pytest.raises(ValueError, match=r"limit: None there, 100 now.*--output_dir"):
        folder.prepare({**same, "limit": 100})
    with pytest.raises(ValueError, match="seen: absent there, 3 now"):
        folder.check({**same, "seen": 3})
    assert folder.settings() == same


def test_a_folder_without_trials_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"Found no .*settings\.json"):
        TrialsFolder(tmp_path).settings()


def test_a_folder_is_locked_by_one_command(folder):
    with folder.locked():
        with folder.locked(is_chief=False):
            pass
        with pytest.raises(ValueError, match="in use"), folder.locked():
            pass


@pytest.mark.parametrize(
    ("dev_scores", "patience", "num_epochs", "best"),
    [
        # The first of equals is best, and equals are no progress.
        ((0.5, 0.75, 0.75, 0.6, 0.9, 1.0), 2, 4, 2),
        ((0.5, 0.4, 0.6, 0.5, 0.7, 0.6), 2, 6, 5),
        ((0.0, 0.0, 0.0, 0.0, 0.0, 0.0), 3, 4, 1),
        ((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), 1, 6, 6),
    ],
)
def test_early_stopping_goes_back_to_the_best_epoch(
    folder, dev_scores, patience, num_epochs, best
):
    runner = ScriptedRunner(dev_scores)
    run(runner, folder, all_trials([Setting(1e-4, 16, 6)], [1]), patience=patience)
    (trial,) = folder.finished()
    assert len(trial.epochs) == num_epochs
    assert runner.last_epoch_of_weights == best
    assert trial.scores["f1"] == dev_scores[best - 1]


def test_early_stopping_needs_the_metric(folder):
    runner = ScriptedRunner()
    runner.main_metric = "matthews"
    with pytest.raises(ValueError, match=r"dev_matthews after every.*dev_f1, loss"):
        run(runner, folder, patience=1)
    assert folder.finished() == []
