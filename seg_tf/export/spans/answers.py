"""The best answers in windows, in the graph: those of `seg_tf.tasks.squad.answers`.

Shape key: B questions, K pieces of all windows, A spans that start with a piece,
N answers of a question.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import tensorflow as tf

from seg_tf.export.spans.windows import GraphWindows, first_of_best

if TYPE_CHECKING:
    from seg_tf.export.spans.contexts import GraphContexts

# Of an answer that there is not: finite, for not every format knows more.
NO_SCORE = -2e9


@dataclasses.dataclass(frozen=True)
class GraphAnswers:
    """The best spans of contexts that differ in their texts, best first.

    Attributes:
        texts: string `(B, N)`, "" where there are no more.
        starts: int32 `(B, N)`, first character of each in its context, and `ends`, the
            one behind its last; both 0 where there are no more.
        scores: float64 `(B, N)`, the sum of the two logits; `NO_SCORE` likewise.
    """

    texts: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor


def best_answers(
    contexts: GraphContexts,
    windows: GraphWindows,
    start_logits: tf.Tensor,
    end_logits: tf.Tensor,
    *,
    num_best: int,
    max_answer_pieces: int,
) -> GraphAnswers:
    """The best of all spans of all windows of each context.

    An answer starts where its window shows it in the most context.

    Args:
        contexts: what is asked about.
        windows: of the contexts.
        start_logits: float `(K,)`, of each piece of a window to be the first.
        end_logits: likewise to be the last.
        num_best: N.
        max_answer_pieces: the longest answer.
    """
    num_contexts = tf.size(contexts.num_pieces)
    context = tf.gather(windows.contexts, windows.windows)
    scores_KA = _span_scores(windows, start_logits, end_logits, max_answer_pieces)

    def add_next(
        count: tf.Tensor,
        is_open: tf.Tensor,
        scores_KA: tf.Tensor,
        texts: tf.Tensor,
        starts: tf.Tensor,
        ends: tf.Tensor,
        scores: tf.Tensor,
    ) -> tuple[tf.Tensor, ...]:
        """The next span of each question, unless one before has the same text."""
        best_K = tf.reduce_max(scores_KA, axis=1)
        is_next = first_of_best(best_K, context, num_contexts)
        is_next &= (best_K > -float("inf")) & tf.gather(is_open, context)
        first = tf.cast(tf.where(is_next)[:, 0], tf.int32)
        more = tf.argmax(tf.gather(scores_KA, first), axis=1, output_type=tf.int32)
        start = tf.gather(contexts.starts, tf.gather(windows.pieces, first))
        end = tf.gather(contexts.stops, tf.gather(windows.pieces, first + more))
        text = contexts.texts.strings(start, end)

        question = tf.gather(context, first)
        is_new = tf.reduce_all(tf.gather(texts, question) != text[:, tf.newaxis], 1)
        at = tf.stack([question, tf.gather(count, question)], axis=1)
        at = tf.boolean_mask(at, is_new)

        def put(values: tf.Tensor, of_next: tf.Tensor) -> tf.Tensor:
            return tf.tensor_scatter_nd_update(
                values, at, tf.boolean_mask(of_next, is_new)
            )

        base = tf.gather(contexts.texts.starts, question)
        count = tf.tensor_scatter_nd_add(count, at[:, :1], tf.ones_like(at[:, 0]))
        has_next = tf.scatter_nd(
            question[:, tf.newaxis], tf.ones_like(question), [num_contexts]
        )
        span = tf.stack([first, more], axis=1)
        return (
            count,
            (has_next > 0) & (count < num_best),
            tf.tensor_scatter_nd_update(
                scores_KA, span, tf.fill([tf.size(first)], _impossible())
            ),
            put(texts, text),
            put(starts, start - base),
            put(ends, end - base),
            put(scores, tf.gather(best_K, first)),
        )

    none = tf.zeros_like(contexts.num_pieces)
    shape = tf.stack([num_contexts, num_best])
    _, _, _, *found = tf.while_loop(
        lambda _, is_open, *__: tf.reduce_any(is_open),
        add_next,
        (
            none,
            none == 0,
            scores_KA,
            tf.fill(shape, ""),
            tf.zeros(shape, tf.int32),
            tf.zeros(shape, tf.int32),
            tf.fill(shape, tf.constant(NO_SCORE, tf.float64)),
        ),
    )
    return GraphAnswers(*found)


def null_scores(
    windows: GraphWindows, logits: tf.Tensor, num_questions: tf.Tensor
) -> tf.Tensor:
    """Scores of no answer, each of the window that is surest of one: `(B,)`.

    Args:
        windows: of all contexts, at least one of each.
        logits: float64 `(W,)`, sums of start and end logits of `[CLS]`.
        num_questions: B.
    """
    return tf.math.unsorted_segment_min(logits, windows.contexts, num_questions)


def _span_scores(
    windows: GraphWindows,
    start_logits: tf.Tensor,
    end_logits: tf.Tensor,
    max_answer_pieces: int,
) -> tf.Tensor:
    """Float64 `(K, A)`: scores of spans, by first and further pieces."""
    starts = tf.where(
        windows.is_max_context, tf.cast(start_logits, tf.float64), _impossible()
    )
    more = tf.range(max_answer_pieces)[tf.newaxis, :]
    left = tf.gather(windows.lengths, windows.windows) - windows.offsets
    last = tf.range(tf.size(starts))[:, tf.newaxis] + more
    last = tf.minimum(last, tf.size(starts) - 1)
    ends = tf.gather(tf.cast(end_logits, tf.float64), last)
    ends = tf.where(more < left[:, tf.newaxis], ends, _impossible())
    return starts[:, tf.newaxis] + ends


def _impossible() -> tf.Tensor:
    return tf.constant(-float("inf"), tf.float64)
