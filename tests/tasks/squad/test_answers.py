"""Ranked answers: odds of none, thresholds, and the files that hold them."""

import json
import math
import random

import pytest

from seg_tf import files
from seg_tf.tasks.squad import answers as squad_answers
from seg_tf.tasks.squad import evaluation
from seg_tf.tasks.squad.answers import Candidate, RankedAnswers
from seg_tf.tasks.squad.squad_files import Answer, Question


def test_n_best_has_no_answer_where_it_ranks():
    ranked = RankedAnswers(
        "q",
        (Candidate("b", 2.0, 1.0), Candidate("c", 0.5, 0.0)),
        Candidate("", -1.0, 2.0),
    )
    n_best = ranked.n_best()
    assert [one["text"] for one in n_best] == ["b", "", "c"]
    weights = [math.exp(score) for score in (3.0, 1.0, 0.5)]
    for one, weight in zip(n_best, weights, strict=True):
        assert one["probability"] == pytest.approx(weight / sum(weights))
    assert (n_best[1]["start_logit"], n_best[1]["end_logit"]) == (-1.0, 2.0)
    without = RankedAnswers("q", ranked.candidates)
    assert [one["text"] for one in without.n_best()] == ["b", "c"]
    with pytest.raises(ValueError, match=r"version 2.0. Received: question 'q'"):
        _ = without.null_odds


def scored(questions, answers, threshold, metric):
    """Mean score, by the evaluation, of the answers at a threshold."""
    predictions = {one.identifier: one.answer(threshold) for one in answers}
    return evaluation.evaluate_v2(questions, predictions)[metric]


@pytest.mark.parametrize("metric", ["exact", "f1"])
def test_the_threshold_is_the_best_there_is(metric):
    """Of all that could be tried; equal odds and hopeless models among the cases."""
    draw = random.Random(5)
    official_is_less = never = 0
    for case in range(60):
        questions, answers = [], []
        for number in range(draw.randint(1, 8)):
            gold = (Answer(draw.choice(["cat", "red cat"]), 0),)
            has_answer = draw.random() < 0.5
            name = f"q{number}"
            questions.append(Question(name, "?", gold if has_answer else ()))
            text = draw.choice(["cat", "red cat", "dog"] if case % 3 else ["dog"])
            odds = draw.choice([-1.0, 0.5, 0.5, draw.uniform(-2, 2)])
            answers.append(
                RankedAnswers(name, (Candidate(text, 0, 0),), Candidate("", odds, 0))
            )
        threshold, best = squad_answers.best_null_threshold(questions, answers, metric)
        tried = [
            scored(questions, answers, value, metric)
            for value in (-9.0, *(one.null_odds for one in answers))
        ]
        assert best == pytest.approx(max(tried))
        assert scored(questions, answers, threshold, metric) == pytest.approx(best)
        never += threshold < min(one.null_odds for one in answers)
        official = evaluation.evaluate_v2(
            questions,
            {one.identifier: one.candidates[0].text for one in answers},
            {one.identifier: one.null_odds for one in answers},
        )
        assert official[f"best_{metric}"] >= best - 1e-9
        official_threshold = official[f"best_{metric}_thresh"]
        official_is_less += (
            scored(questions, answers, official_threshold, metric) < best - 1e-9
        )
    assert never > 0
    assert official_is_less > 0


def test_a_threshold_needs_answers_to_the_questions():
    answers = [RankedAnswers("q", (Candidate("x", 0, 0),), Candidate("", 0, 0))]
    with pytest.raises(ValueError, match="`metric` must be exact or f1"):
        squad_answers.best_null_threshold([Question("q", "?")], answers, "em")
    with pytest.raises(ValueError, match="1 answers, to none of the 1 questions"):
        squad_answers.best_null_threshold([Question("p", "?")], answers)


def test_files_have_the_official_names(tmp_path):
    # Half a surrogate pair, as JSON may hold it, stays what it was.
    candidates = (Candidate("Zürich \ud83d", 2.0, 1.0), Candidate("Bern", 0.5, 0.0))
    answers = [
        RankedAnswers("q1", candidates, Candidate("", -1.0, 2.0)),
        RankedAnswers("q2", candidates, Candidate("", 4.0, 2.0)),
    ]
    folder = tmp_path / "new" / "folder"
    squad_answers.write_predictions(folder, iter(answers))
    found = {
        path.name: json.loads(path.read_text("ascii")) for path in folder.iterdir()
    }
    assert found == {
        "predictions.json": {"q1": "Zürich \ud83d", "q2": ""},
        "nbest_predictions.json": {one.identifier: one.n_best() for one in answers},
        "null_odds.json": {"q1": -2.0, "q2": 3.0},
    }
    squad_answers.write_predictions(folder, answers, null_threshold=-3.0)
    written = files.read_json(folder / "predictions.json")
    assert written == {"q1": "", "q2": ""}


def test_version_1_has_no_null_odds(tmp_path):
    squad_answers.write_predictions(
        tmp_path, [RankedAnswers("q", (Candidate("a", 0, 0),))]
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "nbest_predictions.json",
        "predictions.json",
    ]
