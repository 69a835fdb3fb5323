"""Runners of GLUE's tasks, on small files whose labels can be learnt."""

import functools
import pathlib
import tempfile

import numpy as np
import pytest

from seg_tf import tasks
from seg_tf.finetuning.classification import ClassificationRunner
from seg_tf.finetuning.text_classifier import TextClassifier
from seg_tf.finetuning.trials import TrainingDiverged, Trial
from seg_tf.tasks import checksum, own_table, read
from seg_tf.tasks.finetuning_settings import Setting
from tests.finetuning import task_folders
from tests.finetuning.tiny_models import text_batches, tiny

pytestmark = pytest.mark.slow
EAGER = True

LEARNS = Setting(0.02, 8, 6)
SHORT = Setting(0.01, 16, 1)


@functools.cache
def data_dir():
    folder = pathlib.Path(tempfile.mkdtemp())
    task_folders.write_rte(folder)
    task_folders.write_mnli(folder)
    return task_folders.write_sts_b(folder)


@pytest.fixture(scope="module")
def rte():
    return runner("rte", predict_test=True)


def runner(task, kind="slm", **arguments):
    return ClassificationRunner(
        tiny(kind), f"glue/{task}", data_dir(), report=pytest.fail, **arguments
    )


def predictions_of(folder, split):
    lines = (folder / f"{split}_predictions.tsv").read_text().splitlines()
    assert lines[0] == "index\tlabel\tprediction"
    return [line.split("\t") for line in lines[1:]]


@pytest.mark.usefixtures("traced")
def test_a_task_is_learnt_and_scored(rte, tmp_path):
    scores, logs = rte.run(Trial(LEARNS, 1), tmp_path)
    assert scores == {"accuracy": 1.0}
    assert len(logs) == 6
    assert logs[-1]["dev_accuracy"] == 1.0
    assert logs[-1]["dev_loss"] < logs[0]["dev_loss"]
    rows = predictions_of(tmp_path, "dev")
    assert [index for index, _, _ in rows] == [str(number) for number in range(24)]
    assert all(label == prediction for _, label, prediction in rows)
    assert {label for _, label, _ in rows} == set(task_folders.RTE_LABELS)
    # The test split, without labels, is a file for the leaderboard.
    lines = (tmp_path / "test_predictions.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    rows = [line.split("\t") for line in lines[1:]]
    assert [index for index, _ in rows] == ["0", "1", "2", "3", "4"]
    assert {word for _, word in rows} <= set(task_folders.RTE_LABELS)


def test_a_trial_is_a_function_of_setting_and_seed(rte, tmp_path):
    first, other = (rte.run(Trial(SHORT, seed), tmp_path) for seed in (1, 2))
    assert first != other
    # Behind one that diverged, too.
    with pytest.raises(TrainingDiverged, match="glue/rte, dev are not finite"):
        rte.run(Trial(Setting(1e25, 16, 1), 1), tmp_path)
    assert rte.run(Trial(SHORT, 1), tmp_path) == first


@pytest.mark.usefixtures("traced")
def test_regression_is_learnt_and_its_loss_is_no_broadcast(tmp_path):
    sts_b = runner("sts-b")
    scores, logs = sts_b.run(Trial(LEARNS, 1), tmp_path)
    assert list(scores) == ["spearman", "pearson"]
    assert scores["pearson"] > 0.9
    # Were every prediction held against every label, the loss could not go below
    # their variance, 2.25.
    assert logs[-1]["loss"] < 1.5
    assert logs[-1]["dev_loss"] < 1.5
    assert sts_b.baselines["without a model"] == {"spearman": 0.0, "pearson": 0.0}


@pytest.mark.usefixtures("traced")
def test_scores_of_a_table_may_have_any_range(tmp_path):
    table = tmp_path / "scores.csv"
    rows = [f"w{n % 3} w{n % 7},{600 + 10 * (n % 3)}" for n in range(60)]
    table.write_text("\n".join(["text,score", *rows]))
    columns = (["text"], "score")
    task, splits = own_table.read(str(table), *columns, str(table), regression=True)
    tasks.register(task, splits)
    scored = ClassificationRunner(tiny("slm"), task, tmp_path, save_model=True)
    scores, logs = scored.run(Trial(LEARNS, 1), tmp_path)
    assert scores["pearson"] > 0.9
    assert logs[-1]["dev_loss"] < 0.5
    model = TextClassifier.from_preset(tmp_path / "model")
    values = model.predict([f"w{n} w5" for n in range(3)])
    np.testing.assert_allclose(values, [[600], [610], [620]], atol=4)


def test_both_dev_sets_of_mnli_and_the_diagnostic_set(tmp_path):
    mnli = runner("mnli", predict_test=True)
    assert mnli.main_metric == "matched_accuracy"
    constant = {"matched_accuracy": 0.5, "mismatched_accuracy": 0.5}
    assert mnli.baselines["without a model"] == constant
    scores, logs = mnli.run(Trial(SHORT, 1), tmp_path)
    for half, size in (("matched", 12), ("mismatched", 20)):
        rows = predictions_of(tmp_path, f"dev_{half}")
        right = sum(label == prediction for _, label, prediction in rows)
        assert scores[f"{half}_accuracy"] == pytest.approx(right / size)
        assert logs[0][f"dev_{half}_accuracy"] == scores[f"{half}_accuracy"]
    found = {path.name for path in tmp_path.glob("test*")}
    splits = ("test_matched", "test_mismatched", "test")
    assert found == {f"{split}_predictions.tsv" for split in splits}


def test_test_splits_that_are_predicted_are_described(rte):
    without = runner("rte").describe()
    assert set(without) == {"train", "dev"}
    assert rte.describe() == {**without, "test": checksum(task_examples("rte", "test"))}
    found = runner("mnli", predict_test=True).describe()
    assert set(found) == {
        "train",
        *("dev_matched", "dev_mismatched", "test_matched", "test_mismatched"),
        "test",  # the diagnostic set
    }


def test_a_kept_model_predicts_what_was_scored_and_is_not_compiled(tmp_path):
    setting = Setting(0.02, 8, 1)
    keeping = runner("rte", save_model=True)
    for seed in (1, 2):  # the second one with the model of the first, set anew
        folder = tmp_path / str(seed)
        folder.mkdir()
        scores, _ = keeping.run(Trial(setting, seed), folder)
    model = TextClassifier.from_preset(folder / "model")
    assert not model.compiled
    examples = task_examples("rte", "dev")
    texts = [one.texts for one in examples]
    batches = text_batches(tiny("slm"), texts, batch_size=5)
    predicted = model.predict(batches, verbose=0).argmax(axis=1)
    right = np.mean(predicted == [one.label for one in examples])
    assert scores["accuracy"] == pytest.approx(right)
    words = task_folders.RTE_LABELS
    written = [row[2] for row in predictions_of(folder, "dev")]
    assert written == [words[number] for number in predicted]


def task_examples(task, split):
    return read(f"glue/{task}", data_dir(), split)
