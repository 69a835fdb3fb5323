"""Converts texts to model inputs inside TensorFlow graphs.

Shape key: B examples, T texts per example, C choices, L row length, W windows.
"""

from __future__ import annotations

import dataclasses
import functools
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from seg_tf.features import FEATURES
from seg_tf.layouts.contexts import (
    Contexts,
    Questions,
    Windows,
    WindowSizes,
    make_windows,
)
from seg_tf.layouts.layout import Features, Layout
from seg_tf.layouts.spans import span_rows, span_trees
from seg_tf.text.graph.flat import (
    NUM_CODE_POINTS,
    CodePointTable,
    FlatTexts,
    MarkedPositions,
)
from seg_tf.text.graph.punkt import GraphSentenceSplitter
from seg_tf.text.graph.trees import Beginnings, GraphTreeBuilder, Trees
from seg_tf.text.graph.word_pieces import GraphWordPieces

if TYPE_CHECKING:
    from seg_tf.checkpoints.pretrained import Pretrained


class TextPreprocessor(tf.Module):
    """Tokenizes the texts of examples and arranges them in rows for fine-tuning.

    Each text is read as one sentence. Rows are padded to the longest of the batch.

    Example:
    ```
    dataset.batch(32).map(classifier.preprocessor)   # yields (texts, labels) or texts
    ```

    Args:
        pretrained: `Pretrained`. The model that reads the rows.
        num_texts: int. Number of texts per example. Ignored in multiple choice.
        max_length: int. Maximum number of positions per row, by default as in
            pretraining. Longer examples are truncated by `cut_longest`.
        num_choices: int. Number of answers per example in multiple choice. In `x`, they
            follow the shared text. Each row contains the shared text and one answer.

    Call arguments:
        x: string tensor `(B,)`, or a tuple of one such tensor per text. A wrong number
            of tensors raises ValueError.
        y, sample_weight: labels and weights, which are passed through, or None.

    Returns:
        Dict of `seg_tf.features` with B rows, or B * C rows for multiple choice. If `y`
        is given, a tuple `(features, y)` or `(features, y, sample_weight)`.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        num_texts: int = 1,
        max_length: int | None = None,
        num_choices: int = 1,
    ):
        super().__init__()
        self.num_texts = num_texts if num_choices == 1 else 1 + num_choices
        self.num_choices = num_choices
        self.layout = pretrained.layout(max_length)
        self.capacity = self.layout.capacity(num_texts if num_choices == 1 else 2)
        self._word_pieces = GraphWordPieces(
            pretrained.vocabulary, pretrained.normalization
        )

    # AutoGraph conversion is not needed inside `Dataset.map`.
    @tf.autograph.experimental.do_not_convert
    def __call__(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        texts = tuple(x) if isinstance(x, tuple | list) else (x,)
        shapes = [tf.convert_to_tensor(text, tf.string).shape for text in texts]
        if [shape.rank for shape in shapes] != [1] * self.num_texts:
            raise ValueError(
                f"`x` must be {self.num_texts} string tensors of one dimension, a "
                f"batch of each text. Received: shapes {shapes}"
            )
        features = {
            name: tf.cast(values, FEATURES[name].dtype)
            for name, values in self.layout.read_features(self.read(texts)[1]).items()
        }
        return keras.utils.pack_x_y_sample_weight(features, y, sample_weight)

    def read(self, texts: Sequence[tf.Tensor]) -> tuple[tf.Tensor, Features]:
        """Returns a bool mask `(B * C,)` of truncated rows, and all rows' features."""
        segments, is_cut = self.encode(texts)
        return is_cut, self.layout.rows(Trees.of_texts(segments))

    def encode(
        self, texts: Sequence[tf.Tensor]
    ) -> tuple[list[tf.RaggedTensor], tf.Tensor]:
        """Tokenizes string tensors `(B,)` and truncates them to the capacity of a row.

        Returns a list with a ragged int32 tensor `(B * C, pieces)` for each text of a
        row, and a bool tensor `(B * C,)`, True for truncated rows.
        """
        if self.num_choices > 1:
            shared, *answers = texts
            answers = tf.reshape(tf.stack(answers, axis=1), [-1])
            texts = [tf.repeat(shared, self.num_choices), answers]
        # Encode one more word than fits to detect truncation.
        encoded = [
            encode_sentences(
                text, self._word_pieces, self.capacity + 1
            ).with_row_splits_dtype(tf.int64)
            for text in texts
        ]
        lengths = tf.stack([pieces.row_lengths() for pieces in encoded], axis=1)
        lengths = tf.cast(lengths, tf.int32)
        limits = cut_longest(lengths, self.capacity)
        cut = []
        for text, pieces in enumerate(encoded):
            is_first = tf.ragged.range(lengths[:, text]) < limits[:, text, tf.newaxis]
            cut.append(tf.ragged.boolean_mask(pieces, is_first))
        return cut, tf.reduce_any(limits < lengths, axis=1)


