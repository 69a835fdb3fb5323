"""The front end of questions and contexts: their sentences and pieces, in the graph.

Shape key: B contexts, Q questions.
"""

from __future__ import annotations

import functools
import unicodedata
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from seg_tf.layouts.contexts import Contexts, Questions
from seg_tf.preprocessing.segments import spell
from seg_tf.text.graph.flat import (
    NUM_CODE_POINTS,
    CodePointTable,
    FlatTexts,
    MarkedPositions,
)
from seg_tf.text.graph.punkt import GraphSentenceSplitter
from seg_tf.text.graph.word_pieces import GraphWordPieces

if TYPE_CHECKING:
    from seg_tf.checkpoints.pretrained import Pretrained

_ANY_NUMBER = tf.int32.max


class GraphContextEncoder(tf.Module):
    """Makes pieces of contexts and questions in the graph.

    Args:
        pretrained: the model that reads them.

    Raises:
        ValueError: if its sentences are made by a Python function.
    """

    def __init__(self, pretrained: Pretrained):
        super().__init__()
        self._splitter = GraphSentenceSplitter(pretrained.sentence_parameters)
        self._word_pieces = GraphWordPieces(
            pretrained.vocabulary, pretrained.normalization
        )
        self._is_mark = CodePointTable(_marks())

    def contexts(self, texts: tf.Tensor) -> Contexts:
        """All pieces of contexts, whose lines are paragraphs.

        Args:
            texts: string `(B,)`.
        """
        flat = FlatTexts.of(texts)
        found = self._splitter(flat.code_points)
        text = flat.text_of(found.starts)
        pieces = self._word_pieces.encode(
            flat.code_points, found.starts, found.stops, text, most_words=_ANY_NUMBER
        )
        lengths = tf.math.bincount(
            pieces.spans, minlength=tf.size(text), dtype=tf.int32
        )
        has_pieces = lengths > 0
        # Marks go with the letter that they are combined with, in its sentence.
        is_mark = self._is_mark(flat.code_points) > 0
        stops = tf.minimum(
            MarkedPositions(~is_mark).next_from(pieces.stops),
            tf.gather(found.stops, pieces.spans),
        )
        return Contexts.of_sentences(
            flat,
            ids=pieces.ids,
            starts=pieces.starts,
            stops=stops,
            lengths=tf.boolean_mask(lengths, has_pieces),
            paragraphs=tf.boolean_mask(found.paragraphs, has_pieces),
            numbers=tf.boolean_mask(text, has_pieces),
        )

    def questions(self, texts: tf.Tensor, most_pieces: int) -> Questions:
        """The first pieces of questions, each about the context of its number.

        Args:
            texts: string `(B,)`.
            most_pieces: what is read of a question.
        """
        # One more, so that what is cut off shows.
        pieces = spell(texts, self._word_pieces, most_pieces + 1)
        return Questions.beginnings(pieces, tf.range(tf.size(texts)), most_pieces)


@functools.cache
def _marks() -> np.ndarray:
    """1 for every combining mark, else 0."""
    return np.array(
        [
            unicodedata.category(chr(code_point))[0] == "M"
            for code_point in range(NUM_CODE_POINTS)
        ],
        np.int32,
    )
