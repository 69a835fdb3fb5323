import re

import pytest

from seg_tf import files
from seg_tf.training import plots, run_folder
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


def test_curve_shows_both_losses_against_updates(tmp_path):
    rows = run_folder.read_log(RunFolder(write_log(tmp_path / "one")).log_file)
    figure = plots.curves({"one": rows}, show_training=True)
    (axes,) = figure.axes
    assert curves(axes) == {
        "one, training": [(5, 2.0), (10, 1.0), (15, 10 / 15)],
        "one, validation": [(10, 1.2), (15, 12 / 15)],
    }
    assert axes.get_xlabel() == "updates"
    assert axes.get_ylabel() == "loss"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(
        curves(axes)
    )


# Two runs with several objectives, one of which is the second run's alone.
ONE_OBJECTIVE = [
    {"kind": "train", "updates": 5, "masked_lm_loss": 7.0},
    {
        "kind": "validation",
        "updates": 10,
        "masked_lm_loss": 6.5,
        "masked_lm_loss_without_context": 6.1,
    },
]
TWO_OBJECTIVES = [
    {"kind": "train", "updates": 5, "masked_lm_loss": 7.5, "x_pointer_accuracy": 0.2},
    *(
        {
            "kind": "validation",
            "updates": updates,
            "masked_lm_loss": 6.0,
            "x_pointer_accuracy": 0.3,
            "x_pointer_chance": 0.25,
            "x_pointer_longest_first": 0.28,
            "x_perfect_match": 0.1,
            "x_perfect_match_chance": 0.05,
            "x_kendall_tau": 0.4,
        }
        for updates in (10, 15)
    ),
]
TWO_RUNS = {"one": ONE_OBJECTIVE, "two": TWO_OBJECTIVES}


def test_each_metric_has_a_panel_without_the_runs_that_lack_it():
    figure = plots.curves(
        TWO_RUNS,
        metrics=("masked_lm_loss", "x_pointer_accuracy", "x_perfect_match"),
        show_training=True,
    )
    loss, accuracy, perfect_match = figure.axes
    assert curves(loss) == {
        "one, training": [(5, 7.0)],
        "one, validation": [(10, 6.5)],
        "one, without context": [(10, 6.1)],
        "two, training": [(5, 7.5)],
        "two, validation": [(10, 6.0), (15, 6.0)],
    }
    assert curves(accuracy) == {
        "two, training": [(5, 0.2)],
        "two, validation": [(10, 0.3), (15, 0.3)],
        "two, chance": [(10, 0.25), (15, 0.25)],
        "two, longest first": [(10, 0.28), (15, 0.28)],
    }
    assert curves(perfect_match) == {
        "two, validation": [(10, 0.1), (15, 0.1)],
        "two, chance": [(10, 0.05), (15, 0.05)],
    }
    assert accuracy.get_ylabel() == "x_pointer_accuracy"
    # A run looks alike in all panels; chance is dashed, the baseline dotted.
    assert loss.get_lines()[-1].get_color() == accuracy.get_lines()[0].get_color()
    styles = [line.get_linestyle() for line in accuracy.get_lines()]
    assert styles == ["-", "-", "--", ":"]


@pytest.mark.parametrize(
    ("metric", "expected"), [("x_mcc", 0), ("x_balanced_accuracy", 0.5)]
)
def test_chance_that_no_data_changes(metric, expected):
    rows = [{"kind": "validation", "updates": 5, metric: 0.6}]
    (axes,) = plots.curves({"one": rows}, metrics=(metric,), show_training=False).axes
    assert set(axes.get_lines()[-1].get_ydata()) == {expected}


def test_metric_that_no_run_has_is_refused_with_those_there_are():
    expected = (
        r"`metrics` .*; validation rows have masked_lm_loss, .*, x_kendall_tau, "
        r"x_perfect_match, .*Received: 'accuracy'"
    )
    with pytest.raises(ValueError, match=expected):
        plots.curves(
            TWO_RUNS, metrics=("masked_lm_loss", "accuracy"), show_training=False
        )


def test_curve_is_written_as_a_png(tmp_path):
    output = tmp_path / "curves" / "loss.png"
    plots.save_curves({"one": write_log(tmp_path / "one")}, output)
    command_calls.check_image(output)
    assert [path.name for path in output.parent.iterdir()] == ["loss.png"]


def test_folder_without_a_log_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"must be the output folder of a run.*log\.js"
    ):
        plots.save_curves({"one": tmp_path}, tmp_path / "loss.png")


def write_objectives(folder, **weights):
    """Log and config of a run with these weights of its objectives."""
    write_log(folder)
    losses = {f"{name}_loss": 3.0 for name in weights}
    log = RunLog(RunFolder(folder).log_file, updates=15, validated=True)
    log.write("validation", 20, {"loss": 6.0, **losses})
    objectives = {name: {"loss_weight": weight} for name, weight in weights.items()}
    files.write_json(RunFolder(folder).run_file, {"config": {"objectives": objectives}})
    return folder


@pytest.mark.parametrize(
    ("one", "other", "labels", "said"),
    [
        ({"mlm": 1.0}, {"mlm": 1.0}, ["loss (mlm)"], None),
        ({"mlm": 1.0, "slm": 1.0}, {"mlm": 1.0}, ["mlm_loss"], "instead: mlm_loss$"),
        ({"mlm": 1.0}, {"mlm": 0.5}, ["mlm_loss"], r"\(0: 1 mlm; 1: 0.5 mlm\)"),
        ({"mlm": 1.0}, {"clm": 1.0}, ["loss (different"], "Do not compare them"),
        ({"mlm": 1.0}, {}, ["loss (different"], "Do not compare them"),
    ],
)
def test_totals_of_different_objectives_do_not_share_an_axis(
    tmp_path, monkeypatch, one, other, labels, said
):
    drawn, lines = [], []
    draw = plots.curves
    monkeypatch.setattr(
        plots, "curves", lambda *a, **k: drawn.append(draw(*a, **k)) or drawn[-1]
    )
    runs = {
        str(number): write_objectives(tmp_path / str(number), **weights)
        for number, weights in enumerate((one, other))
    }
    plots.save_curves(runs, tmp_path / "x.png", report=lines.append)
    found = [axes.get_ylabel() for axes in drawn[0].axes]
    assert [label[: len(labels[0])] for label in found] == labels
    if said is None:
        assert lines == []
    else:
        assert re.search(said, lines[0])


def test_command_plots_several_runs(tmp_path):
    runs = [write_log(tmp_path / name) for name in ("one", "two")]
    command = [
        "seg_tf.commands.plot_runs",
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
