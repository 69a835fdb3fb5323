"""Windows become rows: every piece in its place, the answer where it stands."""

import dataclasses

import numpy as np
import pytest

from seg_tf import configuration
from seg_tf.finetuning.spans.span_batches import span_batches
from seg_tf.finetuning.spans.squad_examples import SpanExamples, window_sizes
from seg_tf.tasks.squad.spans import SpanEncoder
from seg_tf.tasks.squad.squad_files import Answer, Passage, Question
from seg_tf.tasks.squad.windows import WindowSizes, make_windows
from tests.finetuning.tiny_models import MAX_SENTENCES, WINDOW_LENGTH, tiny
from tests.finetuning.tiny_squad import random_context
from tests.inference.tiny_slm import VOCABULARY, WORDS

ENCODER = SpanEncoder(VOCABULARY)
each_kind = pytest.mark.parametrize("kind", ["bert", "segabert", "slm", "segabert_slm"])
W0 = VOCABULARY.tokens.index("w0")
DOT = VOCABULARY.tokens.index(".")


def windows_of(context, question, sizes, answer=None):
    start = context.index(answer) if answer else 0
    answers = (Answer(answer, start),) if answer else ()
    asked = Question("q", question, answers, is_impossible=not answers)
    return make_windows([Passage("t", context, (asked,))], ENCODER, sizes).windows


def rows_of(kind, windows, max_length=None):
    ((features, labels),) = span_batches(
        tiny(kind),
        SpanExamples(windows),
        batch_size=len(windows),
        with_labels=True,
        max_length=max_length,
    )
    labels = {name: values.numpy().tolist() for name, values in labels.items()}
    return {name: values.numpy() for name, values in features.items()}, labels


CONTEXT = "W0 w1. W2 w3 w4.\nW5 w6 w7."


def test_rows_of_a_segabert():
    sizes = WindowSizes(max_length=12, stride=4, max_question_pieces=3)
    # Pieces w0 w1 . | w2 w3 w4 . || w5 w6 w7 . in windows of 7, 4 apart.
    windows = windows_of(CONTEXT, "w8 w9", sizes, "w3 w4")
    assert [(one.start, one.stop) for one in windows] == [(0, 7), (4, 11)]
    features, labels = rows_of("segabert", windows, max_length=12)
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


def test_rows_of_an_slm():
    sizes = window_sizes(tiny("slm"), max_length=14, stride=4, max_question_pieces=3)
    # 2 + 3 positions for the specials and the question, 9 for the context.
    windows = windows_of(CONTEXT, "w8 w9", sizes, "W5")
    assert [(one.start, one.stop) for one in windows] == [(0, 7), (4, 11)]
    features, labels = rows_of("slm", windows, max_length=14)
    first = [2, 5, W0 + 8, W0 + 9, 5, W0, W0 + 1, DOT, 5, W0 + 2, W0 + 3, W0 + 4, DOT]
    second = [2, 5, W0 + 8, W0 + 9, 5, W0 + 3, W0 + 4, DOT]
    second += [5, W0 + 5, W0 + 6, W0 + 7, DOT]
    assert features["token_ids"].tolist() == [[*first, 3], [*second, 3]]
    assert features["sentence_id"].tolist() == [
        [0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4],
        [0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4],
    ]
    assert features["candidate_positions"].tolist() == [[0, 1, 4, 8, 13]] * 2
    # w5 is in the second window alone: after [CLS], question and one sentence.
    assert labels == {"start": [0, 9], "end": [0, 9], "sentence": [0, 3]}


@each_kind
@pytest.mark.parametrize("seed", range(3))
def test_answers_of_all_windows_are_found_in_their_rows(kind, seed):
    generator = np.random.default_rng(seed)
    text, places = random_context(generator)
    first = int(generator.integers(0, 48))
    start, stop = places[first][0], places[first + 2][1]
    sizes = window_sizes(tiny(kind), max_length=30, stride=5)
    windows = windows_of(text, "w51 w52", sizes, text[start:stop])
    features, labels = rows_of(kind, windows, max_length=30)
    assert len(windows) > 3
    assert any(labels["start"])
    assert not all(labels["start"])
    wanted = [word.lower().strip(".") for word in text[start:stop].split()]
    for row, window in enumerate(windows):
        span = slice(labels["start"][row], labels["end"][row] + 1)
        ids = features["token_ids"][row, span].tolist()
        if window.answer is None:
            assert ids == [VOCABULARY.cls_id]
            continue
        tokens = [VOCABULARY.tokens[one] for one in ids]
        assert [one for one in tokens if one in WORDS] == wanted
        if "sentence" in labels:
            # Behind [CLS] and the question.
            assert labels["sentence"][row] == 2 + window.answer_sentence
            position = features["candidate_positions"][row, labels["sentence"][row]]
            behind = features["candidate_positions"][row, labels["sentence"][row] + 1]
            assert position < span.start < behind


@each_kind
def test_windows_fill_rows_and_never_overflow(kind):
    sizes = window_sizes(tiny(kind))
    layout = tiny(kind).layout(sizes.max_length, for_spans=True)
    generator = np.random.default_rng(1)
    lengths, numbers = [], []
    for _ in range(10):
        text, _ = random_context(generator)
        for one in SpanExamples(windows_of(text, "w51 w52", sizes)):
            features = layout.lay_out([one.segments], layout.row_shape(one.segments))
            lengths.append(int(features["padding_mask"].sum()))
            numbers.append(len(one.segments))
    assert max(lengths) <= WINDOW_LENGTH
    if kind.endswith("slm"):
        assert max(numbers) == MAX_SENTENCES
    else:
        assert max(lengths) == WINDOW_LENGTH


def with_rows_of(kind, length):
    """A tiny model as if pretrained with rows of another length."""
    pretrained = tiny(kind)
    inputs = configuration.WindowInputsConfig(window_length=length)
    if kind.endswith("slm"):
        inputs = configuration.SentenceInputsConfig(
            window_length=length - MAX_SENTENCES, max_sentences=MAX_SENTENCES
        )
    config = dataclasses.replace(pretrained.config, inputs=inputs)
    return dataclasses.replace(pretrained, config=config)


@pytest.mark.parametrize(
    ("kind", "row_length", "max_length", "stride", "question"),
    [
        ("segabert", 512, 384, 128, 64),
        ("segabert_slm", 600, 512, 128, 64),
        ("segabert_slm", 512, 512, 128, 64),
        ("segabert", 128, 128, 42, 64),
        ("segabert", 60, 60, 20, 30),
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


def test_sizes_can_be_given():
    sizes = window_sizes(
        with_rows_of("segabert", 128), max_length=500, stride=7, max_question_pieces=9
    )
    assert (sizes.max_length, sizes.stride, sizes.max_question_pieces) == (500, 7, 9)
    with pytest.raises(ValueError, match=r"`max_length` must be at most .* 48"):
        window_sizes(tiny("bert"), max_length=49)
    with pytest.raises(ValueError, match="`stride` must be at least 1"):
        window_sizes(tiny("bert"), stride=0)


def test_a_reat_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"\(ReAT\) are not part.*tiny_re"):
        window_sizes(tiny("reat"))
