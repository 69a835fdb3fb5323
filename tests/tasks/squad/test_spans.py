"""Contexts are trees of pieces, and answers are cut out of them unharmed."""

import numpy as np
import pytest

from seg_tf.tasks.squad import squad_files
from seg_tf.tasks.squad.spans import SpanEncoder
from seg_tf.tasks.squad.squad_files import Answer
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.tree import TreeBuilder
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from seg_tf.text.word_pieces import WordPieces
from tests.sample_data import sample_data

TOKENS = ["the", "rhine", "is", "long", "it", "19", "##50", "km", "cafe", ".", "?", ","]
VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *TOKENS])
ENCODER = SpanEncoder(VOCABULARY)

# Leading space, a blank line, a line of dropped characters, two sentences in the last.
CONTEXT = " The Rhine is long.\n\n\x07\u200b\n  It is 1950 km. Cafe\u0301, is it? \n"


def tokens(ids):
    return [VOCABULARY.tokens[one] for one in ids]


def test_a_context_is_a_tree_of_pieces():
    context = ENCODER.context(CONTEXT)
    assert tokens(context.token_ids) == [
        *["the", "rhine", "is", "long", "."],
        *["it", "is", "19", "##50", "km", "."],
        *["cafe", ",", "is", "it", "?"],
    ]
    assert context.sentence_bounds.tolist() == [0, 5, 11, 16]
    # Lines without a piece are no paragraphs; the question is paragraph 0.
    assert context.paragraph_index.tolist() == [1, 2, 2]
    assert context.sentence_index.tolist() == [0, 0, 1]
    assert [context.sentence_of(piece) for piece in (0, 4, 5, 10, 11, 15)] == [
        *[0, 0, 1, 1, 2, 2]
    ]
    cut = [
        CONTEXT[start:stop]
        for start, stop in zip(context.starts, context.stops, strict=True)
    ]
    assert cut == [
        *["The", "Rhine", "is", "long", ".", "It", "is", "19", "50", "km", "."],
        *["Cafe\u0301", ",", "is", "it", "?"],
    ]


def test_a_question_is_one_sentence():
    text = "Is it long. The Rhine?\nIs it?"
    assert len(SentenceSplitter().split(text)) > 1
    assert tokens(ENCODER.question(text)) == [
        *["is", "it", "long", ".", "the", "rhine", "?", "is", "it", "?"]
    ]


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
    context = ENCODER.context(CONTEXT)
    answer = Answer(text, CONTEXT.index(text))
    assert context.span_of(answer) == span
    assert context.text_of(*span) == found


def test_an_answer_without_a_piece_has_no_span():
    context = ENCODER.context(CONTEXT)
    assert context.span_of(Answer("\x07\u200b", CONTEXT.index("\x07"))) is None
    assert context.span_of(Answer("", 3)) is None
    assert ENCODER.context(" \n\x07").span_of(Answer("\x07", 2)) is None
    assert len(ENCODER.context("").token_ids) == 0


def test_real_contexts_are_the_trees_of_records():
    """Made here as the records of pretraining are, without offsets."""
    path = sample_data("bert_vocab", "bert-base-uncased-vocab.txt")
    vocabulary = Vocabulary.from_file(path)
    data = squad_files.read(sample_data("squad", "dev-v2.0.reconstructed.json"))
    splitter, pieces = SentenceSplitter(), WordPieces(vocabulary)
    texts = [passage.context for passage in data.passages]
    texts = texts[::5] + [text for text in texts if "\n" in text]
    trees = TreeBuilder(splitter.split, pieces.encode).build(
        [text.split("\n") for text in texts]
    )
    encoder = SpanEncoder(vocabulary)
    assert sum(len(tree.paragraph_lengths) > 1 for tree in trees) > 20
    for text, tree in zip(texts, trees, strict=True):
        context = encoder.context(text)
        np.testing.assert_array_equal(context.token_ids, tree.token_ids)
        lengths = np.diff(context.sentence_bounds)
        np.testing.assert_array_equal(lengths, tree.sentence_lengths)
        indices = tree.indices()
        for name, first in (("paragraph_index", 1), ("sentence_index", 0)):
            of_pieces = np.repeat(getattr(context, name), lengths)
            np.testing.assert_array_equal(of_pieces, indices[name] + first)


def test_nearly_all_real_answers_are_whole_pieces():
    path = sample_data("bert_vocab", "bert-base-uncased-vocab.txt")
    encoder = SpanEncoder(Vocabulary.from_file(path))
    data = squad_files.read(sample_data("squad", "train-v1.1.first-12-articles.json"))
    num_answers = num_parted = 0
    for passage in data.passages:
        context = encoder.context(passage.context)
        for question in passage.questions:
            (answer,) = question.answers
            text = context.text_of(*context.span_of(answer))
            assert answer.text in text
            num_answers += 1
            num_parted += text != answer.text
    # "Japan" in "Japanese" and its like, which no model that points at pieces can give.
    assert (num_answers, num_parted) == (4370, 27)
