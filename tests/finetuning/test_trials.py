"""Trials: run, continued, and summed up in a table that is worked out by hand."""

import pytest

from seg_tf import files
from seg_tf.finetuning import trial_report as report
from seg_tf.finetuning.trials import TrialsFolder, all_trials, run_trials
from seg_tf.tasks.finetuning_settings import Setting
from tests.finetuning.scripted_trials import ScriptedRunner, finished

SETTINGS = [Setting(1e-4, 16, 2), Setting(3e-5, 16, 3)]
TRIALS = all_trials(SETTINGS, [1, 2])


@pytest.fixture
def folder(tmp_path):
    folder = TrialsFolder(tmp_path / "mrpc")
    folder.prepare({"task": "scripted/task", "limit": None})
    return folder


def run(runner, folder, trials=TRIALS, **arguments):
    left = [trial for trial in trials if not folder.is_finished(trial)]
    return run_trials(runner, folder, left, **arguments)


def test_a_finished_trial_is_a_folder_with_scores_epochs_and_predictions(folder):
    run(ScriptedRunner(), folder, TRIALS[:1])
    path = folder.path / "trials/lr=0.0001_batch=16_epochs=2_seed=1"
    content = {
        "seed": 1,
        "scores": {"f1": 0.5, "accuracy": 0.5},
        "epochs": [{"loss": 1.0, "dev_f1": 0.25}, {"loss": 0.5, "dev_f1": 0.5}],
    }
    setting = {"learning_rate": 1e-4, "batch_size": 16, "epochs": 2}
    assert files.read_json(path / "trial.json") == {"setting": setting, **content}
    (found,) = folder.finished()
    assert found == TRIALS[0]
    assert vars(found) == {"setting": SETTINGS[0], **content, "folder": path}
    assert (found.folder / "predictions.txt").read_text() == "0"


def test_a_cut_off_command_goes_on_with_the_unfinished_trial_anew(folder):
    runner = ScriptedRunner(dies_in=[2])
    with pytest.raises(KeyboardInterrupt):
        run(runner, folder)
    assert folder.finished() == TRIALS[:2]
    assert len(list(folder.path.glob("trials/*"))) == 2
    # What a killed one leaves.
    (folder.path / "trials" / f".aside-{TRIALS[2].name}.lock").touch()
    (folder.path / "trials" / ".aside-0" / TRIALS[2].name).mkdir(parents=True)
    run(runner, folder)
    assert runner.runs == [*TRIALS[:3], *TRIALS[2:]]
    assert set(folder.finished()) == set(TRIALS)
    assert len(list(folder.path.glob("trials/*"))) == 4
    run(runner, folder)
    assert len(runner.runs) == 5
    # Another command for the same folder leaves a trial that is running alone.
    with files.new_folder(folder.path / "trials" / "running") as aside:
        folder.prepare({"task": "scripted/task", "limit": None})
        assert aside.exists()


def test_a_trial_that_diverges_keeps_no_other_from_being_run(folder, capsys):
    runner = ScriptedRunner(diverges_in=[1, 3])
    assert run(runner, folder) == [TRIALS[1], TRIALS[3]]
    assert runner.runs == TRIALS
    assert set(folder.finished()) == {TRIALS[0], TRIALS[2]}
    # Nothing is left of them, under no name.
    assert len(list(folder.path.glob("trials/*"))) == 2
    said = capsys.readouterr().err
    title = "scripted/task: trial 2/4, lr 0.0001, batch 16, 2 epochs, seed 2"
    assert f"{title}\n" in said
    assert f"{title}: f1 none: diverged\n" in said
    # Given again, those two are tried again.
    assert run(runner, folder) == []
    assert runner.runs[4:] == [TRIALS[1], TRIALS[3]]


def test_other_settings_are_an_error_that_names_them(folder):
    same = {"task": "scripted/task", "limit": None}
    # Without any trial they may change.
    folder.prepare({**same, "limit": 100})
    folder.prepare(same)
    run(ScriptedRunner(), folder, TRIALS[:1])
    with pytest.raises(ValueError, match=r"limit: None there, 100 now.*--output_dir"):
        folder.prepare({**same, "limit": 100})
    assert folder.settings() == same
    files.write_json(folder.path / "settings.json", same)
    with pytest.raises(ValueError, match=r"json: `version` must be 3.*: 1, of"):
        folder.check(same)


@pytest.mark.parametrize(
    ("dev_scores", "patience", "num_epochs", "best"),
    [
        # The first of equals is best, and equals are no progress.
        ((0.5, 0.75, 0.75, 0.6, 0.9, 1.0), 2, 4, 2),
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


# === Report ===


SCORED = [
    finished(0.5, 1, accuracy=0.6),
    finished(0.7, 2, accuracy=0.7),
    finished(0.9, 3, accuracy=0.8),
    finished(0.75, 1, 3e-5, accuracy=0.9),
    finished(0.8, 2, 3e-5, accuracy=0.7),
]


def test_best_setting_is_that_of_the_best_mean_and_not_of_the_best_trial():
    assert report.best_setting(SCORED, "f1") == SCORED[3:]
    assert report.best_trial(SCORED, "f1") is SCORED[2]


def test_summary_has_a_line_a_setting_and_one_for_the_baseline():
    text = report.summary(SCORED, "f1", {"without a model": {"f1": 0.8}})
    assert [" ".join(line.split()) for line in text.splitlines()] == [
        "setting seeds f1 mean std min max accuracy mean",
        "lr 0.0001, batch 16, 2 epochs 3 0.7000 0.2000 0.5000 0.9000 0.7000",
        "* lr 3e-05, batch 16, 2 epochs 2 0.7750 0.0354 0.7500 0.8000 0.8000",
        "without a model 0.8000 –",
    ]


def test_csv_has_a_row_a_trial_and_what_was_chosen_on_dev(tmp_path):
    path = tmp_path / "results.csv"
    trials = [SCORED[0], finished(0.25, 2, epochs=3, l2=1e-5)]
    report.write_csv(trials, path)
    assert path.read_text().splitlines() == [
        "learning_rate,batch_size,epochs,seed,epochs_trained,f1,accuracy,l2",
        "0.0001,16,2,1,2,0.5,0.6,",
        "0.0001,16,3,2,2,0.25,,1e-05",
    ]
    header, *_ = report.summary(trials[1:], "f1", {}).splitlines()
    assert header.endswith(" max")
