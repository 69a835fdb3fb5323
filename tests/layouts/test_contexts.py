"""Windows of contexts hold what BERT's do, and lose nothing."""

import random

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layouts.contexts import Windows, WindowSizes, make_windows
from tests import official_models
from tests.layouts.made_contexts import contexts_of_lengths, questions_of

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def bounds_of(contexts, sizes, num_question_pieces, asked=(0,)):
    """First piece and the one after the last of the windows of each question.

    Args:
        contexts: lengths of sentences, as `contexts_of_lengths` takes them.
        sizes: of the windows.
        num_question_pieces: of each question.
        asked: the context of each.
    """
    contexts = contexts_of_lengths(*contexts)
    questions = questions_of(
        *([1] * number for number in num_question_pieces), contexts=asked
    )
    windows = make_windows(contexts, questions, sizes)
    rows = windows.questions.numpy().tolist()
    assert rows == sorted(rows)
    base = contexts.bounds.numpy()[np.array(asked)[rows]]
    starts, stops = windows.starts.numpy() - base, windows.stops.numpy() - base
    bounds = [[] for _ in asked]
    for question, start, stop in zip(rows, starts, stops, strict=True):
        bounds[question].append((start, stop))
    return bounds


def is_max_context(*bounds):
    """Masks of the pieces of windows of one question."""
    starts, stops = zip(*bounds, strict=True)
    windows = Windows(
        tf.zeros(len(bounds), tf.int32), tf.constant(starts), tf.constant(stops)
    )
    flags = windows.is_max_context(1).numpy().astype(int)
    return [
        part.tolist() for part in np.split(flags, np.cumsum(windows.lengths())[:-1])
    ]


def naive_bounds(sentence_of, sizes, num_question_pieces):
    """A piece after the other goes into a window until one does not fit."""
    bounds, start = [], 0
    while True:
        stop = start
        while stop < len(sentence_of):
            sentences = set(sentence_of[start : stop + 1])
            length = (
                sizes.num_special_tokens
                + num_question_pieces
                + (stop + 1 - start)
                + sizes.tokens_per_sentence * (1 + len(sentences))
            )
            if length > sizes.max_length:
                break
            if sizes.max_sentences and 1 + len(sentences) > sizes.max_sentences:
                break
            stop += 1
        bounds.append((start, stop))
        if stop == len(sentence_of):
            return bounds
        start = min(start + sizes.stride, stop)


SIZES = {
    "BERT": {"max_length": 12, "stride": 4, "max_question_pieces": 5},
    "no overlap": {"max_length": 12, "stride": 400, "max_question_pieces": 5},
    "[SENT]": {
        "max_length": 14,
        "stride": 3,
        "max_question_pieces": 5,
        "num_special_tokens": 2,
        "tokens_per_sentence": 1,
    },
    "few sentences": {
        "max_length": 30,
        "stride": 6,
        "max_question_pieces": 5,
        "num_special_tokens": 2,
        "tokens_per_sentence": 1,
        "max_sentences": 3,
    },
    "a sentence a window": {"max_length": 70, "stride": 9, "max_sentences": 2},
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_windows_equal_the_naive_ones(sizes):
    sizes = WindowSizes(**sizes)
    draw = random.Random(1)
    contexts = [
        [
            [draw.choice([1, 1, 2, 5, 13]) for _ in range(draw.randint(1, 4))]
            for _ in range(draw.randint(1, 4))
        ]
        for _ in range(60)
    ]
    # Each is asked about several times, in any order.
    cases = [(context, number) for context in range(60) for number in (0, 3, 5)]
    draw.shuffle(cases)
    asked, numbers = zip(*cases, strict=True)
    found = bounds_of(contexts, sizes, numbers, asked)
    for context, number, bounds in zip(asked, numbers, found, strict=True):
        lengths = np.concatenate(contexts[context])
        sentence_of = np.repeat(np.arange(len(lengths)), lengths).tolist()
        assert bounds == naive_bounds(sentence_of, sizes, number)
        covered = {piece for bound in bounds for piece in range(*bound)}
        assert covered == set(range(len(sentence_of)))


def test_a_context_without_a_piece_has_an_empty_window():
    sizes = WindowSizes(**SIZES["few sentences"])
    found = bounds_of([[[3]], [], [[2]], []], sizes, [1] * 4, [1, 0, 3, 2])
    assert found == [[(0, 0)], [(0, 3)], [(0, 0)], [(0, 2)]]
    assert bounds_of([[]], sizes, [1]) == [[(0, 0)]]


def test_bounds_and_best_windows_are_those_of_berts_code():
    official = official_models.squad_library()
    tokenizer = official_models.WordTokenizer()
    words = [letter * 2 for letter in LETTERS]
    draw = random.Random(2)
    for _ in range(30):
        num_words, first = draw.randint(1, 90), draw.randint(0, 89)
        text = draw.choices(words, k=num_words)
        question = draw.choices(words, k=draw.randint(1, 12))
        first = min(first, num_words - 1)
        last = min(first + draw.randint(0, 5), num_words - 1)
        example = official.SquadExample(
            qas_id="q",
            question_text=" ".join(question),
            doc_tokens=text,
            orig_answer_text=" ".join(text[first : last + 1]),
            start_position=first,
            end_position=last,
        )
        length, stride = draw.randint(14, 40), draw.randint(1, 20)
        features = []
        official.convert_examples_to_features(
            [example], tokenizer, length, stride, 8, True, features.append
        )
        sizes = WindowSizes(max_length=length, stride=stride, max_question_pieces=8)
        num_question_pieces = min(len(question), 8)
        (bounds,) = bounds_of([[[num_words]]], sizes, [num_question_pieces])
        best = is_max_context(*bounds)
        before = num_question_pieces + 2
        assert len(features) == len(bounds)
        for (start, stop), is_best, feature in zip(bounds, best, features, strict=True):
            assert feature.tokens[before:-1] == text[start:stop]
            assert feature.token_is_max_context == {
                before + at: bool(flag) for at, flag in enumerate(is_best)
            }
            # The official code may mark an equal answer that stands elsewhere.
            if not feature.is_impossible:
                assert start <= first <= last < stop
        assert np.sum(np.concatenate(best)) == num_words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stride": 0}, "`stride` must be at least 1. Received: stride=0"),
        ({"max_sentences": 1}, "`max_sentences` must be enough.*max_sentences=1"),
        ({"max_length": 67}, "`max_length` .* must be enough .*max_length=67"),
    ],
)
def test_sizes_that_are_too_small_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        WindowSizes(**arguments)
