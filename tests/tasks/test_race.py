"""RACE's files."""

import pytest

from seg_tf import tasks
from tests.tasks import race_files


def test_an_example_is_the_passage_and_the_question_with_each_answer(tmp_path):
    for number in (10, 2):
        race_files.write_passage(tmp_path, "dev", "middle", number)
    race_files.write_passage(tmp_path, "dev", "high", 1, answers=["D", "B"])
    examples = tasks.read("race", tmp_path, "dev")
    assert [one.identifier for one in examples] == [
        *("middle/2-0", "middle/2-1", "middle/10-0", "middle/10-1"),
        *("high/1-0", "high/1-1"),
    ]
    cloze, plain = examples[:2]
    assert cloze.texts == (
        *("w1 w2 . w3 w4", "w5 w8 w6", "w5 w9 w6", "w5 w10 w6", "w5 w11 w6"),
    )
    assert plain.texts[1:] == ("w7 w12", "w7 w13", "w7 w14", "w7 w15 w16")
    assert [one.label for one in examples] == [2, 0, 2, 0, 3, 1]
    # The folder of RACE itself will do.
    assert tasks.read("race", tmp_path / "RACE", "dev") == examples


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"answers": ["A"]}, "question 2 must"),
        ({"answers": ["A", "E"]}, "question 2 must .* an answer from A to D"),
        ({"options": [["a"] * 4, ["a"] * 3]}, "question 2 must .* four `options`"),
        ({"questions": None}, "question 1 must"),
    ],
)
def test_errors_name_file_and_question(tmp_path, changed, message):
    path = race_files.write_passage(tmp_path, "train", "middle", 7, **changed)
    with pytest.raises(ValueError, match=f"{path.name}: {message}"):
        tasks.read("race", tmp_path, "train")


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="train/middle"):
        tasks.read("race", tmp_path, "train")
