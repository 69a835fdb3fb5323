"""Contexts and questions whose pieces are given, a character a piece."""

import numpy as np
import tensorflow as tf

from seg_tf.layouts.contexts import Contexts, Questions
from seg_tf.text.graph.flat import FlatTexts


def contexts_of(*contexts):
    """Contexts, each of paragraphs of sentences of pieces, given by their ids."""
    sentences = [
        (pieces, (number, part), number)
        for number, context in enumerate(contexts)
        for part, paragraph in enumerate(context)
        for pieces in paragraph
    ]
    numbers = np.array([number for _, _, number in sentences], np.int32)
    _, paragraphs = np.unique(
        [one for _, one, _ in sentences], axis=0, return_inverse=1
    )
    lengths = np.array([len(pieces) for pieces, _, _ in sentences], np.int32)
    of_texts = [
        sum(len(one) for part in context for one in part) for context in contexts
    ]
    texts = FlatTexts.of(tf.constant(["x" * length for length in of_texts]))
    ids = np.array([one for pieces, _, _ in sentences for one in pieces], np.int32)
    # A line feed is after every text.
    starts = np.arange(len(ids), dtype=np.int32) + np.repeat(numbers, lengths)
    return Contexts.of_sentences(
        texts,
        ids=tf.constant(ids),
        starts=tf.constant(starts, tf.int32),
        stops=tf.constant(starts + 1, tf.int32),
        lengths=tf.constant(lengths),
        paragraphs=tf.constant(paragraphs.reshape(-1), tf.int32),
        numbers=tf.constant(numbers),
    )


def contexts_of_lengths(*contexts):
    """Contexts, each of paragraphs of sentences with so many pieces."""
    return contexts_of(
        *([[[7] * n for n in lengths] for lengths in context] for context in contexts)
    )


def questions_of(*pieces, contexts=None, most_pieces=64):
    """Questions of given pieces, each about the context of its number."""
    numbers = range(len(pieces)) if contexts is None else contexts
    return Questions.beginnings(
        tf.ragged.constant([list(map(int, one)) for one in pieces], tf.int32),
        tf.constant(list(numbers), tf.int32),
        most_pieces,
    )
