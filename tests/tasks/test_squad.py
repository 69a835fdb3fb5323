"""SQuAD: files are read whole or refused by name; scores are the official scripts'."""

import copy
import json
import math
import random

import hypothesis
import pytest
from hypothesis import strategies
from official.nlp.tools import squad_evaluate_v1_1 as official_v1
from official.nlp.tools import squad_evaluate_v2_0 as official_v2

from seg_tf import files
from seg_tf.tasks import squad
from seg_tf.tasks.squad import (
    Answer,
    Candidate,
    Passage,
    Question,
    RankedAnswers,
    SquadFile,
    score_answers,
)
from tests.sample_data import sample_data


def file_of(context, *answers, version="1.1"):
    """A file of one context and a question for each list of answers."""
    asked = [
        {
            "id": f"q{number}",
            "question": "How long? ",
            "answers": [{"text": text, "answer_start": at} for text, at in of_question],
            **({"is_impossible": not of_question} if version != "1.1" else {}),
        }
        for number, of_question in enumerate(answers, start=1)
    ]
    paragraphs = [{"context": context, "qas": asked}]
    return {"version": version, "data": [{"title": "Rhine", "paragraphs": paragraphs}]}


CONTEXT = "The Rhine is long.\nIt is 1,233 km long."
V1 = file_of(CONTEXT, [("1,233 km", 25), ("long", 13)])
V2 = file_of("It is long.", [], version="v2.0")


def write(folder, content, name="squad.json"):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def changed(content, change):
    """A copy, after `change` of its paragraph and its question."""
    content = copy.deepcopy(content)
    paragraph = content["data"][0]["paragraphs"][0]
    change(paragraph, paragraph["qas"][0])
    return content


def asked_with(**fields):
    """A change of fields of the question."""
    return lambda _, asked: asked.update(fields)


def with_answer(**fields):
    return asked_with(answers=[fields])


def test_both_versions_are_read(tmp_path):
    path = write(tmp_path, V1)
    answers = (Answer("1,233 km", 25), Answer("long", 13))
    question = Question("q1", "How long? ", answers)
    assert squad.read(path) == SquadFile(
        str(path), False, (Passage(CONTEXT, (question,)),)
    )
    assert answers[0].stop == 33
    data = squad.read(write(tmp_path, V2))
    assert data.has_impossible
    impossible = [Question("q1", "How long? ", (), True)]
    assert list(data.questions()) == impossible
    for empty in (
        [{"text": "", "answer_start": 0}],
        {"text": [""], "answer_start": [0]},
    ):
        path = write(tmp_path, changed(V2, asked_with(answers=empty)))
        assert list(squad.read(path, for_training=True).questions()) == impossible


def test_hugging_faces_answers_and_numeric_identifiers_are_read(tmp_path):
    expected = squad.read(write(tmp_path, V1))
    answers = {"text": ["1,233 km", "long"], "answer_start": [25, 13]}
    content = changed(V1, asked_with(answers=answers))
    assert squad.read(write(tmp_path, content)) == expected
    content = changed(V1, asked_with(id=7))
    (question,) = squad.read(write(tmp_path, content)).questions()
    assert question.identifier == "7"


def test_a_file_without_a_version_is_known_by_its_questions(tmp_path):
    for content, expected in ((V1, False), (V2, True)):
        content = {"data": content["data"]}
        assert squad.read(write(tmp_path, content)).has_impossible is expected


