"""Tables of trials, worked out by hand, and which trials may be compared."""

import dataclasses
import io

import pytest

from seg_tf.finetuning import trial_report as report
from seg_tf.finetuning.trial_report import Compared, compared_trials
from seg_tf.finetuning.trials import Setting, TrialsFolder, all_trials, run_trials
from tests.finetuning.scripted_trials import ScriptedRunner, finished

TRIALS = [
    finished(0.5, 1, accuracy=0.6),
    finished(0.7, 2, accuracy=0.7),
    finished(0.9, 3, accuracy=0.8),
    finished(0.75, 1, 3e-5, accuracy=0.9),
    finished(0.8, 2, 3e-5, accuracy=0.7),
]


def summary(trials=TRIALS, **arguments):
    """Lines of a summary, their cells a space apart."""
    text = report.summary(trials, "f1", **arguments)
    return [" ".join(line.split()) for line in text.splitlines()]


def test_best_setting_is_that_of_the_best_mean_and_not_of_the_best_trial():
    assert report.best_setting(TRIALS, "f1") == TRIALS[3:]
    assert report.best_trial(TRIALS, "f1") is TRIALS[2]


def test_summary_has_a_line_a_setting_and_marks_the_best():
    assert summary()[1:] == [
        "lr 0.0001, batch 16, 2 epochs 3 0.7000 0.2000 0.5000 0.9000 0.7000",
        "* lr 3e-05, batch 16, 2 epochs 2 0.7750 0.0354 0.7500 0.8000 0.8000",
    ]


def test_percentages_have_two_decimals():
    # However small they are.
    (_, line) = summary([finished(81.254), finished(0.6, 2)], in_percent=True)
    assert line.endswith(" 2 40.93 57.03 0.60 81.25")


def test_what_was_chosen_on_dev_is_no_score(tmp_path):
    trials = [finished(0.5, l2=1e-5, test_f1=0.4, null_threshold=-3.25)]
    header, line = summary(trials)
    assert header.endswith(" max test_f1 mean")
    assert line.endswith(" 0.5000 0.4000")
    report.write_csv(trials, tmp_path / "results.csv")
    header, row = (tmp_path / "results.csv").read_text().splitlines()
    assert header.endswith(",f1,l2,test_f1,null_threshold")
    assert row.endswith(",0.5,1e-05,0.4,-3.25")


def test_baseline_stands_beside():
    *_, line = summary(baseline={"f1": 0.8, "accuracy": 0.65})
    assert line == "most frequent label 0.8000 0.6500"
    *_, line = summary(baseline={"f1": 0.5}, baseline_name="never an answer")
    assert line == "never an answer 0.5000 –"


def test_compared_settings_stand_beside_and_the_best_of_them_below():
    others = [finished(0.4, accuracy=0.1), finished(0.6, 1, 5e-5, accuracy=0.2)]
    header, first, second, last = summary(compared=Compared(others, "random"))
    assert header.endswith(" random difference")
    assert first.endswith(" 0.4000 +0.3000")
    # It was not tried there.
    assert second.endswith(" 0.8000 – –")
    assert last == (
        "random, its best: lr 5e-05, batch 16, 2 epochs "
        "1 0.6000 – 0.6000 0.6000 0.2000 0.6000 +0.1750"
    )


def test_csv_has_a_row_a_trial(tmp_path):
    path = tmp_path / "results.csv"
    report.write_csv([TRIALS[0], finished(0.25, 2, epochs=3)], path)
    assert path.read_text().splitlines() == [
        "learning_rate,batch_size,epochs,seed,epochs_trained,f1,accuracy",
        "0.0001,16,2,1,2,0.5,0.6",
        "0.0001,16,3,2,2,0.25,",
    ]


def test_curves_are_those_of_every_seed_and_their_mean():
    trials = [
        finished(0.5, 1, losses=(1.0, 0.5, 0.25)),
        finished(0.9, 2, losses=(2.0, 1.5)),
    ]
    figure = report.learning_curves(trials, "f1", title="x", baseline={"f1": 0.6})
    # There is no dev loss in the logs.
    loss, metric = figure.axes
    curves = [list(line.get_ydata()) for line in loss.lines]
    # The mean goes as far as all seeds got.
    assert curves == [[1.0, 0.5, 0.25], [2.0, 1.5], [1.5, 1.0]]
    assert list(loss.lines[0].get_xdata()) == [1, 2, 3]
    assert metric.get_ylabel() == "dev f1"
    assert list(metric.lines[-1].get_ydata()) == [0.6, 0.6]


def test_of_many_settings_the_best_are_drawn():
    trials = [finished(number / 20, 1, number / 1000) for number in range(1, 12)]
    figure = report.learning_curves(trials, "f1", title="x")
    assert figure.get_suptitle() == "x (best 8 of 11 settings)"
    drawn = {line.get_ydata()[-1] for line in figure.axes[-1].lines}
    assert drawn == {number / 20 for number in range(4, 12)}


def test_of_a_probe_the_chosen_strength_is_drawn():
    rows = [
        {"epoch": 1, "loss": 3.0, "l2": 0.1},
        {"epoch": 2, "loss": 2.0, "l2": 0.01},
        {"epoch": 3, "loss": 1.0, "l2": 0.01},
    ]
    trial = dataclasses.replace(finished(0.5, l2=0.01), epochs=rows)
    figure = report.learning_curves([trial], "f1", title="x")
    (axes,) = figure.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[2.0, 1.0]] * 2


# === Trials to compare with ===


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
        run_trials(ScriptedRunner(), folder, trials, stream=io.StringIO())
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
    assert len(found.trials) == 1


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
    TrialsFolder(tmp_path / "begun").prepare(SETTINGS)
    with pytest.raises(ValueError, match="`--compare` must hold finished trials"):
        compared_trials(tmp_path / "begun", SETTINGS)
