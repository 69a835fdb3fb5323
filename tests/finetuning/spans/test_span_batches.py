"""Windows become rows: every piece in its place, the answer where it stands."""

import dataclasses

import numpy as np
import pytest

from seg_tf.data.inputs import SentenceInputsConfig, WindowInputsConfig
from seg_tf.finetuning.spans.squad_splits import make_split
from seg_tf.layouts.contexts import WindowSizes
from seg_tf.layouts.spans import span_rows, span_trees
from seg_tf.preprocessing.window_sizes import window_sizes
from seg_tf.tasks.squad.squad_files import Answer, Passage, Question, SquadFile
from tests.finetuning.spans.test_squad_splits import no_bar
from tests.finetuning.tiny_models import MAX_SENTENCES, WINDOW_LENGTH, tiny
from tests.finetuning.tiny_squad import random_context
from tests.inference.tiny_slm import VOCABULARY, WORDS

each_kind = pytest.mark.parametrize("kind", ["bert", "segabert", "slm", "segabert_slm"])
W0 = VOCABULARY.tokens.index("w0")
DOT = VOCABULARY.tokens.index(".")


def examples_of(kind, contexts, question, sizes, answer=None):
    """A question about one context, or about each of several."""
    contexts = [contexts] if isinstance(contexts, str) else contexts
    passages = []
    for number, context in enumerate(contexts):
        answers = (Answer(answer, context.index(answer)),) if answer else ()
        asked = Question(str(number), question, answers, is_impossible=not answers)
        passages.append(Passage("t", context, (asked,)))
    data = SquadFile("made", True, tuple(passages))
    return make_split(data, tiny(kind), sizes, no_bar).examples


def bounds_of(examples):
    windows = examples.windows
    columns = (windows.starts.numpy(), windows.stops.numpy())
    return [tuple(one) for one in zip(*(one.tolist() for one in columns), strict=True)]


def rows_of(examples):
    ((features, labels),) = examples.batches(len(examples), with_labels=True)
    labels = {name: values.numpy().tolist() for name, values in labels.items()}
    return {name: values.numpy() for name, values in features.items()}, labels


CONTEXT = "W0 w1. W2 w3 w4.\nW5 w6 w7."


def test_rows_of_a_segabert():
    sizes = WindowSizes(max_length=12, stride=4, max_question_pieces=3)
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


def test_rows_of_an_slm():
    sizes = window_sizes(tiny("slm"), max_length=14, stride=4, max_question_pieces=3)
    # 2 + 3 positions for the specials and the question, 9 for the context.
    examples = examples_of("slm", CONTEXT, "w8 w9", sizes, "W5")
    assert bounds_of(examples) == [(0, 7), (4, 11)]
    features, labels = rows_of(examples)
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


@each_kind
def test_windows_fill_rows_and_never_overflow(kind):
    sizes = window_sizes(tiny(kind))
    generator = np.random.default_rng(1)
    texts = [random_context(generator)[0] for _ in range(10)]
    examples = examples_of(kind, texts, "w51 w52", sizes)
    features, _ = rows_of(examples)
    lengths = features["padding_mask"].sum(axis=1)
    numbers = 1 + examples.windows.num_sentences(examples.contexts).numpy()
    assert max(lengths) <= WINDOW_LENGTH
    if kind.endswith("slm"):
        assert max(numbers) == MAX_SENTENCES
    else:
        assert max(lengths) == WINDOW_LENGTH


@each_kind
def test_rows_do_not_depend_on_their_company(kind):
    sizes = window_sizes(tiny(kind), max_length=30, stride=5)
    text, _ = random_context(np.random.default_rng(2))
    examples = examples_of(kind, text, "w51 w52", sizes)
    order = examples.in_order_of_length()
    assert sorted(order) == list(range(len(examples)))
    together, _ = rows_of(examples)
    alone = list(examples.batches(1, with_labels=False, order=order))
    lengths = [len(one["token_ids"][0]) for one in alone]
    assert lengths == sorted(lengths)
    for number, features in zip(order, alone, strict=True):
        for name, values in features.items():
            (row,) = values.numpy()
            np.testing.assert_array_equal(together[name][number, : len(row)], row, name)
            assert not together[name][number, len(row) :].any()


@each_kind
def test_rows_are_as_long_as_they_need_where_no_length_is_given(kind):
    sizes = window_sizes(tiny(kind), max_length=30, stride=5)
    text, _ = random_context(np.random.default_rng(2))
    examples = examples_of(kind, text, "w51 w52", sizes)
    trees = span_trees(examples.contexts, examples.questions, examples.windows)
    rows = span_rows(trees, tiny(kind).layout(30, for_spans=True))
    features, _ = rows_of(examples)
    length = int(features["padding_mask"].sum(axis=1).max())
    for name, values in features.items():
        found = rows[name].numpy()
        if name in ("token_ids", "can_answer"):
            assert found.shape == (len(examples), length)
        np.testing.assert_array_equal(found, values[:, : found.shape[1]], name)
        assert not values[:, found.shape[1] :].any()


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
