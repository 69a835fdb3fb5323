"""What is shown of trials while they run."""

import io
import re

import pytest

from seg_tf.finetuning.trials.trial import Setting
from seg_tf.finetuning.trials.trial_progress import TrialsProgress
from seg_tf.finetuning.trials.trial_runs import TrialsFolder, all_trials, run_trials
from tests.finetuning.scripted_trials import ScriptedRunner

TRIALS = all_trials([Setting(1e-4, 16, 1), Setting(1e-4, 16, 2)], [7])


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(tmp_path, stream, runner=None, **arguments):
    runner = runner or ScriptedRunner((0.25, 0.2, 0.1))
    folder = TrialsFolder(tmp_path)
    display = TrialsProgress("glue/mrpc", TRIALS, "f1", stream)
    run_trials(runner, folder, TRIALS, display, **arguments)
    return stream.getvalue()


def test_lines_of_epochs_and_trials(tmp_path):
    text = shown(tmp_path, io.StringIO())
    lines = [re.sub(r"  left [\d:]+$", "", line) for line in text.splitlines()]
    name = "glue/mrpc: trial"
    assert lines == [
        f"{name} 1/2, epoch 1/1, update 4/4  loss 1.0000  dev_f1 0.2500",
        f"{name} 1/2, lr 0.0001, batch 16, 1 epoch, seed 7: f1 0.2500",
        f"{name} 2/2, epoch 1/2, update 4/8  loss 1.0000  dev_f1 0.2500",
        f"{name} 2/2, epoch 2/2, update 8/8  loss 0.5000  dev_f1 0.2000",
        f"{name} 2/2, lr 0.0001, batch 16, 2 epochs, seed 7: f1 0.2000",
    ]
    assert text.endswith("left 00:00\n")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_trial_without_scores_is_shown_as_diverged(tmp_path, stream):
    text = shown(tmp_path, stream, ScriptedRunner((0.25, 0.2), diverges_in=[1]))
    assert re.search(r"f1[:=]? ?=?none: diverged", text.replace("last ", ""))


def test_a_probe_is_called_one(tmp_path):
    stream = io.StringIO()
    display = TrialsProgress("task", TRIALS, "f1", stream, "joint")
    display.begin(0, TRIALS[0])
    display.end({"f1": 0.5})
    assert "trial 1/2, probe, joint, seed 7: f1 0.5000" in stream.getvalue()


@pytest.mark.parametrize("patience", [None, 1])
def test_bars_end_full_however_a_trial_ends(tmp_path, patience):
    text = shown(tmp_path, Terminal(), patience=patience)
    assert "trial 1/2, 0.9/3 epochs" in text or "trial 1/2, 1.0/3 epochs" in text
    assert "lr 0.0001, batch 16, 2 epochs, seed 7" in text
    *_, last = re.findall(r"trial 2/2, (\S+) epochs +(\d+)%", text)
    assert last == ("3.0/3", "100")
