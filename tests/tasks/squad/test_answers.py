"""Answers are the best spans there are, in the characters of the context."""

import json
import math
import random
import types

import numpy as np
import pytest

from seg_tf import files
from seg_tf.tasks.squad import answers as squad_answers
from seg_tf.tasks.squad import evaluation, squad_files
from seg_tf.tasks.squad.answers import Candidate, RankedAnswers, WindowLogits
from seg_tf.tasks.squad.spans import SpanEncoder
from seg_tf.tasks.squad.squad_files import Answer, Passage, Question
from seg_tf.tasks.squad.windows import WindowSizes, make_windows
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests import official_models
from tests.sample_data import sample_data

pytestmark = pytest.mark.slow

LETTERS = "abcdefghijklmnopqrstuvwxyz"
ENCODER = SpanEncoder(Vocabulary([*SPECIAL_TOKENS, *LETTERS]))
SIZES = WindowSizes(max_length=20, stride=7, max_question_pieces=3)


def windows_of(context, *identifiers):
    questions = tuple(Question(one, "x y") for one in identifiers or ["q"])
    return make_windows([Passage("", context, questions)], ENCODER, SIZES).windows


def random_context(draw, num_words):
    return " ".join(draw.choices(LETTERS[:6], k=num_words))


def random_logits(draw, window, with_null=False):
    """Of few values, so that many spans are equal."""
    values = [draw.choice([-2.0, -0.5, 0.0, 0.25, 1.0]) for _ in range(2 * len(window))]
    null = (draw.uniform(-3, 3), draw.uniform(-3, 3)) if with_null else None
    half = len(window)
    return WindowLogits(np.array(values[:half]), np.array(values[half:]), null)


def naive_candidates(windows, logits, num_best, max_answer_pieces):
    """Texts and scores of all spans, the best of each text, by loops."""
    spans = []
    for window, of_window in zip(windows, logits, strict=True):
        for first in range(len(window)):
            if not window.is_max_context[first]:
                continue
            for last in range(first, min(first + max_answer_pieces, len(window))):
                context = window.context
                text = context.text[
                    context.starts[window.start + first] : context.stops[
                        window.start + last
                    ]
                ]
                spans.append((text, of_window.start[first] + of_window.end[last]))
    spans.sort(key=lambda span: -span[1])
    best = {}
    for text, score in spans:
        best.setdefault(text, score)
    return list(best.items())[:num_best]


@pytest.mark.parametrize(("num_best", "max_answer_pieces"), [(1, 30), (5, 4), (400, 3)])
def test_candidates_are_the_best_of_all_spans(num_best, max_answer_pieces):
    draw = random.Random(3)
    num_windows = set()
    for _ in range(30):
        windows = windows_of(random_context(draw, draw.randint(1, 45)))
        num_windows.add(len(windows))
        logits = [random_logits(draw, window) for window in windows]
        (ranked,) = squad_answers.rank_answers(
            windows, logits, num_best=num_best, max_answer_pieces=max_answer_pieces
        )
        expected = naive_candidates(windows, logits, num_best, max_answer_pieces)
        found = [(one.text, one.score) for one in ranked.candidates]
        assert found == expected
        assert ranked.null is None
        assert ranked.answer() == expected[0][0]
    assert len(num_windows) > 2


def test_answers_are_those_of_berts_code():
    official = official_models.squad_library()

    class Tokenizer:
        """One piece a word."""

        def tokenize(self, text):
            return text.split()

        def convert_tokens_to_ids(self, tokens):
            return [0 for _ in tokens]

    draw = random.Random(4)
    examples, features, results, our_windows, our_logits = [], [], [], [], []
    for number in range(25):
        context = random_context(draw, draw.randint(1, 45))
        windows = windows_of(context, f"q{number}")
        examples.append(
            official.SquadExample(f"q{number}", "x y", context.split(), "", 0, 0)
        )
        for window in windows:
            logits = random_logits(draw, window, with_null=True)
            our_windows.append(window)
            our_logits.append(logits)
            unasked = [9.0, 9.0, 9.0]  # at the question, where nothing may be
            results.append(
                types.SimpleNamespace(
                    start_logits=[logits.null[0], *unasked, *logits.start, 9.0],
                    end_logits=[logits.null[1], *unasked, *logits.end, 9.0],
                )
            )

    def keep(feature, is_padding):
        if not is_padding:
            features.append(feature)

    official.convert_examples_to_features(
        examples, Tokenizer(), 20, 7, 3, False, keep, batch_size=1
    )
    assert [one.tokens[4:-1] for one in features] == [
        one.text_of(0, len(one) - 1).split() for one in our_windows
    ]
    for feature, result in zip(features, results, strict=True):
        result.unique_id = feature.unique_id
    predictions, _, odds = official.postprocess_output(
        examples, features, results, 400, 6, True, version_2_with_negative=True
    )
    ranked = list(
        squad_answers.rank_answers(our_windows, our_logits, max_answer_pieces=6)
    )
    assert len(our_windows) > len(ranked) == 25
    assert {one.identifier: one.null_odds for one in ranked} == pytest.approx(
        dict(odds)
    )
    found = {one.identifier: one.answer() for one in ranked}
    assert {one for one in found if not found[one]} == {
        one for one in predictions if not predictions[one]
    }
    # Of equal spans theirs depends on the order of their lists.
    num_compared = 0
    for one in ranked:
        best = [candidate.score for candidate in one.candidates[:2]]
        if len(set(best)) == len(best):
            num_compared += 1
            assert found[one.identifier] == predictions[one.identifier]
    assert num_compared > 5


