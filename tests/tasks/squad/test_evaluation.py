"""Scores are those of the official scripts."""

import hypothesis
import pytest
from hypothesis import strategies
from official.nlp.tools import squad_evaluate_v1_1 as official_v1
from official.nlp.tools import squad_evaluate_v2_0 as official_v2

from seg_tf import files
from seg_tf.tasks.squad import evaluation, squad_files
from seg_tf.tasks.squad.squad_files import Answer, Question
from tests.sample_data import sample_data

pytestmark = pytest.mark.slow

# Articles, what looks like them, punctuation of ASCII and of other kinds, capitals that
# grow when lower-cased, white space of all sorts.
PARTS = [
    *["a", "an", "the", "The", "A", "theatre", "cat", "CATS", "cat's", "$5", "1,000"],
    *["-", "--", "…", "“cat”", "_", "a_", "é", "e\u0301", "İ", "ẞ", "ﬁ", "а"],
    *[" ", "  ", "\n", "\t", "\xa0", "\u200b", "\x1c", ".", "'", '"', "`", "^"],
]
TEXTS = strategies.one_of(
    strategies.lists(strategies.sampled_from(PARTS), max_size=6).map("".join),
    strategies.lists(strategies.sampled_from(PARTS), max_size=6).map(" ".join),
    strategies.text(max_size=8),
)
SETTINGS = hypothesis.settings(deadline=None, max_examples=200)


@strategies.composite
def answered(draw, min_answers):
    """Questions, predictions for them and odds of no answer, which may be equal."""
    questions, predictions, odds = [], {}, {}
    for number in range(draw(strategies.integers(1, 8))):
        gold = draw(strategies.lists(TEXTS, min_size=min_answers, max_size=3))
        answers = tuple(Answer(text, 0) for text in gold)
        questions.append(Question(f"q{number}", "?", answers))
        right = strategies.sampled_from(gold or [""])
        predictions[f"q{number}"] = draw(strategies.one_of(TEXTS, right))
        odds[f"q{number}"] = draw(
            strategies.one_of(
                strategies.sampled_from([-1.5, 0.0, 1.0, 2.5]),
                strategies.floats(-9, 9, allow_nan=False),
            )
        )
    shuffled = draw(strategies.permutations(sorted(odds)))
    return questions, predictions, {name: odds[name] for name in shuffled}


def as_json(questions):
    """The data that the official scripts take."""
    return [
        {
            "paragraphs": [
                {
                    "qas": [
                        {
                            "id": question.identifier,
                            "answers": [
                                {"text": answer.text} for answer in question.answers
                            ],
                        }
                    ]
                }
                for question in questions
            ]
        }
    ]


@hypothesis.given(text=TEXTS)
@SETTINGS
def test_words_are_compared_as_the_official_scripts_do(text):
    words = evaluation.normalized_words(text)
    for official in (official_v1, official_v2):
        assert " ".join(words) == official._normalize_answer(text)


@hypothesis.given(asked=answered(min_answers=1))
@SETTINGS
def test_version_1_equals_the_official_script(asked):
    questions, predictions, _ = asked
    expected = official_v1.evaluate(as_json(questions), predictions)
    scores = evaluation.evaluate_v1(questions, predictions)
    assert scores == {
        "exact_match": pytest.approx(100 * expected["exact_match"], abs=1e-12),
        "f1": pytest.approx(100 * expected["final_f1"], abs=1e-12),
        "total": len(questions),
        "missing_predictions": 0,
    }


@hypothesis.given(asked=answered(min_answers=0))
@SETTINGS
def test_version_2_equals_the_official_script(asked):
    questions, predictions, odds = asked
    expected = official_v2.evaluate(as_json(questions), predictions, odds)
    for name in ("exact", "f1"):
        expected[f"best_{name}"] = expected.pop(f"final_{name}")
        expected[f"best_{name}_thresh"] = expected.pop(f"final_{name}_thresh")
    scores = evaluation.evaluate_v2(questions, predictions, odds)
    assert scores.pop("missing_predictions") == 0
    assert scores == {
        name: value for name, value in expected.items() if not name.startswith("pr_")
    }


