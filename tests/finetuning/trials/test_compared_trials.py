"""Which trials may stand beside which, and what is told of them."""

import pytest

from seg_tf.finetuning.trials.compared_trials import compared_trials
from seg_tf.finetuning.trials.trial import Setting
from seg_tf.finetuning.trials.trial_runs import TrialsFolder, all_trials, run_trials
from tests.finetuning.scripted_trials import ScriptedRunner, SilentDisplay

SETTINGS = {
    "task": "scripted/task",
    "run": "one",
    "weights_sha256": "1",
    "vocabulary_sha256": "1",
    "files_sha256": {"train": "1", "dev": "1"},
    "early_stopping": None,
    "probe": None,
    "limit": None,
    "max_length": None,
    "randomly_initialized": False,
    "freeze_encoder": False,
    "dtype_policy": "float32",
    "predict_test": False,
    "save_model": False,
}


@pytest.fixture
def others(tmp_path):
    """Makes a folder of finished trials, whose settings differ in what is given."""

    def make(**changed):
        folder = TrialsFolder(tmp_path / "others")
        folder.prepare({**SETTINGS, **changed})
        trials = all_trials([Setting(1e-4, 16, 1)], [1])
        run_trials(ScriptedRunner(), folder, trials, SilentDisplay())
        return folder.path

    return make


FREE = {
    "run": "another",
    "weights_sha256": "2",
    "vocabulary_sha256": "2",
    "freeze_encoder": True,
    "dtype_policy": "mixed_bfloat16",
    "predict_test": True,
    "save_model": True,
    "probe": "joint",
    # Of which there are no scores here to hold beside.
    "files_sha256": {"train": "1", "dev": "1", "test": "1"},
}


def test_models_and_what_is_kept_may_differ(others):
    found = compared_trials(others(**FREE), SETTINGS)
    assert found.name == "compared"
    assert found.differences == ()
    assert len(found.folder.finished()) == 1


def test_a_twin_of_new_weights_is_named_so(others):
    found = compared_trials(others(randomly_initialized=True), SETTINGS)
    assert found.name == "randomly initialized"


@pytest.mark.parametrize(
    ("changed", "now", "message"),
    [
        ({"task": "glue/rte"}, {}, "be the folder of trials of scripted/task"),
        ({"limit": 8}, {}, "same examples.*limit: 8 there, None now"),
        ({"dev_limit": 8}, {}, "dev_limit: 8 there, None now"),
        (
            {"files_sha256": {"train": "1", "dev": "2"}},
            {},
            r"files_sha256\.dev: 2 there, 1 now",
        ),
        (
            {"files_sha256": {"train": "2", "dev": "1"}},
            {},
            r"files_sha256\.train: 2 there, 1 now",
        ),
        (
            {"files_sha256": {"train": "1", "dev": "1", "test": "1"}},
            {"files_sha256": {"train": "1", "dev": "1", "test": "2"}},
            r"files_sha256\.test: 1 there, 2 now",
        ),
    ],
)
def test_trials_of_other_data_are_refused(others, changed, now, message):
    with pytest.raises(ValueError, match=f"`--compare` must.*{message}"):
        compared_trials(others(**changed), {**SETTINGS, **now})


def test_what_was_read_otherwise_is_told(others):
    of_files = {**SETTINGS["files_sha256"], "windows": {"stride": 128}}
    path = others(max_length=20, early_stopping=2, files_sha256=of_files)
    now = {**of_files, "windows": {"stride": 64}}
    assert compared_trials(path, {**SETTINGS, "files_sha256": now}).differences == (
        "early_stopping: 2 there, None now",
        "max_length: 20 there, None now",
        "windows.stride: 128 there, 64 now",
    )


def test_a_folder_without_trials_is_an_error_that_names_the_flag(tmp_path):
    with pytest.raises(ValueError, match=r"`--compare` must be.*Found no .*settings"):
        compared_trials(tmp_path / "nowhere", SETTINGS)
    old = TrialsFolder(tmp_path / "old")
    old.prepare({**SETTINGS, "randomly_initialised": True})
    with pytest.raises(ValueError, match=r"settings\.json: written by an earlier vers"):
        compared_trials(old.path, SETTINGS)
    TrialsFolder(tmp_path / "begun").prepare(SETTINGS)
    with pytest.raises(ValueError, match="`--compare` must hold finished trials"):
        compared_trials(tmp_path / "begun", SETTINGS)
