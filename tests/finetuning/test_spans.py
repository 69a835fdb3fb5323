"""Windows become rows; logits come back to their windows, and rank the answers."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.data.inputs import SentenceInputsConfig, WindowInputsConfig
from seg_tf.finetuning import spans
from seg_tf.finetuning.span_extractor import SpanExtractor
from seg_tf.finetuning.spans import AnswerRanker, SpanExamples
from seg_tf.finetuning.trials import TrainingDiverged
from seg_tf.preprocessing import window_sizes
from seg_tf.tasks import squad
from seg_tf.tasks.squad import Answer, Candidate, Passage, Question, SquadFile
from tests.finetuning.tiny_models import MAX_SENTENCES, tiny
from tests.finetuning.tiny_squad import random_context
from tests.inference.tiny_slm import VOCABULARY, WORDS
from tests.sample_data import released_vocabulary, sample_data

pytestmark = pytest.mark.slow
EAGER = True


W0 = VOCABULARY.tokens.index("w0")
DOT = VOCABULARY.tokens.index(".")


def examples_of(kind, contexts, question, sizes, answer=None):
    """A question about one context, or about each of several."""
    contexts = [contexts] if isinstance(contexts, str) else contexts
    passages = []
    for number, context in enumerate(contexts):
        answers = (Answer(answer, context.index(answer)),) if answer else ()
        asked = Question(str(number), question, answers, is_impossible=not answers)
        passages.append(Passage(context, (asked,)))
    data = SquadFile("made", True, tuple(passages))
    return SpanExamples(tiny(kind), data, **sizes)


def bounds_of(examples):
    windows = examples.windows
    columns = (windows.starts.numpy(), windows.stops.numpy())
    return [tuple(one) for one in zip(*(one.tolist() for one in columns), strict=True)]


def rows_of(examples):
    ((features, labels),) = examples.batches(len(examples))
    labels = {name: values.numpy().tolist() for name, values in labels.items()}
    return {name: values.numpy() for name, values in features.items()}, labels


CONTEXT = "W0 w1. W2 w3 w4.\nW5 w6 w7."


def test_rows_of_a_segabert():
    sizes = {"max_length": 12, "stride": 4, "max_question_pieces": 3}
    # Pieces w0 w1 . | w2 w3 w4 . || w5 w6 w7 . in windows of 7, 4 apart.
    examples = examples_of("segabert", CONTEXT, "w8 w9", sizes, "w3 w4")
    assert bounds_of(examples) == [(0, 7), (4, 11)]
    features, labels = rows_of(examples)
    w8, w9 = W0 + 8, W0 + 9
    assert features["token_ids"].tolist() == [
        [2, w8, w9, 3, W0, W0 + 1, DOT, W0 + 2, W0 + 3, W0 + 4, DOT, 3],
        [2, w8, w9, 3, W0 + 3, W0 + 4, DOT, W0 + 5, W0 + 6, W0 + 7, DOT, 3],
    ]
    assert features["paragraph_index"].tolist() == [
        [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1],
        [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2],
    ]
    assert features["sentence_index"].tolist() == [
        [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1],
        [0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0],
    ]
    # The second window begins with the second word of its sentence.
    assert features["token_index"].tolist() == [
        [0, 0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 4],
        [0, 0, 1, 2, 1, 2, 3, 0, 1, 2, 3, 4],
    ]
    assert labels == {"start": [8, 4], "end": [9, 5]}


@pytest.mark.parametrize(
    ("kind", "seed"),
    [("bert", 0), ("segabert", 1), ("slm", 0), ("segabert_slm", 1)],
)
def test_answers_of_all_windows_are_found_in_their_rows(kind, seed):
    generator = np.random.default_rng(seed)
    text, places = random_context(generator)
    first = int(generator.integers(0, 48))
    start, stop = places[first][0], places[first + 2][1]
    sizes = {"max_length": 30, "stride": 5}
    examples = examples_of(kind, text, "w51 w52", sizes, text[start:stop])
    features, labels = rows_of(examples)
    bounds = bounds_of(examples)
    answer = [int(one[0]) for one in examples.answers]
    assert len(bounds) > 3
    assert any(labels["start"])
    assert not all(labels["start"])
    wanted = [word.lower().strip(".") for word in text[start:stop].split()]
    sentences = examples.contexts.sentences.numpy()
    for row, (begin, end) in enumerate(bounds):
        span = slice(labels["start"][row], labels["end"][row] + 1)
        ids = features["token_ids"][row, span].tolist()
        if not (begin <= answer[0] and answer[1] < end):
            assert ids == [VOCABULARY.cls_id]
            continue
        tokens = [VOCABULARY.tokens[one] for one in ids]
        assert [one for one in tokens if one in WORDS] == wanted
        if "sentence" in labels:
            # After [CLS] and the question.
            sentence = 2 + sentences[answer[0]] - sentences[begin]
            assert labels["sentence"][row] == sentence
            position, after = features["candidate_positions"][row, sentence:][:2]
            assert position < span.start < after


@pytest.mark.parametrize("kind", ["segabert", "segabert_slm"])
def test_rows_do_not_depend_on_their_company(kind):
    text, _ = random_context(np.random.default_rng(2))
    sizes = {"max_length": 30, "stride": 5}
    examples = examples_of(kind, text, "w51 w52", sizes)
    together, _ = rows_of(examples)
    for number, (features, _) in enumerate(examples.batches(1)):
        for name, values in features.items():
            (row,) = values.numpy()
            np.testing.assert_array_equal(together[name][number, : len(row)], row, name)
            assert not together[name][number, len(row) :].any()


def with_rows_of(kind, length):
    """A tiny model as if pretrained with rows of another length."""
    pretrained = tiny(kind)
    inputs = WindowInputsConfig(window_length=length)
    if kind.endswith("slm"):
        inputs = SentenceInputsConfig(
            window_length=length - MAX_SENTENCES, max_sentences=MAX_SENTENCES
        )
    config = dataclasses.replace(pretrained.config, inputs=inputs)
    return dataclasses.replace(pretrained, config=config)


@pytest.mark.parametrize(
    ("kind", "row_length", "max_length", "stride", "question"),
    [
        ("segabert", 512, 384, 128, 64),
        ("segabert_slm", 600, 512, 128, 64),
        ("segabert", 128, 128, 42, 64),
        ("bert", 40, 40, 13, 20),
    ],
)
def test_sizes_are_those_of_the_papers_or_what_the_model_has(
    kind, row_length, max_length, stride, question
):
    sizes = window_sizes(with_rows_of(kind, row_length))
    assert (sizes.max_length, sizes.stride) == (max_length, stride)
    assert sizes.max_question_pieces == question
    of_rows = (sizes.num_special_tokens, sizes.tokens_per_sentence, sizes.max_sentences)
    assert of_rows == ((2, 1, MAX_SENTENCES) if kind.endswith("slm") else (3, 0, None))


# === Ranked answers ===


def made_for(kind, num_contexts=6, has_null=True):
    """Contexts of 5 to 50 words and windows; every third question has no answer."""
    generator = np.random.default_rng(3)
    passages = []
    for number in range(num_contexts):
        text, places = random_context(generator, int(generator.integers(5, 51)))
        start, stop = places[2][0], places[3][1]
        answers = (Answer(text[start:stop], start),) if number % 3 else ()
        question = Question(str(number), "w51 w52", answers, not answers)
        passages.append(Passage(text, (question,)))
    data = SquadFile("made", has_null, tuple(passages))
    return SpanExamples(tiny(kind), data)


class TableReader:
    """Logits by a table of the pieces, wherever they stand."""

    def __init__(self, *tables):
        self.tables = tables

    def predict_on_batch(self, batch):
        names = ("start", "end")
        outputs = {
            name: table[batch["token_ids"]]
            for name, table in zip(names, self.tables, strict=True)
        }
        if "candidate_positions" in batch:
            outputs["sentence"] = np.zeros(batch["candidate_positions"].shape)
        return outputs


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("kind", ["segabert", "segabert_slm"])
def test_the_loss_is_that_of_keras(kind):
    examples = made_for(kind)
    model = SpanExtractor.from_preset(tiny(kind), seed=1)
    model.compile(loss=model.losses_of_pointers(), jit_compile=False)
    batches = examples.batches(len(examples))
    expected = model.evaluate(batches, verbose=0, return_dict=True)["loss"]
    _, loss = AnswerRanker(examples)(model)
    assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_model_that_diverged_is_named_as_such(value):
    table = np.full(VOCABULARY.size, value)
    with pytest.raises(TrainingDiverged, match="not finite: the training diverged"):
        AnswerRanker(made_for("segabert"))(TableReader(table, table))


@pytest.mark.parametrize(
    ("kind", "has_null"), [("segabert", False), ("segabert_slm", True)]
)
def test_questions_get_the_best_pieces_of_their_contexts(kind, has_null, monkeypatch):
    examples = made_for(kind, 5, has_null)
    starts, ends = np.random.default_rng(1).normal(size=(2, VOCABULARY.size))
    found = []
    # Whatever number of questions is looked at together.
    for at_once in (32, 2):
        monkeypatch.setattr(spans, "_QUESTIONS_AT_ONCE", at_once)
        ranker = AnswerRanker(examples, max_answer_pieces=1)
        found.append(ranker(TableReader(starts, ends))[0])
    assert found[0] == found[1]
    cls_id = VOCABULARY.cls_id
    for number, (one, passage) in enumerate(
        zip(found[0], examples.data.passages, strict=True)
    ):
        assert one.identifier == str(number)
        words = passage.context.replace(".", " . ").split()
        scores = {}
        for word in words:
            piece = VOCABULARY.tokens.index(word.lower())
            scores[word] = Candidate(word, starts[piece], ends[piece])
        best = sorted(scores.values(), key=lambda candidate: -candidate.score)
        assert list(one.candidates) == best[:20]
        null = Candidate("", starts[cls_id], ends[cls_id])
        assert one.null == (null if has_null else None)


def gold_logits(examples, order):
    """Logits that are 1 at the ends of the first answer in `order` that is shown."""
    windows = examples.windows
    is_start = windows.is_max_context(len(examples.questions.contexts)).numpy()
    pieces, _ = (values.numpy() for values in windows.pieces())
    start, end = np.zeros((2, len(pieces)))
    null = np.zeros((len(examples), 2))
    begin = 0
    columns = (windows.questions, windows.starts, windows.stops)
    for window, (question, first_piece, stop) in enumerate(
        zip(*(one.numpy().tolist() for one in columns), strict=True)
    ):
        answers = order[question]
        null[window] = (0.0, 0.5) if answers else (1.0, 1.5)
        for first, last in answers:
            at = begin + first - first_piece
            if first_piece <= first and last < stop and is_start[at]:
                start[at] = end[at + last - first] = 1.0
                break
        begin += stop - first_piece
    return start, end, null


@pytest.mark.usefixtures("traced")
def test_pointing_at_the_gold_answers_scores_best():
    pretrained = dataclasses.replace(
        with_rows_of("segabert", 384), vocabulary=released_vocabulary()
    )
    data = squad.read(sample_data("squad", "dev-v2.0.reconstructed.json"))
    examples = SpanExamples(pretrained, data)
    asked = examples.questions.contexts.numpy()
    of_each = [
        (number, answer)
        for number, question in enumerate(data.questions())
        for answer in question.answers
    ]
    contexts = examples.contexts
    answers = contexts.spans(
        tf.constant([asked[number] for number, _ in of_each]),
        tf.constant([answer.start for _, answer in of_each]),
        tf.constant([answer.stop for _, answer in of_each]),
    )
    starts, stops = contexts.starts.numpy(), contexts.stops.numpy()
    cases = [[] for _ in asked]
    for (number, answer), first, last in zip(
        of_each, *(one.numpy().tolist() for one in answers), strict=True
    ):
        # First what is most like what one of the people said, and not too long.
        surplus = stops[last] - starts[first] - len(answer.text)
        cases[number].append(
            (last - first >= 30, surplus, len(cases[number]), first, last)
        )
    order = [[case[3:] for case in sorted(of_question)] for of_question in cases]
    identifiers = [question.identifier for question in data.questions()]
    ranker = AnswerRanker(examples, num_best=2)
    starts, ends, nulls = gold_logits(examples, order)
    questions = examples.windows.questions.numpy()
    first_pieces = np.append(0, np.cumsum(examples.windows.lengths()))
    ranked = []
    for begin in range(0, len(identifiers), 256):
        some = identifiers[begin : begin + 256]
        rows = np.flatnonzero((questions >= begin) & (questions < begin + len(some)))
        pieces = slice(first_pieces[rows[0]], first_pieces[rows[-1] + 1])
        ranked += ranker.rank(
            some, begin, rows, starts[pieces], ends[pieces], nulls[rows]
        )
    scores = squad.evaluate(data, {one.identifier: one.answer() for one in ranked})
    assert len(ranked) == scores["total"]
    # What is out of reach is a part of a piece, "Japan" in "Japanese" and its like, and
    # one answer of more than 30 pieces.
    assert round(scores["total"] * (1 - scores["exact"] / 100)) == 9
    assert scores["f1"] > 99.8
