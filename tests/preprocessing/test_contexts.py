"""Contexts are trees of pieces, and answers are cut out of them unharmed."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layouts.contexts import Contexts
from seg_tf.preprocessing import SpanPreprocessor, window_sizes
from seg_tf.tasks import squad
from seg_tf.tasks.squad import Answer
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.tree import TreeBuilder
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from seg_tf.text.word_pieces import WordPieces
from tests.finetuning import tiny_models
from tests.sample_data import released_vocabulary, sample_data

TOKENS = ["the", "rhine", "is", "long", "it", "19", "##50", "km", "cafe", ".", "?", ","]
VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *TOKENS])


@functools.cache
def with_vocabulary(vocabulary):
    return dataclasses.replace(tiny_models.tiny("segabert"), vocabulary=vocabulary)


def encoder_of(vocabulary, **sizes):
    pretrained = with_vocabulary(vocabulary)
    return SpanPreprocessor(pretrained, window_sizes(pretrained, **sizes))


def span_of(contexts, answer, number=0):
    """First and last piece of an answer; None if it has no piece."""
    (first,), (last,) = contexts.spans([number], [answer.start], [answer.stop])
    return (int(first), int(last)) if first <= last else None


def text_of(contexts, text, first, last):
    """The characters of the first context from one piece to another."""
    return text[int(contexts.starts[first]) : int(contexts.stops[last])]


# Leading space, a blank line, a line of dropped characters, two sentences in the last.
CONTEXT = " The Rhine is long.\n\n\x07\u200b\n  It is 1950 km. Cafe\u0301, is it? \n"


def tokens(ids):
    return [VOCABULARY.tokens[one] for one in ids]


def test_a_context_is_a_tree_of_pieces():
    found = encoder_of(VOCABULARY).contexts([CONTEXT])
    assert tokens(found.ids) == [
        *["the", "rhine", "is", "long", "."],
        *["it", "is", "19", "##50", "km", "."],
        *["cafe", ",", "is", "it", "?"],
    ]
    assert found.sentence_bounds.numpy().tolist() == [0, 5, 11, 16]
    # Lines without a piece are no paragraphs; the question is paragraph 0.
    assert found.paragraph_index.numpy().tolist() == [1, 2, 2]
    assert found.sentence_index.numpy().tolist() == [0, 0, 1]
    assert found.sentences.numpy().tolist() == [0] * 5 + [1] * 6 + [2] * 5
    cut = [text_of(found, CONTEXT, piece, piece) for piece in range(16)]
    assert cut == [
        *["The", "Rhine", "is", "long", ".", "It", "is", "19", "50", "km", "."],
        *["Cafe\u0301", ",", "is", "it", "?"],
    ]


def odd_texts():
    """Marks, separators, dropped characters and abbreviations, beside plain text."""
    return [
        *[CONTEXT, "", " \n ", "\x07\u200b", "The Rhine"],
        "\ufeffThe rhi\u0301\u0323 is\u0301. It\u0301\n\nCafe é中文 cafe\u0301\u0301",
        "\n\u200b\n 🙂 it\u200b is — ‘Long’\U0001f642. " + "It is 1950. " * 12,
        "The U.S. is long. E.g. the Rhine (1950) … is it?! \r\n[SEP] Ｌｏｎｇ한국 ﬁ ½",
    ]


def test_a_question_is_one_sentence():
    texts = ["Is it long. The Rhine?\nIs it?", "it"]
    assert len(SentenceSplitter().split(texts[0])) > 1
    found = encoder_of(VOCABULARY).questions(tf.constant(texts))
    assert tokens(found.pieces[0]) == [
        *["is", "it", "long", ".", "the", "rhine", "?", "is", "it", "?"]
    ]
    assert found.contexts.numpy().tolist() == [0, 1]
    assert not found.is_cut.numpy().any()
    cut = encoder_of(VOCABULARY, max_question_pieces=3).questions(tf.constant(texts))
    assert list(map(tokens, cut.pieces)) == [["is", "it", "long"], ["it"]]
    assert cut.is_cut.numpy().tolist() == [True, False]


@pytest.mark.parametrize(
    ("text", "span", "found"),
    [
        ("The Rhine", (0, 1), "The Rhine"),
        ("long.", (3, 4), "long."),
        ("1950", (7, 8), "1950"),
        ("50", (8, 8), "50"),
        ("95", (7, 8), "1950"),
        ("hin", (1, 1), "Rhine"),
        ("km. Cafe", (9, 11), "km. Cafe\u0301"),
        ("Cafe\u0301", (11, 11), "Cafe\u0301"),
        (" The ", (0, 0), "The"),
        ("long.\n\n\x07\u200b\n  It", (3, 5), "long.\n\n\x07\u200b\n  It"),
    ],
)
def test_spans_are_the_pieces_that_an_answer_touches(text, span, found):
    contexts = encoder_of(VOCABULARY).contexts([CONTEXT])
    answer = Answer(text, CONTEXT.index(text))
    assert span_of(contexts, answer) == span
    assert text_of(contexts, CONTEXT, *span) == found


def test_an_answer_without_a_piece_has_no_span():
    encoder = encoder_of(VOCABULARY)
    contexts = encoder.contexts([CONTEXT, " \n\x07"])
    assert span_of(contexts, Answer("\x07\u200b", CONTEXT.index("\x07"))) is None
    assert span_of(contexts, Answer("", 3)) is None
    assert span_of(contexts, Answer("\x07", 2), 1) is None
    assert not len(encoder.contexts([""]).ids)


def test_parts_are_joined():
    texts = [*odd_texts(), *odd_texts()[::-1]]
    encoder = encoder_of(VOCABULARY)
    expected = encoder.contexts(tf.constant(texts))
    two = [encoder.contexts(tf.constant(some)) for some in (texts[:3], texts[3:])]
    for parts in ([expected], two):
        found = Contexts.joined(parts)
        for one, other in ((found, expected), (found.texts, expected.texts)):
            for name, values in vars(other).items():
                if name != "texts":
                    np.testing.assert_array_equal(getattr(one, name), values, name)


@pytest.mark.parametrize("real", [False, True])
def test_contexts_are_the_trees_of_records(real):
    """Made here as the records of pretraining are, without offsets."""
    vocabulary, texts, num_paragraphs = VOCABULARY, odd_texts(), 3
    if real:
        vocabulary = released_vocabulary()
        data = squad.read(sample_data("squad", "dev-v2.0.reconstructed.json"))
        texts = [passage.context for passage in data.passages]
        texts = texts[::5] + [text for text in texts if "\n" in text]
        num_paragraphs = 20
    splitter, pieces = SentenceSplitter(), WordPieces(vocabulary)
    trees = TreeBuilder(splitter.split, pieces.encode).build(
        [text.split("\n") for text in texts]
    )
    found = encoder_of(vocabulary).contexts(tf.constant(texts))
    assert sum(len(tree.paragraph_lengths) > 1 for tree in trees) >= num_paragraphs
    np.testing.assert_array_equal(
        found.ids, np.concatenate([tree.token_ids for tree in trees])
    )
    lengths = np.concatenate([tree.sentence_lengths for tree in trees])
    np.testing.assert_array_equal(np.diff(found.sentence_bounds), lengths)
    for name, first in (("paragraph_index", 1), ("sentence_index", 0)):
        wanted = np.concatenate([tree.indices()[name] for tree in trees])
        of_pieces = np.repeat(getattr(found, name), lengths)
        np.testing.assert_array_equal(of_pieces, wanted + first)
