"""Two front ends of questions and contexts: in the graph, and offline.

Both give the same `Contexts` and `Questions`. That in the graph is for serving; the
offline one is faster where each context is asked about many times, and splits sentences
by any rule.

Shape key: B contexts, Q questions.
"""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Iterable
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
from seg_tf.text.word_pieces import PieceOffsets

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


class ContextEncoder:
    """Makes pieces of contexts and questions offline, one text after the other.

    Args:
        pretrained: the model that reads them.
    """

    def __init__(self, pretrained: Pretrained):
        self._pieces = PieceOffsets(pretrained.vocabulary, pretrained.normalization)
        self._splitter = pretrained.splitter()

    def contexts(self, texts: Iterable[str]) -> Contexts:
        """All pieces of contexts, whose lines are paragraphs.

        Args:
            texts: at least one.
        """
        ids, starts, stops, sentences = [], [], [], []
        kept: list[str] = []
        line_start = 0
        paragraphs = itertools.count()
        for number, text in enumerate(texts):
            kept.append(text)
            for line in text.split("\n"):
                paragraph = next(paragraphs)
                for begin, end in self._splitter.spans(line):
                    found = self._pieces.encode(line[begin:end])
                    if len(found[0]):
                        ids.append(found[0])
                        starts.append(found[1] + (line_start + begin))
                        stops.append(found[2] + (line_start + begin))
                        sentences.append((len(found[0]), paragraph, number))
                line_start += len(line) + 1
        table = np.array(sentences, np.int32).reshape(-1, 3)
        lengths, numbered, numbers = map(tf.constant, table.T)
        return Contexts.of_sentences(
            _flat_texts(kept),
            ids=_joined(ids),
            starts=_joined(starts),
            stops=_joined(stops),
            lengths=lengths,
            paragraphs=numbered,
            numbers=numbers,
        )

    def questions(
        self, texts: Iterable[str], contexts: Iterable[int], most_pieces: int
    ) -> Questions:
        """The first pieces of questions.

        Args:
            texts: at least one.
            contexts: number of the context that each is about.
            most_pieces: what is read of a question.
        """
        pieces = [self._pieces.encode(text)[0][: most_pieces + 1] for text in texts]
        ragged = tf.RaggedTensor.from_row_lengths(
            _joined(pieces), [len(one) for one in pieces], validate=False
        )
        return Questions.beginnings(
            ragged, tf.constant(list(contexts), tf.int32), most_pieces
        )


def _joined(arrays: list[np.ndarray]) -> tf.Tensor:
    return tf.constant(np.concatenate([np.zeros(0, np.int32), *arrays]), tf.int32)


def _flat_texts(texts: list[str]) -> FlatTexts:
    """As `FlatTexts.of`, of texts that may hold halves of surrogate pairs."""
    joined = "".join(f"{text}\n" for text in texts)
    code_points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.int32)
    ends = np.cumsum([len(text) + 1 for text in texts])
    starts = np.concatenate([[0], ends[:-1]])
    return FlatTexts(
        tf.constant(code_points),
        tf.constant(starts, tf.int32),
        tf.constant(ends - 1, tf.int32),
    )


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
