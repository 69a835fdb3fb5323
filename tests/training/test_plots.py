import pytest

from seg_tf.training import plots
from seg_tf.training.logs import RunLog
from seg_tf.training.run_folder import RunFolder
from tests import command_calls


def write_log(folder, offset=0.0):
    folder.mkdir()
    log = RunLog(RunFolder(folder).log_file)
    for updates in (5, 10, 15):
        log.write("train", updates, {"loss": 10 / updates + offset, "accuracy": 0.1})
        if updates != 5:
            log.write("validation", updates, {"loss": 12 / updates + offset})
    return folder


def curves(axes):
    return {
        line.get_label(): list(zip(*line.get_data(), strict=True))
        for line in axes.get_lines()
    }


# Two runs with several objectives, one of which is the second run's alone.
ONE_OBJECTIVE = [
    {"kind": "train", "updates": 5, "lm_loss": 7.0},
    {"kind": "validation", "updates": 10, "lm_loss": 6, "lm_loss_without_context": 6.1},
]
PLACED = {"x_pointer_accuracy": 0.3, "x_pointer_chance": 0.2, "x_match": 0.1}
BASELINES = {"x_pointer_longest_first": 0.28, "x_match_chance": 0.05}
TWO_OBJECTIVES = [
    {"kind": "train", "updates": 5, "lm_loss": 7.5, "x_pointer_accuracy": 0.2},
    {"kind": "validation", "updates": 10, "lm_loss": 6.5, **PLACED, **BASELINES},
]
TWO_RUNS = {"one": ONE_OBJECTIVE, "two": TWO_OBJECTIVES}


def test_each_metric_has_a_panel_without_the_runs_that_lack_it():
    metrics = ("lm_loss", "x_pointer_accuracy", "x_match")
    figure = plots.curves(TWO_RUNS, metrics=metrics, show_training=True)
    loss, accuracy, match = figure.axes
    assert curves(loss) == {
        "one, training": [(5, 7.0)],
        "one, validation": [(10, 6)],
        "one, without context": [(10, 6.1)],
        "two, training": [(5, 7.5)],
        "two, validation": [(10, 6.5)],
    }
    assert curves(accuracy) == {
        "two, training": [(5, 0.2)],
        "two, validation": [(10, 0.3)],
        "two, chance": [(10, 0.2)],
        "two, longest first": [(10, 0.28)],
    }
    assert curves(match) == {
        "two, validation": [(10, 0.1)],
        "two, chance": [(10, 0.05)],
    }
    assert accuracy.get_ylabel() == "x_pointer_accuracy"


def test_metric_that_no_run_has_is_refused_with_those_there_are():
    expected = r"`metrics` .*; validation rows have lm_loss, .*Received: 'accuracy'"
    with pytest.raises(ValueError, match=expected):
        plots.curves(TWO_RUNS, metrics=("lm_loss", "accuracy"), show_training=False)


def test_command_plots_several_runs(tmp_path):
    runs = [write_log(tmp_path / name) for name in ("one", "two")]
    command = [
        "plot-runs",
        f"--runs={runs[0]},{runs[1]}",
        f"--output={tmp_path / 'x.png'}",
    ]
    done = command_calls.call(*command)
    assert done.returncode == 0, done.stderr
    command_calls.check_image(tmp_path / "x.png")
    # Of the rows that this command draws only those of training have an accuracy.
    done = command_calls.call(*command, "--metric=loss,accuracy", "--training")
    assert done.returncode == 0, done.stderr
    command[1] = f"--runs={tmp_path}/absent"
    done = command_calls.call(*command)
    assert done.returncode == 1
    assert done.stderr.startswith("error: `")
    assert "Traceback" not in done.stderr
