"""Answers are the best spans there are, in the characters of the context."""

import dataclasses
import functools
import random
import types

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layouts import spans as span_answers
from seg_tf.layouts.contexts import Contexts, WindowSizes, make_windows
from seg_tf.preprocessing import SpanPreprocessor
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests import official_models
from tests.finetuning.tiny_models import tiny
from tests.layouts.made_contexts import questions_of

pytestmark = pytest.mark.slow
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIZES = WindowSizes(max_length=20, stride=7, max_question_pieces=3)


@functools.cache
def encoder():
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *LETTERS])
    pretrained = dataclasses.replace(tiny("bert"), vocabulary=vocabulary)
    return SpanPreprocessor(pretrained, SIZES)


@dataclasses.dataclass
class Asked:
    """Contexts, one question about each, and the windows as NumPy has them."""

    texts: list
    contexts: Contexts
    windows: object
    bounds: list
    flags: list
    starts: np.ndarray
    stops: np.ndarray

    @classmethod
    def about(cls, *texts):
        contexts = encoder().contexts(tf.constant(texts))
        windows = make_windows(contexts, questions_of(*[[1, 2]] * len(texts)), SIZES)
        flags = windows.is_max_context(len(texts)).numpy()
        bounds = [
            tuple(map(int, one))
            for one in zip(
                windows.questions, windows.starts, windows.stops, strict=True
            )
        ]
        splits = np.cumsum(windows.lengths())[:-1]
        bases = np.repeat(contexts.texts.starts, contexts.num_pieces())
        return cls(
            texts=list(texts),
            contexts=contexts,
            windows=windows,
            bounds=bounds,
            flags=np.split(flags, splits),
            starts=contexts.starts.numpy() - bases,
            stops=contexts.stops.numpy() - bases,
        )

    def text_of(self, question, first, last):
        return self.texts[question][self.starts[first] : self.stops[last]]

    def rank(self, logits, nulls=None, num_best=20, max_answer_pieces=30):
        start, end = (np.concatenate(one) for one in zip(*logits, strict=True))
        return span_answers.best_spans(
            self.contexts,
            tf.range(len(self.texts)),
            self.windows,
            tf.constant(start),
            tf.constant(end),
            np.zeros((len(self.bounds), 2)) if nulls is None else np.array(nulls),
            num_best=num_best,
            max_answer_pieces=max_answer_pieces,
        )

    def best(self, logits, num_best=20, **arguments):
        """For each question the texts, scores and places that were found."""
        found = self.rank(logits, num_best=num_best, **arguments)
        ranked = []
        for number, text in enumerate(self.texts):
            count = int(found.counts[number])
            texts = [one.decode() for one in found.texts[number].numpy()]
            places = zip(
                found.starts[number].numpy(), found.ends[number].numpy(), strict=True
            )
            assert [text[begin:stop] for begin, stop in places] == texts
            scores = found.scores[number].numpy().tolist()
            assert texts[count:] == [""] * (num_best - count)
            assert scores[count:] == [span_answers.NO_SCORE] * (num_best - count)
            ranked.append(list(zip(texts[:count], scores[:count], strict=True)))
        return ranked


def random_context(draw, num_words):
    return " ".join(draw.choices(LETTERS[:6], k=num_words))


def random_logits(draw, length):
    """Of few values, so that many spans are equal."""
    values = [draw.choice([-2.0, -0.5, 0.0, 0.25, 1.0]) for _ in range(2 * length)]
    return np.array(values[:length]), np.array(values[length:])


def naive_answers(asked, logits, num_best, max_answer_pieces):
    """Texts and scores of all spans, the best of each text, by loops."""
    spans = [[] for _ in asked.texts]
    for bounds, flags, (starts, ends) in zip(
        asked.bounds, asked.flags, logits, strict=True
    ):
        question, begin, stop = bounds
        for first in np.flatnonzero(flags):
            for last in range(first, min(first + max_answer_pieces, stop - begin)):
                text = asked.text_of(question, begin + first, begin + last)
                spans[question].append((text, starts[first] + ends[last]))
    found = []
    for of_question in spans:
        best = {}
        for text, score in sorted(of_question, key=lambda span: -span[1]):
            best.setdefault(text, score)
        found.append(list(best.items())[:num_best])
    return found