def test_an_answer_starts_where_its_window_shows_most():
    windows = windows_of(" ".join(LETTERS))
    first, second, *_ = windows
    at = int(np.flatnonzero(~first.is_max_context)[0])
    logits = [
        WindowLogits(np.zeros(len(window)), np.zeros(len(window))) for window in windows
    ]
    logits[0].start[at] = 99.0
    logits[1].start[at - 7] = 1.0
    (ranked,) = squad_answers.rank_answers(windows, logits)
    assert second.is_max_context[at - 7]
    assert ranked.candidates[0].score == 1.0
    assert ranked.candidates[0].text.startswith(LETTERS[at])


def test_the_text_is_that_of_the_context():
    context = "\u200bA\u0301\n b\xa0  C\x07d.e"
    windows = windows_of(context)
    num_pieces = len(windows[0])
    logits = WindowLogits(np.eye(num_pieces)[0], np.eye(num_pieces)[2])
    (ranked,) = squad_answers.rank_answers(windows, [logits])
    assert ranked.answer() == "A\u0301\n b\xa0  C\x07d"


def test_null_odds_are_of_the_window_that_is_surest_of_an_answer():
    windows = windows_of(" ".join(LETTERS))
    assert len(windows) == 3
    logits = [
        WindowLogits(np.zeros(len(one)), np.zeros(len(one)), null)
        for one, null in zip(windows, [(3, 1), (5, -4), (0, 2)], strict=True)
    ]
    logits[2].end[-1] = 3.0
    (ranked,) = squad_answers.rank_answers(windows, logits)
    assert ranked.null == Candidate("", 5, -4)
    assert ranked.null_odds == 1 - 3
    assert ranked.answer() == ranked.answer(-2.0) == ranked.candidates[0].text
    assert ranked.answer(-2.1) == ""


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


def test_large_logits_do_not_overflow():
    windows = windows_of("a b c")
    most = np.finfo(np.float32).max
    logits = WindowLogits(
        np.array([-most, -most, most], np.float32),
        np.array([-most, -most, most], np.float32),
        (-most, most),
    )
    (ranked,) = squad_answers.rank_answers(windows, [logits])
    assert ranked.answer() == "c"
    assert [one["probability"] for one in ranked.n_best()][:2] == [1, 0]


@pytest.mark.parametrize(
    ("start", "end", "null", "message"),
    [
        ([0, np.nan, 0], [0, 0, 0], None, "must be finite. .* question 'q'"),
        ([0, 0, 0], [0, np.inf, 0], None, "must be finite"),
        ([0, 0, 0], [0, 0, 0], (0, -np.inf), "must be finite"),
        ([0, 0], [0, 0, 0], None, r"one start for .* shape \(2,\) for 3 pieces"),
        ([0, 0, 0], [[0, 0, 0]], None, r"one end for .* shape \(1, 3\) for 3"),
    ],
)
def test_logits_that_do_not_fit_are_refused(start, end, null, message):
    logits = WindowLogits(np.array(start), np.array(end), null)
    with pytest.raises(ValueError, match=message):
        list(squad_answers.rank_answers(windows_of("a b c"), [logits]))


def test_windows_that_do_not_go_together_are_refused():
    first, second = windows_of("a b", "q1", "q2")
    zeros = WindowLogits(np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match=r"stand together. Received: .*'q1'"):
        list(squad_answers.rank_answers([first, second, first], [zeros] * 3))
    with pytest.raises(ValueError, match="zip"):
        list(squad_answers.rank_answers([first, second], [zeros]))
    with pytest.raises(ValueError, match=r"at least 1. Received: num_best=0"):
        list(squad_answers.rank_answers([first], [zeros], num_best=0))


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


def gold_logits(window, spans):
    """Logits that are 1 at the ends of the first of `spans` that is in the window."""
    start, end = np.zeros(len(window)), np.zeros(len(window))
    for first, last in spans:
        first, last = first - window.start, last - window.start
        if first >= 0 and last < len(window) and window.is_max_context[first]:
            start[first] = end[last] = 1.0
            break
    return WindowLogits(start, end, (0.0, 0.5) if spans else (1.0, 1.5))


# What is out of reach is a part of a piece, "Japan" in "Japanese" and its like, and in
# both files one answer of more than 30 pieces.
@pytest.mark.parametrize(
    ("name", "exact", "num_out_of_reach", "least_f1"),
    [
        ("dev-v1.1.reconstructed.json", "exact_match", 17, 99.8),
        ("dev-v2.0.reconstructed.json", "exact", 9, 99.8),
    ],
)
def test_pointing_at_the_gold_answers_scores_best(
    name, exact, num_out_of_reach, least_f1
):
    path = sample_data("bert_vocab", "bert-base-uncased-vocab.txt")
    data = squad_files.read(sample_data("squad", name))
    encoder = SpanEncoder(Vocabulary.from_file(path))
    windows = make_windows(data.passages, encoder, WindowSizes()).windows
    answers = {one.identifier: one.answers for one in data.questions()}

    def logits():
        for window in windows:
            context, gold = window.context, answers[window.identifier]
            spans = [context.span_of(answer) for answer in gold]
            texts = [context.text_of(*span) for span in spans]
            # First what is most like what one of the people said, and not too long.
            order = sorted(
                range(len(gold)),
                key=lambda at: (
                    spans[at][1] - spans[at][0] >= 30,
                    len(texts[at]) - len(gold[at].text),
                ),
            )
            yield gold_logits(window, [spans[at] for at in order])

    ranked = list(squad_answers.rank_answers(windows, logits(), num_best=2))
    scores = evaluation.evaluate(data, {one.identifier: one.answer() for one in ranked})
    assert len(ranked) == scores["total"]
    num_wrong = round(scores["total"] * (1 - scores[exact] / 100))
    assert num_wrong == num_out_of_reach
    assert scores["f1"] > least_f1
