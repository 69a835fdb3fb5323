import subprocess
import sys

import pytest

from seg_tf.training import plots, run_log
from seg_tf.training.run_folder import RunFolder
from seg_tf.training.run_log import RunLog

PNG = b"\x89PNG\r\n\x1a\n"


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
    rows = run_log.read(RunFolder(write_log(tmp_path / "one")).log_file)
    figure = plots.loss_curve({"one": rows}, show_training=True)
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


def test_several_runs_have_a_colour_each(tmp_path):
    runs = {
        name: run_log.read(RunFolder(write_log(tmp_path / name, offset)).log_file)
        for name, offset in (("one", 0.0), ("two", 1.0))
    }
    (axes,) = plots.loss_curve(runs, show_training=False).axes
    assert curves(axes) == {
        "one, validation": [(10, 1.2), (15, 12 / 15)],
        "two, validation": [(10, 2.2), (15, 12 / 15 + 1)],
    }
    first, second = axes.get_lines()
    assert first.get_color() != second.get_color()


def test_curve_is_written_as_a_png(tmp_path):
    output = tmp_path / "curves" / "loss.png"
    plots.save_loss_curve({"one": write_log(tmp_path / "one")}, output)
    assert output.read_bytes()[:8] == PNG
    assert [path.name for path in output.parent.iterdir()] == ["loss.png"]


def test_folder_without_a_log_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"must be the output folder of a run.*log\.js"
    ):
        plots.save_loss_curve({"one": tmp_path}, tmp_path / "loss.png")


def test_command_plots_several_runs(tmp_path):
    runs = [write_log(tmp_path / name) for name in ("one", "two")]
    command = [
        sys.executable,
        "-m",
        "seg_tf.training.plot_runs",
        f"--runs={runs[0]},{runs[1]}",
        f"--output={tmp_path / 'x.png'}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.png").read_bytes()[:8] == PNG
    command[3] = f"--runs={tmp_path}/absent"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: `")
    assert "Traceback" not in done.stderr
