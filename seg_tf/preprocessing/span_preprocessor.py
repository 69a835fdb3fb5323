"""Questions and contexts as rows of windows, in the graph.

Shape key: B questions or contexts, W windows, L row length.
"""

from __future__ import annotations

import dataclasses
import functools
import unicodedata
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from seg_tf.layouts.contexts import (
    Contexts,
    Questions,
    Windows,
    WindowSizes,
    make_windows,
)
from seg_tf.layouts.layout import Features
from seg_tf.layouts.spans import span_rows, span_trees
from seg_tf.preprocessing.text_preprocessor import encode_sentences
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

# BERT's published code, and for models of sentences SLM's appendix A.
_WINDOW_LENGTH = 384
_SENTENCE_WINDOW_LENGTH = 512
_STRIDE, _QUESTION_PIECES = 128, 64


def window_sizes(
    pretrained: Pretrained,
    *,
    max_length: int | None = None,
    stride: int | None = None,
    max_question_pieces: int | None = None,
) -> WindowSizes:
    """Sizes of the windows in which a model reads question and context.

    Args:
        pretrained: the model.
        max_length: maximum row length; None uses BERT's 384, for a model of sentences
            SLM's 512, or the length of pretraining if that is less.
        stride: pieces between the starts of two windows; None uses BERT's 128, for rows
            below 384 a third of their length.
        max_question_pieces: maximum number of pieces of a question; None uses BERT's
            64, for rows below 128 half of their length.

    Raises:
        ValueError: if the model cannot point at spans or embeds fewer positions, or a
            row is too short for question and context.
    """
    layout = pretrained.layout(max_length, for_spans=True)
    length, usual, specials = layout.max_length, _WINDOW_LENGTH, {}
    if layout.sent_id is not None:
        usual = _SENTENCE_WINDOW_LENGTH
        specials = {
            "num_special_tokens": 2,
            "tokens_per_sentence": 1,
            "max_sentences": layout.text_capacity.num_sentences,
        }
    if max_length is None:
        length = min(length, usual)
    if stride is None:
        stride = min(_STRIDE, max(1, length // 3))
    if max_question_pieces is None:
        max_question_pieces = min(_QUESTION_PIECES, length // 2)
    return WindowSizes(
        max_length=length,
        stride=stride,
        max_question_pieces=max_question_pieces,
        **specials,
    )


@functools.cache
def _combining_marks() -> np.ndarray:
    """1 for every combining mark, else 0."""
    categories = (unicodedata.category(chr(code)) for code in range(NUM_CODE_POINTS))
    return np.array([category[0] == "M" for category in categories], np.int32)


@dataclasses.dataclass(frozen=True, eq=False)
class QuestionRows:
    """Rows of questions, at least one of each, and their origin.

    `features`, `(W, L)` each, are those of `seg_tf.layouts.spans.span_rows`.
    """

    features: Features
    contexts: Contexts
    questions: Questions
    windows: Windows


class SpanPreprocessor(tf.Module):
    """Finds sentences and word pieces, cuts windows and lays them out.

    Args:
        pretrained: the model that reads the rows.
        sizes: sizes of the windows.

    Raises:
        ValueError: if the model cannot point at spans, or a Python function splits its
            sentences.

    Call arguments:
        questions: string `(B,)`.
        contexts: string `(B,)`; each line is a paragraph.

    Returns:
        The features that a `SpanExtractor` reads, `(W, L)`; a context that is longer
        than a window has several rows.
    """

    def __init__(self, pretrained: Pretrained, sizes: WindowSizes):
        super().__init__()
        self.sizes = sizes
        self.layout = pretrained.layout(sizes.max_length, for_spans=True)
        self._splitter = GraphSentenceSplitter(pretrained.sentence_parameters)
        self._word_pieces = GraphWordPieces(
            pretrained.vocabulary, pretrained.normalization
        )
        self._is_mark = CodePointTable(_combining_marks())

    @tf.autograph.experimental.do_not_convert
    def __call__(self, questions: tf.Tensor, contexts: tf.Tensor) -> Features:
        return self.layout.read_features(self.read(questions, contexts).features)

    def read(self, questions: tf.Tensor, contexts: tf.Tensor) -> QuestionRows:
        """The rows with their contexts, questions and windows."""
        encoded_questions = self.questions(questions)
        encoded = self.contexts(contexts)
        windows = make_windows(encoded, encoded_questions, self.sizes)
        trees = span_trees(encoded, encoded_questions, windows)
        rows = span_rows(trees, self.layout)
        return QuestionRows(rows, encoded, encoded_questions, windows)

    def questions(self, texts: tf.Tensor) -> Questions:
        """The first pieces of questions, string `(B,)`, about the contexts in order."""
        # One more, so that cuts are detected.
        max_pieces = self.sizes.max_question_pieces
        pieces = encode_sentences(texts, self._word_pieces, max_pieces + 1)
        return Questions.beginnings(pieces, tf.range(tf.size(texts)), max_pieces)

    def contexts(self, texts: tf.Tensor) -> Contexts:
        """All pieces of contexts, string `(B,)`, whose lines are paragraphs."""
        flat = FlatTexts.of(texts)
        sentences = self._splitter(flat.code_points)
        text = flat.text_of(sentences.starts)
        pieces = self._word_pieces.encode(
            flat.code_points,
            sentences.starts,
            sentences.stops,
            text,
            most_words=tf.int32.max,
        )
        lengths = tf.math.bincount(
            pieces.spans, minlength=tf.size(text), dtype=tf.int32
        )
        has_pieces = lengths > 0
        # A combining mark belongs to its letter if it is in the same sentence.
        is_mark = self._is_mark(flat.code_points) > 0
        stops = tf.minimum(
            MarkedPositions(~is_mark).next_from(pieces.stops),
            tf.gather(sentences.stops, pieces.spans),
        )
        return Contexts.of_sentences(
            flat,
            ids=pieces.ids,
            starts=pieces.starts,
            stops=stops,
            lengths=tf.boolean_mask(lengths, has_pieces),
            paragraphs=tf.boolean_mask(sentences.paragraphs, has_pieces),
            numbers=tf.boolean_mask(text, has_pieces),
        )
