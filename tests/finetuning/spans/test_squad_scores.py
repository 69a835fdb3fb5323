"""Scores of both versions under one name, and the threshold that they are made with."""

import pytest

from seg_tf.finetuning.spans.squad_scores import never_answering, score_answers
from seg_tf.tasks.squad.answers import Candidate, RankedAnswers
from seg_tf.tasks.squad.squad_files import Answer, Passage, Question, SquadFile


def data_of(*golds, has_impossible=True):
    """Questions 0, 1, …, each with an answer or None."""
    questions = tuple(
        Question(str(number), "?", (Answer(gold, 0),) if gold else (), not gold)
        for number, gold in enumerate(golds)
    )
    return SquadFile("dev.json", has_impossible, (Passage("t", "…", questions),))


def ranked(number, text, odds=None):
    null = None if odds is None else Candidate("", odds, 0.0)
    return RankedAnswers(str(number), (Candidate(text, 0.0, 0.0),), null)


def test_version_1():
    data = data_of("red", "blue sky", has_impossible=False)
    scores = score_answers(data, [ranked(0, "Red."), ranked(1, "sky")])
    assert scores == {"exact": 50.0, "f1": pytest.approx(100 * (1 + 2 / 3) / 2)}
    assert never_answering(data) == {"exact": 0.0, "f1": 0.0}


def test_version_2_is_scored_with_its_best_threshold():
    data = data_of("red", "blue", None, None, "green")
    answers = [
        ranked(0, "red", odds=1.0),
        ranked(1, "blue", odds=2.0),
        ranked(2, "sea", odds=3.0),
        ranked(3, "sky", odds=4.0),
        ranked(4, "grey", odds=5.0),
    ]
    # With threshold 0 nothing is answered. With 2 all but the last question are right.
    assert score_answers(data, answers) == {
        "exact": 80.0,
        "f1": 80.0,
        "HasAns_exact": pytest.approx(100 * 2 / 3),
        "HasAns_f1": pytest.approx(100 * 2 / 3),
        "NoAns_exact": 100.0,
        "NoAns_f1": 100.0,
        "untuned_exact": 40.0,
        "untuned_f1": 40.0,
        "null_threshold": 2.0,
    }
    assert never_answering(data) == {
        "exact": 40.0,
        "f1": 40.0,
        "HasAns_exact": 0.0,
        "HasAns_f1": 0.0,
        "NoAns_exact": 100.0,
        "NoAns_f1": 100.0,
    }


def test_the_threshold_is_the_best_for_f1():
    # Up to odds 1: F1 of 2/3 and none. Up to 2: one exact answer more, F1 as before
    # less one question without an answer.
    data = data_of("red sea", "red", None)
    answers = [ranked(0, "sea", 1.0), ranked(1, "blue", 2.0), ranked(2, "red", 3.0)]
    scores = score_answers(data, answers)
    assert scores["null_threshold"] == 1.0
    assert scores["f1"] == pytest.approx(100 * (2 / 3 + 0 + 1) / 3)
    assert scores["exact"] == pytest.approx(100 / 3)


def test_scores_of_a_part_without_questions_are_left_out():
    scores = score_answers(data_of("red"), [ranked(0, "red", 1.0)])
    assert "NoAns_f1" not in scores
    assert scores["f1"] == 100.0
