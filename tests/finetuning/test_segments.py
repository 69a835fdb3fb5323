"""Texts as segments: BERT's rule of cutting, piece by piece."""

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.finetuning.segments import EncodedTexts, as_tuples
from seg_tf.preprocessing.segments import cut_longest


def cut_piece_by_piece(lengths, room):
    lengths = list(lengths)
    while sum(lengths) > room:
        longest = max(range(len(lengths)), key=lambda text: (lengths[text], text))
        lengths[longest] -= 1
    return lengths


@pytest.mark.parametrize("num_texts", [1, 2, 5])
def test_cutting_is_that_of_the_loop(num_texts):
    lengths = np.random.default_rng(num_texts).integers(0, 12, (200, num_texts))
    for room in (0, 1, 7, 20):
        found = cut_longest(tf.constant(lengths, tf.int32), room).numpy()
        expected = [cut_piece_by_piece(row, room) for row in lengths]
        assert found.tolist() == expected


def test_what_fits_stays_as_it_is():
    lengths = np.array([[3, 4], [0, 7]])
    found = cut_longest(tf.constant(lengths, tf.int32), 7)
    assert found.numpy().tolist() == [[3, 4], [0, 7]]


def test_texts_lose_their_ends_and_cut_examples_are_counted():
    pieces = np.arange(10, 20)
    examples = EncodedTexts(pieces, np.array([[2, 1], [5, 0], [0, 2]]), room=3)
    found = [[one.pieces.tolist() for one in example] for example in examples]
    assert found == [[[10, 11], [12]], [[13, 14, 15], []], [[], [18, 19]]]
    assert examples.num_cut == 1
    assert len(examples) == 3


def test_every_text_is_a_paragraph_of_one_sentence():
    (example,) = EncodedTexts(np.arange(3), np.array([[1, 1, 1]]), room=9)
    found = [(one.text, one.paragraph, one.sentence) for one in example]
    assert found == [(0, 0, 0), (1, 1, 0), (2, 2, 0)]


def test_a_text_alone_is_an_example():
    assert as_tuples(["a", "b"]) == [("a",), ("b",)]
    assert as_tuples([["a", "b"]]) == [("a", "b")]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("a text", "Received: the string 'a text'"),
        ([], "at least one example. Received: none"),
        ([("a", "b"), "c"], r"Received: texts\[1\] of 1, texts\[0\] of 2"),
        ([()], r"at least one. Received: texts\[0\] of 0"),
        (["a", None], r"texts or tuples of texts. Received: texts\[1\]=None"),
        ([("a", "b"), ("a", 3)], r"Received: texts\[1\]=\('a', 3\)"),
    ],
)
def test_other_texts_are_refused(texts, message):
    with pytest.raises(ValueError, match=message):
        as_tuples(texts)