@pytest.mark.parametrize(
    ("num_best", "max_answer_pieces"), [(1, 30), (5, 4), (400, 3), (20, 1)]
)
def test_answers_are_the_best_of_all_spans(num_best, max_answer_pieces):
    draw = random.Random(3)
    asked = Asked.about(*(random_context(draw, draw.randint(1, 45)) for _ in range(30)))
    logits = [random_logits(draw, stop - start) for _, start, stop in asked.bounds]
    found = asked.best(logits, num_best, max_answer_pieces=max_answer_pieces)
    assert found == naive_answers(asked, logits, num_best, max_answer_pieces)
    assert len({len(one) for one in found}) > 2 or num_best < 20


def test_answers_are_those_of_berts_code():
    official = official_models.squad_library()
    tokenizer = official_models.WordTokenizer()
    draw = random.Random(4)
    asked = Asked.about(*(random_context(draw, draw.randint(1, 45)) for _ in range(25)))
    examples = [
        official.SquadExample(f"q{number}", "x y", text.split(), "", 0, 0)
        for number, text in enumerate(asked.texts)
    ]
    features, results, logits, nulls = [], [], [], []
    for _, begin, stop in asked.bounds:
        start, end = random_logits(draw, stop - begin)
        null = (draw.uniform(-3, 3), draw.uniform(-3, 3))
        logits.append((start, end))
        nulls.append(null)
        unasked = [9.0, 9.0, 9.0]  # at the question, where nothing may be
        results.append(
            types.SimpleNamespace(
                start_logits=[null[0], *unasked, *start, 9.0],
                end_logits=[null[1], *unasked, *end, 9.0],
            )
        )

    def keep(feature, is_padding):
        if not is_padding:
            features.append(feature)

    official.convert_examples_to_features(
        examples, tokenizer, 20, 7, 3, False, keep, batch_size=1
    )
    assert [one.tokens[4:-1] for one in features] == [
        asked.text_of(question, begin, stop - 1).split()
        for question, begin, stop in asked.bounds
    ]
    for feature, result in zip(features, results, strict=True):
        result.unique_id = feature.unique_id
    predictions, _, odds = official.postprocess_output(
        examples, features, results, 400, 6, True, version_2_with_negative=True
    )
    ranked = asked.best(logits, max_answer_pieces=6)
    assert len(asked.bounds) > len(ranked) == 25
    null_scores = asked.rank(logits, nulls).null_scores.numpy()
    num_compared = 0
    for number, (of_question, null) in enumerate(zip(ranked, null_scores, strict=True)):
        name = f"q{number}"
        null_odds = null - of_question[0][1]
        assert null_odds == pytest.approx(odds[name])
        assert (null_odds > 0) == (predictions[name] == "")
        # Of equal spans theirs depends on the order of their lists.
        best = [score for _, score in of_question[:2]]
        if len(set(best)) == len(best):
            num_compared += 1
            answer = "" if null_odds > 0 else of_question[0][0]
            assert answer == predictions[name]
    assert num_compared > 5


def test_null_scores_are_those_of_the_best_window():
    asked = Asked.about(" ".join(LETTERS), "a", " ".join(LETTERS[:12]))
    assert [question for question, _, _ in asked.bounds] == [0, 0, 0, 1, 2]
    nulls = np.array([[4.0, 0.0], [2.0, -1.0], [0.0, 2.0], [7.0, 0.0], [-5.0, 2.0]])
    logits = [(np.zeros(len(flags)),) * 2 for flags in asked.flags]
    found = asked.rank(logits, nulls)
    assert found.null_logits.numpy().tolist() == nulls[[1, 3, 4]].tolist()
    assert found.null_scores.numpy().tolist() == [1.0, 7.0, -3.0]


def test_contexts_without_a_piece_have_no_answer():
    logits = (np.array([1.0]), np.array([2.0]))
    nothing = (np.zeros(0), np.zeros(0))
    found = Asked.about(" ", "a", "").best([nothing, logits, nothing])
    assert found == [[], [("a", 3.0)], []]
    assert Asked.about("").best([nothing], num_best=2) == [[]]
