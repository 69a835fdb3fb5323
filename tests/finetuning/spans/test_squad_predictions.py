"""Logits come back to their windows and pieces, and the loss is that of training."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.finetuning.spans import squad_predictions
from seg_tf.finetuning.spans.span_extractor import SpanExtractor
from seg_tf.finetuning.spans.squad_predictions import (
    AnswerRanker,
    Predictions,
    WindowPredictor,
)
from seg_tf.finetuning.spans.squad_splits import make_split
from seg_tf.finetuning.trials.divergence import TrainingDiverged
from seg_tf.layouts.contexts import WindowSizes
from seg_tf.preprocessing.window_sizes import window_sizes
from seg_tf.tasks.squad import evaluation, squad_files
from seg_tf.tasks.squad.answers import Candidate
from seg_tf.tasks.squad.squad_files import Answer, Passage, Question, SquadFile
from seg_tf.text.vocabulary import Vocabulary
from tests.finetuning.spans.test_span_batches import with_rows_of
from tests.finetuning.spans.test_squad_splits import no_bar
from tests.finetuning.tiny_models import tiny
from tests.finetuning.tiny_squad import random_context
from tests.inference.tiny_slm import VOCABULARY
from tests.sample_data import sample_data

pytestmark = pytest.mark.slow

each_kind = pytest.mark.parametrize("kind", ["segabert", "segabert_slm"])


def split_for(kind, num_contexts=6):
    """Windows of contexts of 5 to 50 words; every third question has no answer."""
    generator = np.random.default_rng(3)
    passages = []
    for number in range(num_contexts):
        text, places = random_context(generator, int(generator.integers(5, 51)))
        start, stop = places[2][0], places[3][1]
        answers = (Answer(text[start:stop], start),) if number % 3 else ()
        question = Question(str(number), "w51 w52", answers, not answers)
        passages.append(Passage("t", text, (question,)))
    data = SquadFile("made", True, tuple(passages))
    return make_split(data, tiny(kind), window_sizes(tiny(kind)), no_bar)


class TokenReader:
    """Logits that tell which piece stands where, and how long the row is."""

    def __init__(self, start=0.0):
        self.start = start

    def predict_on_batch(self, batch):
        token_ids = np.asarray(batch["token_ids"], np.float64)
        outputs = {"start": self.start + token_ids, "end": -token_ids}
        if "candidate_positions" in batch:
            outputs["sentence"] = np.zeros(batch["candidate_positions"].shape)
        return outputs


@each_kind
def test_logits_are_those_of_the_pieces_of_each_window(kind):
    examples = split_for(kind).examples
    found = WindowPredictor(examples)(TokenReader(start=0.5))
    assert len(set(examples.windows.lengths().numpy())) > 3
    pieces, _ = examples.windows.pieces()
    ids = examples.contexts.ids.numpy()[pieces]
    np.testing.assert_array_equal(found.start, 0.5 + ids)
    np.testing.assert_array_equal(found.end, -ids)
    cls_id = VOCABULARY.cls_id
    assert found.null.tolist() == [[0.5 + cls_id, -cls_id]] * len(examples)


@each_kind
def test_the_loss_is_that_of_keras(kind):
    examples = split_for(kind).examples
    model = SpanExtractor.from_pretrained(tiny(kind), seed=1)
    model.compile(loss=model.losses_of_pointers(), jit_compile=False)
    batches = examples.batches(len(examples), with_labels=True)
    expected = model.evaluate(batches, verbose=0, return_dict=True)["loss"]
    assert WindowPredictor(examples)(model).loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_model_that_diverged_is_named_as_such(value):
    predictor = WindowPredictor(split_for("segabert").examples)
    with pytest.raises(TrainingDiverged, match="not finite: the training diverged"):
        predictor(TokenReader(start=value))


@pytest.mark.parametrize("has_null", [False, True])
def test_questions_get_the_answers_of_their_windows(has_null, monkeypatch):
    split = split_for("segabert", num_contexts=5)
    examples = split.examples
    pieces, of_windows = (values.numpy() for values in examples.windows.pieces())
    questions = examples.windows.questions.numpy()
    generator = np.random.default_rng(1)
    start, end = generator.normal(size=(2, len(pieces)))
    null = generator.normal(size=(len(examples), 2))
    names = [f"q{number}" for number in range(5)]
    found = []
    # Whatever number of questions is looked at together.
    for at_once in (256, 2):
        monkeypatch.setattr(squad_predictions, "_QUESTIONS_AT_ONCE", at_once)
        ranker = AnswerRanker(
            examples, names, split.contexts(), has_null=has_null, max_answer_pieces=1
        )
        found.append(ranker(Predictions(start, end, null, 0.0)))
    assert found[0] == found[1]
    is_start = examples.windows.is_max_context(5).numpy()
    for number, one in enumerate(found[0]):
        assert one.identifier == names[number]
        text = split.contexts()[number]
        of_question = questions[of_windows] == number
        places = np.flatnonzero(of_question & is_start)
        best = places[np.argsort(-(start + end)[places])]
        base = int(examples.contexts.texts.starts[number])
        first = examples.contexts.starts.numpy()[pieces] - base
        stop = examples.contexts.stops.numpy()[pieces] - base
        texts = [text[first[at] : stop[at]] for at in best]
        assert [each.text for each in one.candidates] == list(dict.fromkeys(texts))[:20]
        assert one.candidates[0] == Candidate(texts[0], start[best[0]], end[best[0]])
        nulls = null[questions == number]
        surest = nulls[nulls.sum(axis=1).argmin()]
        assert one.null == (Candidate("", *surest) if has_null else None)


def gold_predictions(split, order):
    """Logits that are 1 at the ends of the first answer in `order` that is shown."""
    examples = split.examples
    windows = examples.windows
    is_start = windows.is_max_context(split.num_questions).numpy()
    pieces, _ = (values.numpy() for values in windows.pieces())
    start, end = np.zeros((2, len(pieces)))
    null = np.zeros((len(examples), 2))
    begin = 0
    columns = (windows.questions, windows.starts, windows.stops)
    for window, (question, first_piece, stop) in enumerate(
        zip(*(one.numpy().tolist() for one in columns), strict=True)
    ):
        spans = order[question]
        null[window] = (0.0, 0.5) if spans else (1.0, 1.5)
        for first, last in spans:
            at = begin + first - first_piece
            if first_piece <= first and last < stop and is_start[at]:
                start[at] = end[at + last - first] = 1.0
                break
        begin += stop - first_piece
    return Predictions(start, end, null, 0.0)


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
    pretrained = dataclasses.replace(
        with_rows_of("segabert", 384), vocabulary=Vocabulary.from_file(path)
    )
    data = squad_files.read(sample_data("squad", name))
    split = make_split(data, pretrained, WindowSizes(), no_bar)
    assert split.num_out_of_reach(30) == num_out_of_reach
    texts = split.contexts()
    asked = split.examples.questions.contexts.numpy()
    of_each = [
        (number, answer)
        for number, question in enumerate(data.questions())
        for answer in question.answers
    ]
    contexts = split.examples.contexts
    spans = contexts.spans(
        tf.constant([asked[number] for number, _ in of_each]),
        tf.constant([answer.start for _, answer in of_each]),
        tf.constant([answer.stop for _, answer in of_each]),
    )
    starts, stops = contexts.starts.numpy(), contexts.stops.numpy()
    cases = [[] for _ in asked]
    for (number, answer), first, last in zip(
        of_each, *(one.numpy().tolist() for one in spans), strict=True
    ):
        # First what is most like what one of the people said, and not too long.
        surplus = stops[last] - starts[first] - len(answer.text)
        cases[number].append(
            (last - first >= 30, surplus, len(cases[number]), first, last)
        )
    order = [[case[3:] for case in sorted(of_question)] for of_question in cases]
    identifiers = [question.identifier for question in data.questions()]
    ranker = AnswerRanker(
        split.examples, identifiers, texts, has_null=data.has_impossible, num_best=2
    )
    ranked = ranker(gold_predictions(split, order))
    scores = evaluation.evaluate(data, {one.identifier: one.answer() for one in ranked})
    assert len(ranked) == scores["total"]
    num_wrong = round(scores["total"] * (1 - scores[exact] / 100))
    assert num_wrong == num_out_of_reach
    assert scores["f1"] > least_f1