def test_a_file_to_be_answered_needs_no_answers(tmp_path):
    content = changed(V1, lambda paragraph, asked: asked.pop("answers"))
    path = write(tmp_path, content)
    (question,) = squad.read(path).questions()
    assert question.answers == ()
    with pytest.raises(ValueError, match=r"Rhine', question 'q1': .*be impossible"):
        squad.read(path, for_training=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _, asked: asked.pop("question"), r"'q1': `question` must be a string"),
        (asked_with(question=7), r"'q1': `question` must .* 7"),
        (asked_with(id=None), "question None: `id` must be"),
        (asked_with(id=True), "question True: `id` must be"),
        (asked_with(id=1.5), r"question 1\.5: `id` must be"),
        (lambda one, _: one.update(qas=["x"]), r"'Rhine', question 'x': .*an object"),
        (lambda one, _: one.update(context=7), r"'q1': `context` must be a string"),
        (asked_with(answers=["x"]), r"'q1': `answers` must be an object"),
        (with_answer(text="x"), r"'q1': `answer_start` must be an integer.* None"),
        (with_answer(text="x", answer_start="3"), r"'q1': `answer_start` .* '3'"),
        (with_answer(text="x", answer_start=-1), r"'q1': .*at least 0.*'x', -1"),
        (with_answer(text="", answer_start=1), r"'q1': .*not be empty.*'', 1"),
        (
            asked_with(answers={"text": [""], "answer_start": []}),
            r"'q1': .* the same length. Received: 1 and 0",
        ),
        (asked_with(is_impossible=True), r"'q1': .*be impossible"),
        (lambda one, asked: one["qas"].append(asked), r"'q1': .*`id` must be unique"),
    ],
)
def test_an_error_names_file_and_question(tmp_path, change, message):
    path = write(tmp_path, changed(V1, change))
    with pytest.raises(ValueError, match=message) as caught:
        squad.read(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1, 2]", r"squad.json: expected a JSON object `data`.*TypeError"),
        (b'{"data": [{"title": "x"', r"squad.json:1:\d+: not valid JSON"),
        (b"{}", r"squad.json: expected a JSON object `data`.*KeyError: 'data'"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path, content, message):
    path = tmp_path / "squad.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        squad.read(path)


def test_few_bad_questions_stop_no_file(tmp_path):
    content = file_of("a b", *[[("a", 0)]] * 18, [("", 0)])
    with pytest.raises(ValueError, match=r"'q19': .*Invalid: 1 of 19 questions,"):
        squad.read(write(tmp_path, content))
    content = file_of("a b", *[[("a", 0)]] * 19, [("", 0)])
    write(tmp_path, content, "dev-v1.1.json")
    lines = []
    data = squad.read_split(tmp_path, "v1.1", "dev", report=lines.append)
    assert [one.identifier for one in data.questions()] == [
        f"q{number}" for number in range(1, 20)
    ]
    (line,) = lines
    assert line.startswith("Left out 1 question. ")
    assert "question 'q20'" in line


# "long" stands at 13 and at 34.
@pytest.mark.parametrize(
    ("start", "expected"),
    [(13, 13), (34, 34), (14, 13), (12, 13), (0, 13), (23, 13), (24, 34), (400, 34)],
)
def test_answers_move_to_the_nearest_place(tmp_path, start, expected):
    path = write(tmp_path, file_of(CONTEXT, [("1,233 km", 25), ("long", start)]))
    data = squad.read(path, for_training=True)
    (question,) = data.questions()
    assert [answer.start for answer in question.answers] == [25, expected]
    # Scores do not need positions.
    assert next(squad.read(path).questions()).answers[1].start == start


def test_no_break_spaces_are_spaces(tmp_path):
    context = "It is 1,233\xa0km long."
    path = write(tmp_path, file_of(context, [("1,233 km", 6)], [("is\xa01,233", 0)]))
    data = squad.read(path, for_training=True)
    found = [question.answers for question in data.questions()]
    assert found == [(Answer("1,233\xa0km", 6),), (Answer("is 1,233", 3),)]
    path = write(tmp_path, file_of(CONTEXT, [("LONG", 13)]))
    with pytest.raises(ValueError, match=r"squad.json: .*question 'q1': .*'LONG'"):
        squad.read(path, for_training=True)


# === Splits ===


@pytest.mark.parametrize(
    "name",
    ["train-v1.1.json", "squad/train-v1.1.json", "train-v1.1.first-12-articles.json"],
)
def test_files_are_found_by_their_names(tmp_path, name):
    path = write(tmp_path, V1, name)
    assert squad.read_split(tmp_path, "v1.1", "train").source == str(path)


