"""Tables of trials, worked out by hand."""

import dataclasses

import numpy as np
import pytest

from seg_tf.finetuning.trials import results, results_curves
from tests.finetuning.scripted_trials import finished

TRIALS = [
    finished(0.5, 1, accuracy=0.6),
    finished(0.7, 2, accuracy=0.7),
    finished(0.9, 3, accuracy=0.8),
    finished(0.75, 1, 3e-5, accuracy=0.9),
    finished(0.8, 2, 3e-5, accuracy=0.7),
]


def summary(trials=TRIALS, **arguments):
    """Lines of a summary, their cells a space apart."""
    text = results.summary(results.by_setting(trials, "f1"), **arguments)
    return [" ".join(line.split()) for line in text.splitlines()]


def test_seeds_of_a_setting_come_together():
    first, second = results.by_setting(TRIALS, "f1")
    assert first.main_scores == [0.5, 0.7, 0.9]
    assert first.mean == pytest.approx(0.7)
    assert first.deviation == pytest.approx(0.2)
    assert second.mean == pytest.approx(0.775)
    assert second.deviation == pytest.approx(np.std([0.75, 0.8], ddof=1))
    assert second.mean_of("accuracy") == pytest.approx(0.8)


def test_best_setting_is_that_of_the_best_mean_and_not_of_the_best_trial():
    best = results.best_setting(results.by_setting(TRIALS, "f1"))
    assert best.setting.learning_rate == 3e-5
    assert results.best_trial(TRIALS, "f1") is TRIALS[2]


def test_of_equals_the_first_is_best():
    equal = [finished(0.5, 1), finished(0.5, 1, 3e-5)]
    best = results.best_setting(results.by_setting(equal, "f1"))
    assert best.setting.learning_rate == 1e-4
    assert results.best_trial(equal, "f1") is equal[0]


def test_summary_has_a_line_a_setting_and_marks_the_best():
    assert summary()[1:] == [
        "lr 0.0001, batch 16, 2 epochs 3 0.7000 0.2000 0.5000 0.9000 0.7000",
        "* lr 3e-05, batch 16, 2 epochs 2 0.7750 0.0354 0.7500 0.8000 0.8000",
    ]


def test_one_seed_has_no_deviation():
    (_, line) = summary([finished(0.5)])
    assert line.endswith(" 1 0.5000 – 0.5000 0.5000")


def test_percentages_have_two_decimals():
    # However small they are.
    (_, line) = summary([finished(81.254), finished(0.6, 2)], in_percent=True)
    assert line.endswith(" 2 40.93 57.03 0.60 81.25")


def test_what_was_chosen_on_dev_is_no_score(tmp_path):
    trials = [finished(0.5, l2=1e-5, test_f1=0.4, null_threshold=-3.25)]
    header, line = summary(trials)
    assert header.endswith(" max test_f1 mean")
    assert line.endswith(" 0.5000 0.4000")
    results.write_csv(trials, tmp_path / "results.csv")
    header, row = (tmp_path / "results.csv").read_text().splitlines()
    assert header.endswith(",f1,l2,test_f1,null_threshold")
    assert row.endswith(",0.5,1e-05,0.4,-3.25")


def test_a_probe_is_called_one():
    of_settings = results.by_setting(TRIALS[:2], "f1", "per_sentence")
    line = results.summary(of_settings).splitlines()[1]
    assert line.startswith("*  probe, per_sentence  ")
    figure = results_curves.learning_curves(of_settings, title="x")
    (legend,) = figure.legends
    assert "probe, per_sentence (2 seeds)" in [
        text.get_text() for text in legend.get_texts()
    ]


def test_baseline_stands_beside():
    *_, line = summary(baseline={"f1": 0.8, "accuracy": 0.65})
    assert line == "most frequent label 0.8000 0.6500"
    *_, line = summary(baseline={"f1": 0.5}, baseline_name="never an answer")
    assert line == "never an answer 0.5000 –"


def test_compared_settings_stand_beside_and_the_best_of_them_below():
    others = results.by_setting(
        [finished(0.4, accuracy=0.1), finished(0.6, 1, 5e-5, accuracy=0.2)], "f1"
    )
    header, first, second, last = summary(compared=others, compared_name="random")
    assert header.endswith(" random difference")
    assert first.endswith(" 0.4000 +0.3000")
    # It was not tried there.
    assert second.endswith(" 0.8000 – –")
    assert last == (
        "random, its best: lr 5e-05, batch 16, 2 epochs "
        "1 0.6000 – 0.6000 0.6000 0.2000 0.6000 +0.1750"
    )


def test_scores_that_only_one_side_has_are_absent_from_the_other():
    others = results.by_setting([finished(0.25)], "f1")
    *_, line = summary([finished(0.5, test_f1=0.4)], compared=others)
    assert line.endswith(" 0.2500 – 0.2500 0.2500 – 0.2500 +0.2500")


def test_a_score_of_zero_is_no_missing_one():
    others = results.by_setting([finished(0.0)], "f1")
    _, line, _ = summary([finished(0.25)], compared=others)
    assert line.endswith(" 0.0000 +0.2500")


def test_csv_has_a_row_a_trial(tmp_path):
    path = tmp_path / "results.csv"
    results.write_csv([TRIALS[0], finished(0.25, 2, epochs=3)], path)
    assert path.read_text().splitlines() == [
        "learning_rate,batch_size,epochs,seed,epochs_trained,f1,accuracy",
        "0.0001,16,2,1,2,0.5,0.6",
        "0.0001,16,3,2,2,0.25,",
    ]


def test_curves_are_those_of_every_seed_and_their_mean(tmp_path):
    trials = [
        finished(0.5, 1, losses=(1.0, 0.5, 0.25)),
        finished(0.9, 2, losses=(2.0, 1.5)),
    ]
    of_settings = results.by_setting(trials, "f1")
    figure = results_curves.learning_curves(of_settings, title="x", baseline=0.6)
    # There is no dev loss in the logs.
    loss, metric = figure.axes
    curves = [list(line.get_ydata()) for line in loss.lines]
    # The mean goes as far as all seeds got.
    assert curves == [[1.0, 0.5, 0.25], [2.0, 1.5], [1.5, 1.0]]
    assert list(loss.lines[0].get_xdata()) == [1, 2, 3]
    assert metric.get_ylabel() == "dev f1"
    assert list(metric.lines[-1].get_ydata()) == [0.6, 0.6]
    path = tmp_path / "curves.png"
    results_curves.save(figure, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_of_many_settings_the_best_are_drawn():
    trials = [finished(number / 20, 1, number / 1000) for number in range(1, 12)]
    figure = results_curves.learning_curves(results.by_setting(trials, "f1"), title="x")
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
    figure = results_curves.learning_curves(
        results.by_setting([trial], "f1"), title="x"
    )
    (axes,) = figure.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[2.0, 1.0]] * 2
