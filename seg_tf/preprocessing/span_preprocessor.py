"""Questions and contexts as rows of windows, in the graph.

Shape key: B questions, W windows, L row length.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

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
from seg_tf.preprocessing.contexts import GraphContextEncoder

if TYPE_CHECKING:
    from seg_tf.checkpoints.pretrained import Pretrained


@dataclasses.dataclass(frozen=True, eq=False)
class AskedRows:
    """Rows, and what they were made of.

    Attributes:
        features: `(W, L)` each, those of `seg_tf.layouts.spans.span_rows`.
        contexts: the contexts, of which not all may have a piece.
        questions: the questions.
        windows: one for each row, at least one of each question.
    """

    features: Features
    contexts: Contexts
    questions: Questions
    windows: Windows


class SpanPreprocessor(tf.Module):
    """Finds sentences and word pieces, cuts windows and lays them out.

    Args:
        pretrained: the model that reads them.
        sizes: of the windows.

    Raises:
        ValueError: if the model cannot point at spans, or its sentences are made by a
            Python function.

    Call arguments:
        questions: string `(B,)`.
        contexts: string `(B,)`; a line is a paragraph.

    Returns:
        The features that a `SpanExtractor` reads, `(W, L)`; a context that is longer
        than a window has several rows.
    """

    def __init__(self, pretrained: Pretrained, sizes: WindowSizes):
        super().__init__()
        self._sizes = sizes
        self._layout = pretrained.layout(sizes.max_length, for_spans=True)
        self._encoder = GraphContextEncoder(pretrained)

    # Not to be rewritten by AutoGraph inside `Dataset.map`.
    @tf.autograph.experimental.do_not_convert
    def __call__(self, questions: tf.Tensor, contexts: tf.Tensor) -> Features:
        return self._layout.read_features(self.read(questions, contexts).features)

    def read(self, questions: tf.Tensor, contexts: tf.Tensor) -> AskedRows:
        """The rows, and all that leads back from them to the texts."""
        asked = self._encoder.questions(questions, self._sizes.max_question_pieces)
        encoded = self._encoder.contexts(contexts)
        windows = make_windows(encoded, asked, self._sizes)
        trees = span_trees(encoded, asked, windows)
        return AskedRows(span_rows(trees, self._layout), encoded, asked, windows)
