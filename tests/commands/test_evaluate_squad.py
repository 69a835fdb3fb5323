"""The command that scores answers to SQuAD."""

import json

import pytest

from seg_tf.commands import evaluate_squad
from tests import command_calls
from tests.tasks.test_squad import V1, V2, write


@pytest.fixture
def path_of(tmp_path):
    """Writes JSON under a name, and gives its path."""

    def write_json(name, content):
        path = tmp_path / name
        path.write_text(json.dumps(content))
        return path

    return write_json


def run(dataset, predictions, *arguments):
    command_calls.run(
        evaluate_squad,
        f"--dataset={dataset}",
        f"--predictions={predictions}",
        *arguments,
    )


def test_scores_of_version_1_are_printed(tmp_path, path_of, capsys):
    run(write(tmp_path, V1), path_of("p.json", {"q1": "a long river"}))
    assert json.loads(capsys.readouterr().out) == {
        "exact_match": 0.0,
        "f1": pytest.approx(100 * 2 / 3),
        "total": 1,
        "missing_predictions": 0,
    }


def test_scores_of_version_2_are_printed(tmp_path, path_of, capsys):
    odds = path_of("odds.json", {"q1": 3.5})
    predictions = path_of("p.json", {"q1": "long"})
    dataset = write(tmp_path, V2)
    run(dataset, predictions, f"--null_odds={odds}")
    scores = json.loads(capsys.readouterr().out)
    assert (scores["exact"], scores["NoAns_f1"], scores["best_f1"]) == (100, 100, 100)
    run(dataset, predictions, f"--null_odds={odds}", "--no_answer_threshold=inf")
    assert json.loads(capsys.readouterr().out)["exact"] == 0
    run(dataset, predictions)
    assert "best_f1" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        (["long"], r"p.json: expected a JSON object. Received: .*long"),
        ({"q1": None}, r"p.json: question 'q1' must have a string. Received: None"),
        ({"q1": 3}, r"p.json: question 'q1' must have a string. Received: 3"),
    ],
)
def test_predictions_of_another_form_are_refused(
    tmp_path, path_of, predictions, message
):
    with pytest.raises(ValueError, match=message):
        run(write(tmp_path, V1), path_of("p.json", predictions))


@pytest.mark.parametrize("odds", ["1", True, float("nan")])
def test_odds_are_numbers(tmp_path, path_of, odds):
    arguments = [write(tmp_path, V2), path_of("p.json", {"q1": "x"})]
    path = path_of("odds.json", {"q1": odds})
    with pytest.raises(ValueError, match=r"odds.json: question 'q1' must have a num"):
        run(*arguments, f"--null_odds={path}")