def test_missing_and_ambiguous_files_are_named(tmp_path):
    write(tmp_path, V1, "dev-v1.1.a.json")
    with pytest.raises(
        FileNotFoundError, match=r"contain train-v1\.1\.json.* with none"
    ):
        squad.read_split(tmp_path, "v1.1", "train")
    write(tmp_path, V1, "dev-v1.1.b.json")
    with pytest.raises(FileNotFoundError, match=r"only one file.*a.json, .*b.json"):
        squad.read_split(tmp_path, "v1.1", "dev")


@pytest.mark.parametrize(("version", "other"), [("v1.1", V2), ("v2.0", V1)])
def test_a_file_of_the_other_version_is_refused(tmp_path, version, other):
    write(tmp_path, other, f"dev-{version}.json")
    with pytest.raises(ValueError, match=f"expected questions of version {version}"):
        squad.read_split(tmp_path, version, "dev")


def test_limits_take_the_first_questions(tmp_path):
    content = file_of("a b c", [("a", 0)], [("b", 2)])
    content["data"] += copy.deepcopy(content["data"])
    for number, asked in enumerate(content["data"][1]["paragraphs"][0]["qas"]):
        asked["id"] = f"other{number}"
    write(tmp_path, content, "dev-v1.1.json")
    names = ["q1", "q2", "other0", "other1"]
    for limit in (1, 2, 3, 9):
        data = squad.read_split(tmp_path, "v1.1", "dev", limit)
        assert [one.identifier for one in data.questions()] == names[:limit]
    write(tmp_path, file_of("a b"), "train-v1.1.json")
    with pytest.raises(ValueError, match=r"a file of v1\.1 with 0 questions"):
        squad.read_split(tmp_path, "v1.1", "train")


# === Ranked answers ===


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
    assert without.null_odds is None


def evaluate(questions, predictions, version=2):
    passages = (Passage("…", tuple(questions)),)
    return squad.evaluate(SquadFile("dev.json", version == 2, passages), predictions)


def scored(questions, answers, threshold):
    """Mean F1, by the evaluation, of the answers at a threshold."""
    predictions = {one.identifier: one.answer(threshold) for one in answers}
    return evaluate(questions, predictions)["f1"]


def test_the_threshold_is_the_best_there_is():
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
        threshold = squad.best_null_threshold(questions, answers)
        best = scored(questions, answers, threshold)
        tried = [
            scored(questions, answers, value)
            for value in (-9.0, *(one.null_odds for one in answers))
        ]
        assert best == pytest.approx(max(tried))
        never += threshold < min(one.null_odds for one in answers)
        official = official_v2.evaluate(
            as_json(questions),
            {one.identifier: one.candidates[0].text for one in answers},
            {one.identifier: one.null_odds for one in answers},
        )
        assert official["final_f1"] >= best - 1e-9
        official_threshold = official["final_f1_thresh"]
        official_is_less += scored(questions, answers, official_threshold) < best - 1e-9
    assert never > 0
    assert official_is_less > 0


def test_files_have_the_official_names(tmp_path):
    # Half a surrogate pair, as JSON may hold it, stays what it was.
    candidates = (Candidate("Zürich \ud83d", 2.0, 1.0), Candidate("Bern", 0.5, 0.0))
    answers = [
        RankedAnswers("q1", candidates, Candidate("", -1.0, 2.0)),
        RankedAnswers("q2", candidates, Candidate("", 4.0, 2.0)),
    ]
    folder = tmp_path / "new" / "folder"
    squad.write_predictions(folder, answers)
    found = {
        path.name: json.loads(path.read_text("ascii")) for path in folder.iterdir()
    }
    assert found == {
        "predictions.json": {"q1": "Zürich \ud83d", "q2": ""},
        "nbest_predictions.json": {one.identifier: one.n_best() for one in answers},
        "null_odds.json": {"q1": -2.0, "q2": 3.0},
    }
    squad.write_predictions(folder, answers, null_threshold=-3.0)
    written = files.read_json(folder / "predictions.json")
    assert written == {"q1": "", "q2": ""}