class DocumentPreprocessor(tf.Module):
    """Tokenizes documents sentence by sentence, truncating each document to one row.

    Call arguments:
        texts: string tensor `(B,)`. Each line of a text is a paragraph.

    Returns:
        Dict of features with B rows, laid out as in the pretraining of `pretrained`.
    """

    def __init__(self, pretrained: Pretrained, layout: Layout | None = None):
        super().__init__()
        self.layout = layout or pretrained.layout()
        self._build_trees = GraphTreeBuilder(
            GraphSentenceSplitter(pretrained.sentence_parameters),
            GraphWordPieces(pretrained.vocabulary, pretrained.normalization),
            *dataclasses.astuple(self.layout.text_capacity),
        )

    @tf.autograph.experimental.do_not_convert
    def __call__(self, texts: tf.Tensor) -> Features:
        return self.layout.read_features(self.read(texts)[1])

    def read(self, texts: tf.Tensor) -> tuple[Beginnings, Features]:
        """Returns the `Beginnings` of texts `(B,)`, and the features of their rows."""
        beginnings = self._build_trees(texts)
        return beginnings, self.layout.rows(beginnings.trees)


def encode_sentences(
    texts: tf.Tensor, word_pieces: GraphWordPieces, max_words: int
) -> tf.RaggedTensor:
    """Returns the ids of each text's first `max_words` words, ragged `(B, pieces)`."""
    flat, num_texts = FlatTexts.of(texts), tf.size(texts)
    pieces = word_pieces.encode(
        flat.code_points,
        flat.starts,
        flat.ends,
        tf.range(num_texts),
        most_words=max_words,
    )
    return tf.RaggedTensor.from_value_rowids(
        pieces.ids, pieces.spans, nrows=num_texts, validate=False
    )


def cut_longest(lengths: tf.Tensor, capacity: int) -> tf.Tensor:
    """Returns the lengths of texts after truncation by BERT's rule, int32 `(B, T)`.

    BERT removes the last piece of the longest text until `capacity` pieces are left.
    Among equally long texts, the last is truncated. Lengths [5, 2, 6] become [4, 2, 4]
    with capacity 10, and [4, 2, 3] with capacity 9.
    """
    # The number of pieces per text if all shorter texts remain whole.
    rising = tf.sort(lengths, axis=1)
    shorter = tf.cumsum(rising, axis=1, exclusive=True)
    shares = tf.maximum(capacity - shorter, 0) // tf.range(tf.shape(lengths)[1], 0, -1)
    is_cut = rising > shares
    first = tf.argmax(tf.cast(is_cut, tf.int32), axis=1, output_type=tf.int32)
    share = tf.gather(shares, first, batch_dims=1)[:, tf.newaxis]
    level = tf.minimum(lengths, share)
    # The first truncated texts receive the remainder.
    remainder = capacity - tf.reduce_sum(level, axis=1, keepdims=True)
    is_longer = lengths > share
    gets_more = is_longer & (tf.cumsum(tf.cast(is_longer, tf.int32), 1) <= remainder)
    level += tf.cast(gets_more, tf.int32)
    return tf.where(tf.reduce_any(is_cut, axis=1, keepdims=True), level, lengths)


# From BERT's published code and, for sentence models, SLM's appendix A.
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
    """Returns the sizes of the windows for question answering with a model.

    Args:
        pretrained: `Pretrained`. A model that reads windows. Others raise ValueError.
        max_length: int. Maximum row length. If None, BERT's 384 or, for models with
            `[SENT]`, SLM's 512, but at most the length used in pretraining.
        stride: int. Maximum number of pieces between window starts. If None, BERT's
            128, but at most a third of the row length.
        max_question_pieces: int. Maximum number of pieces of a question. If None,
            BERT's 64, but at most half of the row length.
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
    categories = (unicodedata.category(chr(code)) for code in range(NUM_CODE_POINTS))
    return np.array([category[0] == "M" for category in categories], np.int32)


class QuestionRows(NamedTuple):
    """Rows, at least one per question, with their questions, contexts and windows."""

    features: Features  # `(W, L)` each, from `seg_tf.layouts.spans.span_rows`.
    contexts: Contexts
    questions: Questions
    windows: Windows


class SpanPreprocessor(tf.Module):
    """Splits contexts into windows of `sizes`, each in a row with its question.

    Call arguments:
        questions: string tensor `(B,)`.
        contexts: string tensor `(B,)`. Each line is a paragraph.

    Returns:
        Dict of the features, with W rows, that a `SpanExtractor` of `pretrained` reads.
        A context that is longer than a window has several rows.
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
        """Returns the `QuestionRows` of questions and their contexts, string `(B,)`."""
        encoded_questions = self.questions(questions)
        encoded = self.contexts(contexts)
        windows = make_windows(encoded, encoded_questions, self.sizes)
        rows = span_rows(span_trees(encoded, encoded_questions, windows), self.layout)
        return QuestionRows(rows, encoded, encoded_questions, windows)

    def questions(self, texts: tf.Tensor) -> Questions:
        """Tokenizes questions `(B,)`, one per context. Truncates long questions."""
        # Encode one more word than fits to detect truncation.
        max_pieces = self.sizes.max_question_pieces
        pieces = encode_sentences(texts, self._word_pieces, max_pieces + 1)
        return Questions.beginnings(pieces, tf.range(tf.size(texts)), max_pieces)

    def contexts(self, texts: tf.Tensor) -> Contexts:
        """Tokenizes contexts `(B,)`, whose lines are paragraphs, without truncation."""
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
        # A combining mark belongs to the preceding letter in the same sentence.
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
