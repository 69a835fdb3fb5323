"""Trials: run, resumed, tracked, and shown while they run."""

import io
import re

import pytest

from seg_tf import files
from seg_tf.finetuning.trials import Setting, TrialsFolder, all_trials, run_trials
from tests.finetuning.scripted_trials import ScriptedRunner
from tests.training import tracker_stand_ins
from tests.training.test_trackers import Folder

SETTINGS = [Setting(1e-4, 16, 2), Setting(3e-5, 16, 3)]
TRIALS = all_trials(SETTINGS, [1, 2])


@pytest.fixture
def folder(tmp_path):
    folder = TrialsFolder(tmp_path / "mrpc")
    folder.prepare({"task": "scripted/task", "limit": None})
    return folder


def run(runner, folder, trials=TRIALS, **arguments):
    left = [trial for trial in trials if not folder.is_finished(trial)]
    return run_trials(runner, folder, left, **{"stream": io.StringIO(), **arguments})


def test_a_finished_trial_is_a_folder_with_scores_epochs_and_predictions(folder):
    run(ScriptedRunner(), folder, TRIALS[:1])
    path = folder.path / "trials/lr=0.0001_batch=16_epochs=2_seed=1"
    content = {
        "seed": 1,
        "scores": {"f1": 0.5, "accuracy": 0.5},
        "epochs": [
            {"epoch": 1, "loss": 1.0, "dev_f1": 0.25},
            {"epoch": 2, "loss": 0.5, "dev_f1": 0.5},
        ],
    }
    setting = {"learning_rate": 1e-4, "batch_size": 16, "epochs": 2, "probe": None}
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
    (third,) = (one for one in folder.finished() if one == TRIALS[2])
    assert (third.folder / "predictions.txt").read_text() == "3"
    assert len(list(folder.path.glob("trials/*"))) == 4
    run(runner, folder)
    assert len(runner.runs) == 5


def test_a_trial_that_diverges_keeps_no_other_from_being_run(folder):
    runner = ScriptedRunner(diverges_in=[1, 3])
    assert run(runner, folder) == [TRIALS[1], TRIALS[3]]
    assert runner.runs == TRIALS
    assert set(folder.finished()) == {TRIALS[0], TRIALS[2]}
    # Nothing is left of them, under no name.
    assert len(list(folder.path.glob("trials/*"))) == 2
    # Given again, those two are tried again.
    assert run(runner, folder) == []
    assert runner.runs[4:] == [TRIALS[1], TRIALS[3]]


def test_other_settings_are_an_error_that_names_them(folder):
    same = {"task": "scripted/task", "limit": None}
    folder.check(same)
    with pytest.raises(ValueError, match=r"limit: None there, 100 now.*--output_dir"):
        folder.prepare({**same, "limit": 100})
    with pytest.raises(ValueError, match="seen: absent there, 3 now"):
        folder.check({**same, "seen": 3})
    assert folder.settings() == same
    files.write_json(folder.path / "settings.json", same)
    with pytest.raises(ValueError, match=r"json: `version` must be 2.*: 1, of"):
        folder.check(same)


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


# === Trackers and callbacks ===


@pytest.fixture
def wandb(monkeypatch):
    return tracker_stand_ins.install_wandb(monkeypatch)


def tracked(folder, runner, factories=()):
    tracked = {"factories": factories, "chosen_trackers": {"wandb": "project"}}
    return run(runner, folder, TRIALS[:2], **tracked)


def test_each_trial_is_a_run_with_its_epochs_and_its_scores(folder, wandb):
    tracked(folder, ScriptedRunner())
    assert [one["name"] for one in wandb.openings] == [
        f"mrpc: lr 0.0001, batch 16, 2 epochs, seed {seed}" for seed in (1, 2)
    ]
    assert {one["group"] for one in wandb.openings} == {"mrpc"}
    assert wandb.openings[1]["config"] == {
        "task": "scripted/task",
        "limit": None,
        "probe": None,
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
        tracked(folder, ScriptedRunner(dies_in=[1]))
    assert [one.exit_code for one in wandb.runs.values()] == [0, 1]
    tracked(folder, ScriptedRunner())
    assert len(wandb.runs) == 2
    assert [one.exit_code for one in wandb.runs.values()] == [0, 0]
    # Trackers' files are no trials.
    assert len(folder.finished()) == 2


def test_files_of_callbacks_of_ones_own_are_kept_with_the_trial(folder, wandb):
    made = []

    def factory(path):
        made.append(Folder(path))
        files.write_text(path / "mine.txt", "")
        return made[-1]

    tracked(folder, ScriptedRunner(), [factory])
    assert [len(one.rows) for one in made] == [3, 3]
    for trial in TRIALS[:2]:
        assert (folder.trial_folder(trial) / "mine.txt").exists()


# === Progress ===


class Terminal(io.StringIO):
    def isatty(self):
        return True


SHORT = all_trials([Setting(1e-4, 16, 1), Setting(1e-4, 16, 2)], [7])


def shown(folder, stream, runner=None, **arguments):
    runner = runner or ScriptedRunner((0.25, 0.2, 0.1))
    run(runner, folder, SHORT, name="glue/mrpc", stream=stream, **arguments)
    return stream.getvalue()


def test_lines_of_epochs_and_trials(folder):
    text = shown(folder, io.StringIO())
    lines = [re.sub(r"  left [\d:]+$", "", line) for line in text.splitlines()]
    name = "glue/mrpc: trial"
    assert lines == [
        f"{name} 1/2, epoch 1/1  loss 1.0000  dev_f1 0.2500",
        f"{name} 1/2, lr 0.0001, batch 16, 1 epoch, seed 7: f1 0.2500",
        f"{name} 2/2, epoch 1/2  loss 1.0000  dev_f1 0.2500",
        f"{name} 2/2, epoch 2/2  loss 0.5000  dev_f1 0.2000",
        f"{name} 2/2, lr 0.0001, batch 16, 2 epochs, seed 7: f1 0.2000",
    ]
    assert text.endswith("left 00:00\n")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_trial_without_scores_is_shown_as_diverged(folder, stream):
    text = shown(folder, stream, ScriptedRunner((0.25, 0.2), diverges_in=[1]))
    assert re.search(r"f1[:=]? ?=?none: diverged", text.replace("last ", ""))


@pytest.mark.parametrize("patience", [None, 1])
def test_bars_end_full_however_a_trial_ends(folder, patience):
    text = shown(folder, Terminal(), patience=patience)
    assert "trial 1/2, lr 0.0001, batch 16, 1 epoch, seed 7, 1.0/3 epochs" in text
    assert "lr 0.0001, batch 16, 2 epochs, seed 7" in text
    *_, last = re.findall(r"trial 2/2, .* seed 7, (\S+) epochs +(\d+)%", text)
    assert last == ("3.0/3", "100")