def data_of(*golds):
    """Questions 0, 1, …, each with an answer or None."""
    questions = tuple(
        Question(str(number), "?", (Answer(gold, 0),) if gold else (), not gold)
        for number, gold in enumerate(golds)
    )
    return SquadFile("dev.json", True, (Passage("…", questions),))


def ranked(number, text, odds=None):
    null = None if odds is None else Candidate("", odds, 0.0)
    return RankedAnswers(str(number), (Candidate(text, 0.0, 0.0),), null)


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


# === Official scores ===


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
    """Questions, and predictions for them."""
    questions, predictions = [], {}
    for number in range(draw(strategies.integers(1, 8))):
        gold = draw(strategies.lists(TEXTS, min_size=min_answers, max_size=3))
        answers = tuple(Answer(text, 0) for text in gold)
        questions.append(Question(f"q{number}", "?", answers))
        right = strategies.sampled_from(gold or [""])
        predictions[f"q{number}"] = draw(strategies.one_of(TEXTS, right))
    return questions, predictions


def as_json(questions):
    """The data that the official scripts take."""
    asked = []
    for question in questions:
        answers = [{"text": answer.text} for answer in question.answers]
        asked.append({"id": question.identifier, "answers": answers})
    return [{"paragraphs": [{"qas": asked}]}]


@hypothesis.given(asked=answered(min_answers=1))
@SETTINGS
def test_version_1_equals_the_official_script(asked):
    questions, predictions = asked
    expected = official_v1.evaluate(as_json(questions), predictions)
    scores = evaluate(questions, predictions, version=1)
    assert scores == {
        "exact": pytest.approx(100 * expected["exact_match"], abs=1e-12),
        "f1": pytest.approx(100 * expected["final_f1"], abs=1e-12),
        "total": len(questions),
        "missing_predictions": 0,
    }


@hypothesis.given(asked=answered(min_answers=0))
@SETTINGS
def test_version_2_equals_the_official_script(asked):
    questions, predictions = asked
    expected = official_v2.evaluate(as_json(questions), predictions)
    scores = evaluate(questions, predictions)
    assert scores.pop("missing_predictions") == 0
    others = ("final_", "pr_")  # best thresholds, and curves
    assert scores == {
        name: value for name, value in expected.items() if not name.startswith(others)
    }


def test_missing_predictions_score_nothing():
    questions = list(data_of("cat", "cat", None).questions())
    predictions = {"0": "cat", "another": "cat"}
    v1 = evaluate(questions[:2], predictions, version=1)
    assert v1 == {"exact": 50, "f1": 50, "total": 2, "missing_predictions": 1}
    v2 = evaluate(questions, predictions)
    assert v2["exact"] == v2["f1"] == pytest.approx(100 / 3)
    assert (v2["HasAns_exact"], v2["NoAns_exact"]) == (50, 0)
    assert (v2["total"], v2["missing_predictions"]) == (3, 2)
    for version in (1, 2):
        with pytest.raises(ValueError, match="1 answers, none of which to the 3 quest"):
            evaluate(questions, {"p": "cat"}, version=version)


def scores_of(dataset, predictions):
    return squad.evaluate(
        squad.read(sample_data("squad", dataset)),
        files.read_json(sample_data("squad", "predictions", predictions)),
    )


def test_real_predictions_score_what_was_published():
    scores = scores_of(
        "dev-v1.1.reconstructed.json", "dev-v1.1.BERT-ensemble.predictions.json"
    )
    assert round(scores["exact"], 4) == 86.2062
    assert round(scores["f1"], 4) == 92.1956
    assert scores["total"] == 10_570
    scores = scores_of(
        "dev-v2.0.reconstructed.json", "dev-v2.0.BERT-single.predictions.json"
    )
    assert round(scores["exact"], 4) == 78.7417
    assert round(scores["f1"], 4) == 81.7753
    assert (scores["HasAns_total"], scores["NoAns_total"]) == (5928, 5945)
    assert scores["missing_predictions"] == 0
