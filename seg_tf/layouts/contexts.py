"""Represents contexts of questions as flat word pieces and splits them into windows.

A question is paragraph 0, sentence 0. The lines of a context are paragraphs, counted
from 1. Sentences are counted from 0 in each paragraph, and word pieces from 0 in each
sentence (Segatron, section 3.2). Contexts longer than a row are split into overlapping
windows, and each window is read together with the question (Devlin et al., 2019, and
BERT's published code).

Shape key: B contexts, P pieces of all contexts, S sentences of all contexts, Q
questions, W windows, K pieces of all windows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from seg_tf.config.base import Count, Whole, check_ranges
from seg_tf.text.graph.flat import (
    FlatTexts,
    MarkedPositions,
    count_off,
    shifted,
    which_run,
)

_FIRST_CONTEXT_PARAGRAPH = 1
# Bonus for longer windows, per piece, as in BERT.
_LENGTH_BONUS = 0.01


@dataclasses.dataclass(frozen=True, eq=False)
class Contexts:
    """Concatenated word pieces of contexts, with their positions in the text.

    Attributes:
        texts: `FlatTexts`. Characters of the contexts.
        bounds: int32 `(B + 1,)`. Index of the first piece of each context, then P.
        ids: int32 `(P,)`. Id of each piece.
        starts, stops: int32 `(P,)`. Bounds of each piece in `texts.code_points`.
        sentences: int32 `(P,)`. Index of the sentence of each piece.
        sentence_bounds: int32 `(S + 1,)`. Index of each sentence's first piece, then P.
        paragraph_index: int32 `(S,)`. Paragraph of each sentence in its context.
        sentence_index: int32 `(S,)`. Number of each sentence in its paragraph.
    """

    texts: FlatTexts
    bounds: tf.Tensor
    ids: tf.Tensor
    starts: tf.Tensor
    stops: tf.Tensor
    sentences: tf.Tensor
    sentence_bounds: tf.Tensor
    paragraph_index: tf.Tensor
    sentence_index: tf.Tensor

    @classmethod
    def of_sentences(
        cls,
        texts: FlatTexts,
        *,
        ids: tf.Tensor,
        starts: tf.Tensor,
        stops: tf.Tensor,
        lengths: tf.Tensor,
        paragraphs: tf.Tensor,
        numbers: tf.Tensor,
    ) -> Contexts:
        """Creates contexts from the lengths of their sentences.

        `ids`, `starts` and `stops`, int32 `(P,)`, describe the pieces. `lengths` (piece
        counts, at least 1), `paragraphs` (paragraph numbers, ascending over all
        contexts) and `numbers` (context numbers), int32 `(S,)`, describe the sentences.
        """
        begins_text = _begins(numbers)
        begins_paragraph = _begins(paragraphs)
        sentence = tf.range(tf.size(lengths))
        paragraph = tf.cumsum(tf.cast(begins_paragraph, tf.int32))

        def counted(values: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
            first = MarkedPositions(begins).last_before(sentence + 1)
            return values - tf.gather(values, first)

        totals = tf.math.unsorted_segment_sum(lengths, numbers, tf.size(texts.starts))
        return cls(
            texts=texts,
            bounds=_bounds(totals),
            ids=ids,
            starts=starts,
            stops=stops,
            sentences=which_run(lengths),
            sentence_bounds=_bounds(lengths),
            paragraph_index=_FIRST_CONTEXT_PARAGRAPH + counted(paragraph, begins_text),
            sentence_index=counted(sentence, begins_paragraph),
        )

    @classmethod
    def joined(cls, parts: Sequence[Contexts]) -> Contexts:
        """Concatenates the contexts of all parts."""

        def join(values: Sequence[tf.Tensor], sizes: Sequence[tf.Tensor]) -> tf.Tensor:
            bases = tf.cumsum([tf.zeros([], tf.int32), *map(tf.size, sizes)])
            shifted = [part + bases[number] for number, part in enumerate(values)]
            return tf.concat(shifted, axis=0)

        def bounds(values: Sequence[tf.Tensor]) -> tf.Tensor:
            # The last bound of a part is the first of the next.
            ends = [values[-1][-1:]]
            return join([*(part[:-1] for part in values), *ends], [*ids[:-1], []])

        ids = [part.ids for part in parts]
        texts = [part.texts for part in parts]
        characters = [text.code_points for text in texts]
        return cls(
            texts=FlatTexts(
                tf.concat(characters, axis=0),
                join([text.starts for text in texts], characters),
                join([text.ends for text in texts], characters),
            ),
            bounds=bounds([part.bounds for part in parts]),
            ids=tf.concat(ids, axis=0),
            starts=join([part.starts for part in parts], characters),
            stops=join([part.stops for part in parts], characters),
            sentences=join(
                [part.sentences for part in parts],
                [part.sentence_index for part in parts],
            ),
            sentence_bounds=bounds([part.sentence_bounds for part in parts]),
            paragraph_index=tf.concat([part.paragraph_index for part in parts], axis=0),
            sentence_index=tf.concat([part.sentence_index for part in parts], axis=0),
        )

    def num_pieces(self) -> tf.Tensor:
        """Returns the number of pieces of each context, int32 `(B,)`."""
        return self.bounds[1:] - self.bounds[:-1]

    def spans(
        self, numbers: tf.Tensor, starts: tf.Tensor, stops: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the indices of the first and last piece that overlap each text span.

        `numbers` are context numbers. `starts` and `stops` are character offsets in the
        context. Arguments and results are int32, one entry per span. If no piece
        overlaps a span, the last index is less than the first.
        """
        base, end = (
            tf.gather(values, numbers)
            for values in (self.texts.starts, self.texts.ends)
        )
        starts = tf.maximum(base + starts, base)
        stops = tf.minimum(base + stops, end)
        first = tf.searchsorted(self.stops, starts, side="right")
        last = tf.searchsorted(self.starts, stops, side="left") - 1
        return first, tf.where(starts < stops, last, first - 1)


