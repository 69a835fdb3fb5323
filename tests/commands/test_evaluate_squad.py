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
    printed, noted = capsys.readouterr()
    assert json.loads(printed) == {
        "exact_match": 0.0,
        "f1": pytest.approx(100 * 2 / 3),
        "total": 1,
        "missing_predictions": 0,
    }
    assert noted == ""


def test_scores_of_version_2_are_printed(tmp_path, path_of, capsys):
    run(write(tmp_path, V2), path_of("p.json", {"q1": ""}))
    scores = json.loads(capsys.readouterr().out)
    assert (scores["exact"], scores["NoAns_f1"]) == (100, 100)


def test_missing_predictions_are_noted(tmp_path, path_of, capsys):
    content = json.loads(json.dumps(V1))
    questions = content["data"][0]["paragraphs"][0]["qas"]
    questions.append({**questions[0], "id": "q2"})
    run(write(tmp_path, content), path_of("p.json", {"q1": "long"}))
    printed, noted = capsys.readouterr()
    assert json.loads(printed)["exact_match"] == 50
    assert "1 of 2 questions have no prediction" in noted


@pytest.mark.parametrize("predictions", [["long"], {"q1": None}])
def test_predictions_of_another_form_are_refused(tmp_path, path_of, predictions):
    with pytest.raises(ValueError, match=r"p.json: expected a JSON object of strings"):
        run(write(tmp_path, V1), path_of("p.json", predictions))


COMMAND_AND_WHAT_IT_IMPORTS = """
import atexit, runpy, sys
import seg_tf.tasks.squad
atexit.register(lambda: print("tensorflow" in sys.modules))
runpy.run_module("seg_tf.commands.evaluate_squad", run_name="__main__", alter_sys=True)
"""


def test_the_command_starts_without_tensorflow(tmp_path, path_of):
    process = command_calls.python(
        *("-c", COMMAND_AND_WHAT_IT_IMPORTS),
        f"--dataset={write(tmp_path, V1)}",
        f"--predictions={path_of('p.json', {'other': 'x'})}",
    )
    printed, error = process.communicate()
    assert process.returncode == 1
    assert printed == "False\n"
    assert error.startswith("error: `predictions` must hold answers to some")