@hypothesis.given(asked=answered(min_answers=0), threshold=strategies.floats(-3, 3))
@SETTINGS
def test_greater_odds_are_no_answer(asked, threshold):
    questions, predictions, odds = asked
    scores = evaluation.evaluate_v2(questions, predictions, odds, threshold)
    data = as_json(questions)
    has_answer = official_v2._make_qid_to_has_ans(data)
    for name, raw in zip(
        ("exact", "f1"), official_v2._get_raw_scores(data, predictions), strict=True
    ):
        final = official_v2._apply_no_ans_threshold(raw, odds, has_answer, threshold)
        assert scores[name] == 100.0 * sum(final.values()) / len(final)


def test_an_answer_of_no_words():
    """The two versions differ in it, here as in the official scripts."""
    questions = [Question("q", "?", (Answer("The", 0),))]
    predictions = {"q": "an"}
    v1 = evaluation.evaluate_v1(questions, predictions)
    v2 = evaluation.evaluate_v2(questions, predictions)
    assert (v1["exact_match"], v1["f1"]) == (100, 0)
    assert (v2["exact"], v2["f1"]) == (100, 100)


def test_missing_predictions_score_nothing():
    gold = (Answer("cat", 0),)
    questions = [
        Question("q1", "?", gold),
        Question("q2", "?", gold),
        Question("q3", "?"),
    ]
    predictions = {"q1": "cat", "another": "cat"}
    v1 = evaluation.evaluate_v1(questions[:2], predictions)
    assert (v1["exact_match"], v1["f1"], v1["total"]) == (50, 50, 2)
    assert v1["missing_predictions"] == 1
    v2 = evaluation.evaluate_v2(questions, predictions, {"q1": -3.0})
    assert v2["exact"] == v2["f1"] == pytest.approx(100 / 3)
    assert (v2["HasAns_exact"], v2["NoAns_exact"]) == (50, 0)
    assert (v2["total"], v2["missing_predictions"]) == (3, 2)
    # Not even by never answering is q3 right, which nobody did.
    assert v2["best_f1"] == pytest.approx(100 / 3)
    assert v2["best_f1_thresh"] == -3.0


def test_what_cannot_be_scored_is_refused():
    questions = [Question("q1", "?", (Answer("cat", 0),)), Question("q2", "?")]
    predictions = {"q1": "cat", "q2": ""}
    with pytest.raises(ValueError, match=r"must have an answer. Received: .*'q2'"):
        evaluation.evaluate_v1(questions, predictions)
    for evaluate in (evaluation.evaluate_v1, evaluation.evaluate_v2):
        with pytest.raises(ValueError, match="1 answers, none of which to the 2 quest"):
            evaluate(questions, {"p": "cat"})
    with pytest.raises(ValueError, match=r"`null_odds` must hold .*'q2'.* 0 others"):
        evaluation.evaluate_v2(questions, predictions, {"q1": 1.0})
    data = squad_files.SquadFile("dev-v1.1.json", False, ())
    with pytest.raises(ValueError, match=r"version 2.0: .*dev-v1.1.json"):
        evaluation.evaluate(data, predictions, {"q1": 1.0})


def scores_of(dataset, predictions):
    return evaluation.evaluate(
        squad_files.read(sample_data("squad", dataset)),
        files.read_json(sample_data("squad", "predictions", predictions)),
    )


def test_real_predictions_score_what_was_published():
    scores = scores_of(
        "dev-v1.1.reconstructed.json", "dev-v1.1.BERT-ensemble.predictions.json"
    )
    assert round(scores["exact_match"], 4) == 86.2062
    assert round(scores["f1"], 4) == 92.1956
    assert scores["total"] == 10_570
    scores = scores_of(
        "dev-v2.0.reconstructed.json", "dev-v2.0.BERT-single.predictions.json"
    )
    assert round(scores["exact"], 4) == 78.7417
    assert round(scores["f1"], 4) == 81.7753
    assert (scores["HasAns_total"], scores["NoAns_total"]) == (5928, 5945)
    assert scores["missing_predictions"] == 0