@dataclasses.dataclass(frozen=True, eq=False)
class Questions:
    """Questions as ragged int32 pieces `(Q, pieces)`, with context numbers `(Q,)`.

    `is_cut`, bool `(Q,)`, marks questions whose pieces were truncated.
    """

    pieces: tf.RaggedTensor
    contexts: tf.Tensor
    is_cut: tf.Tensor

    @classmethod
    def beginnings(
        cls, pieces: tf.RaggedTensor, contexts: tf.Tensor, max_pieces: int
    ) -> Questions:
        """Truncates questions to `max_pieces` pieces. Marks longer ones in `is_cut`."""
        return cls(pieces[:, :max_pieces], contexts, pieces.row_lengths() > max_pieces)

    def num_pieces(self) -> tf.Tensor:
        """Returns the number of pieces of each question, int32 `(Q,)`."""
        return tf.cast(self.pieces.row_lengths(), tf.int32)


def _begins(numbers: tf.Tensor) -> tf.Tensor:
    return numbers != shifted(numbers, -1, -1)


def _bounds(lengths: tf.Tensor) -> tf.Tensor:
    return tf.pad(tf.cumsum(lengths), [[1, 0]])


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowSizes:
    """Limits on the lengths of questions and windows. Defaults are BERT's.

    Raises a ValueError if a row cannot fit the longest question and a piece of context.

    Attributes:
        max_length: int. Maximum length of a row, including special tokens.
        stride: int. Maximum number of pieces between consecutive window starts.
        max_question_pieces: int. Maximum number of pieces of a question.
        num_special_tokens: int. Special tokens per row, except before sentences.
        tokens_per_sentence: int. Special tokens before each sentence and the question.
        max_sentences: int or None. Maximum sentences per row, including the question.
    """

    max_length: int = 384
    stride: Count = 128
    max_question_pieces: Count = 64
    num_special_tokens: Whole = 3
    tokens_per_sentence: Whole = 0
    max_sentences: int | None = None

    def __post_init__(self) -> None:
        check_ranges(self)
        most = 2 if self.max_sentences is None else self.max_sentences
        if self.capacity(self.max_question_pieces) < 1 or most < 2:
            raise ValueError(
                "`max_length` and `max_sentences` must be enough for the longest "
                f"question and a piece of context. Received: {self}"
            )

    def num_tokens(
        self,
        num_question_pieces: int | tf.Tensor,
        num_pieces: int | tf.Tensor,
        num_sentences: int | tf.Tensor,
    ) -> int | tf.Tensor:
        """Returns the length of a row. `num_sentences` does not count the question."""
        return (
            self.num_special_tokens
            + num_question_pieces
            + num_pieces
            + self.tokens_per_sentence * (1 + num_sentences)
        )

    def capacity(self, num_question_pieces: int | tf.Tensor) -> int | tf.Tensor:
        """Returns the maximum number of context pieces in a window of one sentence."""
        return self.max_length - self.num_tokens(num_question_pieces, 0, 1)


