"""From the logits of windows to the best spans of contexts.

What a model gives for each piece of a window is how well an answer starts and ends
there; an answer is scored by the sum of the two logits. All spans are compared, not
those alone between the best starts and the best ends. An answer starts where its window
shows it in the most context (`Windows.shown_most`).

Shape key: Q questions, W windows, K pieces of all windows, A spans that start with a
piece, N answers of a question.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from seg_tf.layouts.context_windows import first_of_best

if TYPE_CHECKING:
    from seg_tf.layouts.context_windows import Windows
    from seg_tf.layouts.contexts import Contexts

# Of an answer that there is not: finite, for not every format knows more.
_NO_LOGIT = -1e9
NO_SCORE = 2 * _NO_LOGIT
_IMPOSSIBLE = np.float64("-inf")


@dataclasses.dataclass(frozen=True, eq=False)
class BestSpans:
    """The best spans of contexts that differ in their texts, best first.

    Attributes:
        texts: string `(Q, N)`, "" where there are no more.
        starts: int32 `(Q, N)`, first character of each in its context, and `ends`, the
            one after its last; both 0 where there are no more.
        start_logits: float64 `(Q, N)`, and `end_logits`; where there are no more, two
            whose sum is `NO_SCORE`.
        counts: int32 `(Q,)`, how many there are.
    """

    texts: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    start_logits: tf.Tensor
    end_logits: tf.Tensor
    counts: tf.Tensor

    @property
    def scores(self) -> tf.Tensor:
        """Float64 `(Q, N)`: the sum of the two logits."""
        return self.start_logits + self.end_logits


def best_spans(
    contexts: Contexts,
    asked: tf.Tensor,
    windows: Windows,
    start_logits: tf.Tensor,
    end_logits: tf.Tensor,
    *,
    num_best: int,
    max_answer_pieces: int,
) -> BestSpans:
    """The best of all spans of all windows of each question.

    Args:
        contexts: what is asked about.
        asked: int32 `(Q,)`, the context of each question.
        windows: all windows of the questions.
        start_logits: float `(K,)`, of each piece of a window to be the first.
        end_logits: likewise to be the last.
        num_best: N.
        max_answer_pieces: A, the longest answer.
    """
    start_logits = tf.cast(start_logits, tf.float64)
    end_logits = tf.cast(end_logits, tf.float64)
    scores = _SpanScores(
        windows, start_logits, end_logits, tf.size(asked), max_answer_pieces
    )
    # One more, for there may be no piece at all.
    pieces = tf.pad(windows.pieces()[0], [[0, 1]])
    starts, stops = (
        tf.gather(tf.pad(values, [[0, 1]]), pieces)
        for values in (contexts.starts, contexts.stops)
    )

    def texts_of(spans: tf.Tensor) -> tf.Tensor:
        first, last = tf.unstack(spans, axis=1)
        return contexts.texts.strings(tf.gather(starts, first), tf.gather(stops, last))

    texts, spans, counts = _distinct_spans(scores, texts_of, num_best)
    is_there = tf.range(num_best)[tf.newaxis, :] < counts[:, tf.newaxis]
    base = tf.gather(contexts.texts.starts, asked)[:, tf.newaxis]

    def found(values: tf.Tensor, end: int, missing: tf.Tensor) -> tf.Tensor:
        return tf.where(is_there, tf.gather(values, spans[:, :, end]), missing)

    no_logit = tf.constant(_NO_LOGIT, tf.float64)
    return BestSpans(
        texts=texts,
        starts=found(starts, 0, base) - base,
        ends=found(stops, 1, base) - base,
        start_logits=found(tf.pad(start_logits, [[0, 1]]), 0, no_logit),
        end_logits=found(tf.pad(end_logits, [[0, 1]]), 1, no_logit),
        counts=counts,
    )


def surest_of_answers(
    windows: Windows, null_scores: tf.Tensor, num_questions: int | tf.Tensor
) -> tf.Tensor:
    """The window of each question that is surest of an answer: int32 `(Q,)`.

    Its score counts for there being none, as in BERT's published code.

    Args:
        windows: of all questions, at least one of each, those of one adjacent.
        null_scores: float `(W,)`, sums of start and end logits of `[CLS]`.
        num_questions: Q.
    """
    is_surest = first_of_best(-null_scores, windows.questions, num_questions)
    return tf.cast(tf.where(is_surest)[:, 0], tf.int32)


def check_answer_sizes(num_best: int, max_answer_pieces: int) -> None:
    """Raises a ValueError if no answer is wanted, or the longest has no piece."""
    if num_best < 1 or max_answer_pieces < 1:
        raise ValueError(
            "`num_best` and `max_answer_pieces` must be at least 1. Received: "
            f"num_best={num_best}, max_answer_pieces={max_answer_pieces}"
        )


class _SpanScores:
    """Scores of the spans that start with a piece, -inf of those that none may be."""

    def __init__(
        self,
        windows: Windows,
        start_logits: tf.Tensor,
        end_logits: tf.Tensor,
        num_questions: tf.Tensor,
        max_answer_pieces: int,
    ):
        self.num_questions = num_questions
        pieces, of_windows = windows.pieces()
        is_start = windows.shown_most(num_questions)
        starts = tf.where(is_start, start_logits, _IMPOSSIBLE)
        self._starts = tf.concat([starts, [_IMPOSSIBLE]], 0)
        self._ends = tf.pad(end_logits, [[0, max_answer_pieces]])
        # Pieces from each to the end of its window.
        left = tf.gather(windows.stops, of_windows) - pieces
        self._left = tf.pad(left, [[0, 1]])
        self._more = tf.range(max_answer_pieces)
        best_K = tf.reduce_max(self._of(tf.range(tf.size(pieces))), axis=1)
        by_question = tf.RaggedTensor.from_value_rowids(
            best_K,
            tf.gather(windows.questions, of_windows),
            nrows=num_questions,
            validate=False,
        )
        self._best = by_question.to_tensor(_IMPOSSIBLE)
        self._begins = tf.cast(by_question.row_starts(), tf.int32)

    def best(self, most: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The best spans of each question, of equal ones the first.

        Args:
            most: how many are wanted.

        Returns:
            First and last piece of each among the K, int32 `(Q, M, 2)`, M at most
            `most`; and bool `(Q, M)`, whether there is one.
        """
        # They start with the pieces whose own best are the best.
        num_pieces = tf.minimum(most, tf.shape(self._best)[1])
        rows = tf.sort(tf.math.top_k(self._best, num_pieces).indices, axis=1)
        is_piece = tf.gather(self._best, rows, batch_dims=1) > _IMPOSSIBLE
        first = tf.where(is_piece, rows + self._begins[:, tf.newaxis], 0)
        scores = tf.where(is_piece[:, :, tf.newaxis], self._of(first), _IMPOSSIBLE)
        scores = tf.reshape(scores, [tf.shape(first)[0], num_pieces * self._width])
        best = tf.math.top_k(scores, tf.minimum(most, tf.shape(scores)[1]))
        is_span = best.values > _IMPOSSIBLE
        first = tf.gather(first, best.indices // self._width, batch_dims=1)
        spans = tf.stack([first, first + best.indices % self._width], axis=2)
        return tf.where(is_span[:, :, tf.newaxis], spans, 0), is_span

    @property
    def _width(self) -> tf.Tensor:
        return tf.size(self._more)

    def _of(self, first: tf.Tensor) -> tf.Tensor:
        """Float64 `(…, A)`: scores of spans from some pieces on, by further pieces."""
        first = first[..., tf.newaxis]
        ends = tf.gather(self._ends, first + self._more)
        ends = tf.where(self._more < tf.gather(self._left, first), ends, _IMPOSSIBLE)
        return tf.gather(self._starts, first) + ends


def _distinct_spans(
    scores: _SpanScores, texts_of: Callable[[tf.Tensor], tf.Tensor], num_best: int
) -> tuple[tf.Tensor, ...]:
    """The best spans of each question whose texts differ.

    Of spans of one text the best counts; more spans are compared until there are
    enough texts, or no spans left.

    Args:
        scores: of spans.
        texts_of: gives the texts of spans `(…, 2)`.
        num_best: N.

    Returns:
        Texts, string `(Q, N)`; first and last piece among the K, int32 `(Q, N, 2)`; and
        how many there are, int32 `(Q,)`.
    """

    def compare(most: tf.Tensor, *_: tf.Tensor) -> tuple[tf.Tensor, ...]:
        spans, is_span = scores.best(most)
        texts = texts_of(tf.reshape(spans, [-1, 2]))
        shape = tf.shape(is_span)
        text = tf.reshape(tf.unique(texts).idx, shape)
        rank = tf.range(shape[1])
        is_before = rank[tf.newaxis, :] < rank[:, tf.newaxis]
        is_same = text[:, tf.newaxis, :] == text[:, :, tf.newaxis]
        is_new = is_span & ~tf.reduce_any(is_same & is_before, axis=2)

        def kept(values: tf.Tensor, *width: int) -> tf.Tensor:
            ragged = tf.ragged.boolean_mask(values, is_new)[:, :num_best]
            return ragged.to_tensor(shape=[None, num_best, *width])

        counts = tf.reduce_sum(tf.cast(is_new, tf.int32), axis=1)
        num_spans = tf.reduce_sum(tf.cast(is_span, tf.int32), axis=1)
        has_more = (counts < num_best) & (num_spans == most)
        return (
            2 * most,
            tf.reduce_any(has_more),
            kept(tf.reshape(texts, shape)),
            kept(spans, 2),
            tf.minimum(counts, num_best),
        )

    # Of one text there is the very best; of several some are there more than once.
    most = tf.constant(2 * num_best - 1)
    shape = tf.stack([scores.num_questions, num_best])
    _, _, *found = tf.while_loop(
        lambda _, has_more, *__: has_more,
        compare,
        (
            most,
            tf.constant(True),
            tf.fill(shape, ""),
            tf.zeros([*tf.unstack(shape), 2], tf.int32),
            tf.zeros(shape[:1], tf.int32),
        ),
    )
    return tuple(found)