@dataclasses.dataclass(frozen=True, eq=False)
class Windows:
    """Windows of consecutive context pieces, each read together with a question.

    Fields are int32 `(W,)`: question numbers, and bounds in the pieces of all contexts.
    """

    questions: tf.Tensor
    starts: tf.Tensor
    stops: tf.Tensor

    def take(self, numbers: tf.Tensor) -> Windows:
        fields = (self.questions, self.starts, self.stops)
        return Windows(*(tf.gather(values, numbers) for values in fields))

    def lengths(self) -> tf.Tensor:
        """Returns the number of pieces of each window, int32 `(W,)`."""
        return self.stops - self.starts

    def pieces(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the piece indices of all windows and their window numbers, `(K,)`."""
        return count_off(self.starts, self.lengths())

    def num_sentences(self, contexts: Contexts) -> tf.Tensor:
        """Counts the sentences, or parts of sentences, in each window, int32 `(W,)`."""
        padded = tf.pad(contexts.sentences, [[0, 1]])
        last = tf.gather(padded, tf.maximum(self.stops - 1, 0))
        number = 1 + last - tf.gather(padded, self.starts)
        return tf.where(self.stops > self.starts, number, 0)

    def is_max_context(self, num_questions: int | tf.Tensor) -> tf.Tensor:
        """Marks each piece in the window that gives it the most context, bool `(K,)`.

        The context of a piece is the smaller number of pieces to its left or right in
        the window, plus 0.01 times the length of the window, as in BERT.
        """
        pieces, windows = self.pieces()
        lengths = tf.gather(self.lengths(), windows)
        offsets = pieces - tf.gather(self.starts, windows)
        context = tf.minimum(offsets, lengths - 1 - offsets)
        scores = tf.cast(context, tf.float64) + _LENGTH_BONUS * tf.cast(
            lengths, tf.float64
        )
        # Each piece of a question's context is a group of its occurrences in windows.
        first = tf.math.unsorted_segment_min(self.starts, self.questions, num_questions)
        last = tf.math.unsorted_segment_max(self.stops, self.questions, num_questions)
        base = tf.cumsum(last - first, exclusive=True) - first
        groups = pieces + tf.gather(base, tf.gather(self.questions, windows))
        return first_of_best(scores, groups, tf.reduce_sum(last - first))


def make_windows(
    contexts: Contexts, questions: Questions, sizes: WindowSizes
) -> Windows:
    """Returns one or more windows for each question, in the order of the questions."""
    begins, ends = (
        tf.gather(values, questions.contexts)
        for values in (contexts.bounds[:-1], contexts.bounds[1:])
    )
    # The sentence of every piece, ascending, and one more entry for the end.
    sentences = tf.concat([contexts.sentences, contexts.sentences[-1:]], 0)
    sentences = tf.pad(sentences, [[0, tf.cast(tf.size(sentences) == 0, tf.int32)]])
    # Positions needed up to each piece. Only differences matter.
    needed = tf.range(tf.size(sentences)) + sizes.tokens_per_sentence * sentences
    capacity = sizes.capacity(questions.num_pieces())

    def add(
        step: tf.Tensor, starts: tf.Tensor, is_new: tf.Tensor, *arrays: tf.TensorArray
    ) -> tuple[tf.Tensor | tf.TensorArray, ...]:
        stops = tf.searchsorted(needed, tf.gather(needed, starts) + capacity)
        if sizes.max_sentences is not None:
            after = tf.gather(sentences, starts) + sizes.max_sentences - 1
            stops = tf.minimum(stops, tf.searchsorted(sentences, after))
        stops = tf.minimum(stops, ends)
        columns = zip(arrays, (starts, stops, is_new), strict=True)
        arrays = tuple(array.write(step, values) for array, values in columns)
        next_starts = starts + tf.minimum(sizes.stride, stops - starts)
        return step + 1, next_starts, is_new & (stops < ends), *arrays

    arrays = (
        tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=[None])
        for dtype in (tf.int32, tf.int32, tf.bool)
    )
    _, _, _, *windows = tf.while_loop(
        lambda step, _, is_new, *__: (step == 0) | tf.reduce_any(is_new),
        add,
        (tf.constant(0), begins, tf.ones_like(begins, tf.bool), *arrays),
    )
    starts_QS, stops_QS, is_window_QS = (
        tf.transpose(array.stack()) for array in windows
    )
    return Windows(
        tf.cast(tf.where(is_window_QS)[:, 0], tf.int32),
        tf.boolean_mask(starts_QS, is_window_QS),
        tf.boolean_mask(stops_QS, is_window_QS),
    )


def first_of_best(
    scores: tf.Tensor, groups: tf.Tensor, num_groups: int | tf.Tensor
) -> tf.Tensor:
    """Marks the first occurrence of each group's highest score, bool `(K,)`."""
    best = tf.math.unsorted_segment_max(scores, groups, num_groups)
    is_best = scores == tf.gather(best, groups)
    number = tf.range(tf.size(groups))
    first = tf.math.unsorted_segment_min(
        tf.where(is_best, number, tf.int32.max), groups, num_groups
    )
    return number == tf.gather(first, groups)
