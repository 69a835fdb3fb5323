"""Lays out rows of a question and a window of its context, and extracts answers.

The score of an answer is the sum of its start and end logits. All spans are compared,
not only spans between the best starts and the best ends. An answer must start in the
window that gives its first piece the most context (`Windows.is_max_context`).

Shape key: W windows, L row length, S sentences of a row, K pieces of all windows, Q
questions, A lengths of spans, N answers of a question.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from seg_tf.layouts.contexts import Contexts, Questions, Windows, first_of_best
from seg_tf.layouts.layout import Features
from seg_tf.text.graph.flat import count_off
from seg_tf.text.graph.trees import Trees, largest

if TYPE_CHECKING:
    from seg_tf.layouts.rows import IndexedLayout

# Logit of a missing answer. Finite, because not every file format supports infinity.
_NO_LOGIT = -1e9
NO_SCORE = 2 * _NO_LOGIT
_IMPOSSIBLE = np.float64("-inf")


def span_rows(
    trees: Trees, layout: IndexedLayout, row_length: int | tf.Tensor | None = None
) -> dict[str, tf.Tensor]:
    """Lays out the trees of `span_trees` with a layout from `Layout.for_spans`.

    Returns:
        The features of `layout.rows` and `can_answer`, a bool mask `(W, L)` of the
        window's pieces and of `[CLS]`, which means no answer. If the layout has a token
        before each sentence, also `can_hold_answer`, a bool mask `(W, S + 2)` of the
        candidates for the window's sentences and for `[CLS]`.
    """
    rows = dict(layout.rows(trees, row_length))
    # The question is sentence 1.
    rows["can_answer"] = _with_cls(rows["sentence_number"][:, 1:] > 1)
    if layout.sent_id is not None:
        in_context = trees.is_sentence() & (trees.texts > 0)
        rows["can_hold_answer"] = _with_cls(tf.pad(in_context, [[0, 0], [0, 1]]))
    return rows


def span_trees(
    contexts: Contexts,
    questions: Questions,
    windows: Windows,
    num_columns: int | tf.Tensor | None = None,
) -> Trees:
    """Combines each question and window as texts 0 and 1 of a row.

    `num_columns` is the number of sentences that rows are padded to, including the
    question. If None, rows are padded to the longest one.
    """
    num_rows = tf.size(windows.questions)
    num_shown = windows.num_sentences(contexts)
    begins = tf.gather(tf.pad(contexts.sentences, [[0, 1]]), windows.starts)
    sentence, row = count_off(begins, num_shown)
    bounds = contexts.sentence_bounds
    start = tf.maximum(tf.gather(bounds, sentence), tf.gather(windows.starts, row))
    stop = tf.minimum(tf.gather(bounds, sentence + 1), tf.gather(windows.stops, row))
    if num_columns is None:
        num_columns = 1 + largest(num_shown)

    def by_row(values: tf.Tensor, rows: tf.Tensor) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_value_rowids(
            values, rows, nrows=num_rows, validate=False
        )

    def column(values: tf.Tensor) -> tf.Tensor:
        padded = by_row(values, row).to_tensor(shape=tf.stack([-1, num_columns - 1]))
        return tf.pad(padded, [[0, 0], [1, 0]])

    question = tf.gather(questions.pieces, windows.questions)
    num_question_pieces = tf.cast(question.row_lengths(), tf.int32)[:, tf.newaxis]
    piece, window = windows.pieces()
    pieces = by_row(tf.gather(contexts.ids, piece), window)
    question = question.with_row_splits_dtype(pieces.row_splits.dtype)
    paragraphs = column(tf.gather(contexts.paragraph_index, sentence))
    is_question = tf.range(num_columns)[tf.newaxis, :] == 0
    return Trees(
        pieces=tf.concat([question, pieces], axis=1).to_tensor(),
        sentence_lengths=tf.where(
            is_question, num_question_pieces, column(stop - start)
        ),
        num_sentences=1 + num_shown,
        paragraphs=paragraphs,
        sentences=column(tf.gather(contexts.sentence_index, sentence)),
        first_tokens=column(start - tf.gather(bounds, sentence)),
        texts=tf.cast(~is_question, tf.int32) + tf.zeros_like(paragraphs),
    )


def answer_labels(
    rows: Features, windows: Windows, first: tf.Tensor, last: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Returns the labels of answers: positions and, if rows have them, candidates.

    `first` and `last`, int32 `(W,)`, index the first and last piece of the answer in
    the pieces of all contexts. If there is no answer, `last` is less than `first`.
    Returns `start`, `end` and, if sentences have candidates, `sentence`, int32 `(W,)`.
    They are 0, which means `[CLS]`, unless the window contains the whole answer.
    """
    positions = tf.where(rows["can_answer"][:, 1:])[:, 1] + 1
    positions = tf.pad(tf.cast(positions, tf.int32), [[0, 1]])
    base = tf.cumsum(windows.lengths(), exclusive=True) - windows.starts
    is_inside = (windows.starts <= first) & (first <= last) & (last < windows.stops)

    def position(piece: tf.Tensor) -> tf.Tensor:
        places = tf.gather(positions, tf.where(is_inside, base + piece, 0))
        return tf.where(is_inside, places, 0)

    labels = {"start": position(first), "end": position(last)}
    if "can_hold_answer" in rows:
        # [CLS] is candidate 0, the first sentence candidate 1.
        labels["sentence"] = tf.gather(
            rows["sentence_number"], labels["start"], batch_dims=1
        )
    return labels


def _with_cls(flags: tf.Tensor) -> tf.Tensor:
    return tf.pad(flags, [[0, 0], [1, 0]], constant_values=True)


@dataclasses.dataclass(frozen=True, eq=False)
class BestSpans:
    """The best answers of each question, with distinct texts, best first, padded.

    Attributes:
        texts: string tensor `(Q, N)`. Text of each span.
        starts, ends: int32 tensors `(Q, N)`. Character bounds in the context.
        start_logits, end_logits: float64 `(Q, N)`, summing to `NO_SCORE` at padding.
        counts: int32 tensor `(Q,)`. Number of answers, without padding.
        null_logits: float64 tensor `(Q, 2)`. Start and end logit of `[CLS]` in the
            window where their sum is lowest, as in BERT's published code.
    """

    texts: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    start_logits: tf.Tensor
    end_logits: tf.Tensor
    counts: tf.Tensor
    null_logits: tf.Tensor

    @property
    def null_scores(self) -> tf.Tensor:
        return tf.reduce_sum(self.null_logits, axis=1)

    @property
    def scores(self) -> tf.Tensor:
        return self.start_logits + self.end_logits


def best_spans(
    contexts: Contexts,
    question_contexts: tf.Tensor,
    windows: Windows,
    start_logits: tf.Tensor,
    end_logits: tf.Tensor,
    null_logits: tf.Tensor,
    *,
    num_best: int,
    max_answer_pieces: int,
) -> BestSpans:
    """Finds up to `num_best` answers and the null logits of each question.

    Answers have up to `max_answer_pieces` pieces. `question_contexts`, int32 `(Q,)`,
    are context numbers. `start_logits` and `end_logits`, float `(K,)`, score each piece
    as the first and the last piece of an answer. `null_logits`, float `(W, 2)`, are the
    logits of `[CLS]`. Each question has at least one window, and windows are in the
    order of their questions.
    """
    start_logits = tf.cast(start_logits, tf.float64)
    end_logits = tf.cast(end_logits, tf.float64)
    num_questions = tf.size(question_contexts)
    pieces, window_numbers = windows.pieces()
    # Scores of the spans that start at each piece, for each length.
    more_A = tf.range(max_answer_pieces)
    left_K = tf.gather(windows.stops, window_numbers) - pieces
    ends_KA = tf.gather(
        tf.pad(end_logits, [[0, max_answer_pieces]]),
        tf.range(tf.size(pieces))[:, tf.newaxis] + more_A,
    )
    is_start_K = windows.is_max_context(num_questions)
    is_span_KA = is_start_K[:, tf.newaxis] & (more_A < left_K[:, tf.newaxis])
    scores = tf.RaggedTensor.from_value_rowids(
        tf.where(is_span_KA, start_logits[:, tf.newaxis] + ends_KA, _IMPOSSIBLE),
        tf.gather(windows.questions, window_numbers),
        nrows=num_questions,
        validate=False,
    )
    # One more entry, because there may be no pieces.
    pieces = tf.pad(pieces, [[0, 1]])
    starts, stops = (
        tf.gather(tf.pad(values, [[0, 1]]), pieces)
        for values in (contexts.starts, contexts.stops)
    )

    def texts_of(spans: tf.Tensor) -> tf.Tensor:
        first, last = tf.unstack(spans, axis=1)
        return contexts.texts.strings(tf.gather(starts, first), tf.gather(stops, last))

    texts, spans, counts = _distinct_spans(scores, texts_of, num_best)
    is_span = tf.range(num_best)[tf.newaxis, :] < counts[:, tf.newaxis]
    base = tf.gather(contexts.texts.starts, question_contexts)[:, tf.newaxis]

    def at_spans(values: tf.Tensor, end: int, missing: tf.Tensor) -> tf.Tensor:
        return tf.where(is_span, tf.gather(values, spans[:, :, end]), missing)

    no_logit = tf.constant(_NO_LOGIT, tf.float64)
    null_logits = tf.cast(null_logits, tf.float64)
    is_lowest = first_of_best(
        -tf.reduce_sum(null_logits, axis=1), windows.questions, num_questions
    )
    return BestSpans(
        texts=texts,
        starts=at_spans(starts, 0, base) - base,
        ends=at_spans(stops, 1, base) - base,
        start_logits=at_spans(tf.pad(start_logits, [[0, 1]]), 0, no_logit),
        end_logits=at_spans(tf.pad(end_logits, [[0, 1]]), 1, no_logit),
        counts=counts,
        null_logits=tf.boolean_mask(null_logits, is_lowest),
    )


def check_answer_sizes(num_best: int, max_answer_pieces: int) -> None:
    """Raises ValueError if either number is less than 1."""
    if num_best < 1 or max_answer_pieces < 1:
        raise ValueError(
            "`num_best` and `max_answer_pieces` must be at least 1. Received: "
            f"num_best={num_best}, max_answer_pieces={max_answer_pieces}"
        )


def _distinct_spans(
    scores: tf.RaggedTensor, texts_of: Callable[[tf.Tensor], tf.Tensor], num_best: int
) -> tuple[tf.Tensor, ...]:
    """Returns texts `(Q, N)`, spans `(Q, N, 2)` and counts `(Q,)` of the best answers.

    Doubles the number of compared spans until `num_best` texts differ or none remain.
    """
    begins = tf.cast(scores.row_starts(), tf.int32)[:, tf.newaxis]
    dense = scores.to_tensor(_IMPOSSIBLE)
    num_questions, most_pieces, width = tf.unstack(tf.shape(dense))
    dense = tf.reshape(dense, [num_questions, most_pieces * width])

    def compare(most: tf.Tensor, *_: tf.Tensor) -> tuple[tf.Tensor, ...]:
        best = tf.math.top_k(dense, tf.minimum(most, tf.shape(dense)[1]))
        is_span = best.values > _IMPOSSIBLE
        first = begins + best.indices // width
        spans = tf.stack([first, first + best.indices % width], axis=2)
        spans = tf.where(is_span[:, :, tf.newaxis], spans, 0)
        texts = texts_of(tf.reshape(spans, [-1, 2]))
        shape = tf.shape(is_span)
        text = tf.reshape(tf.unique(texts).idx, shape)
        rank = tf.range(shape[1])
        is_before = rank[tf.newaxis, :] < rank[:, tf.newaxis]
        is_same = text[:, tf.newaxis, :] == text[:, :, tf.newaxis]
        is_new = is_span & ~tf.reduce_any(is_same & is_before, axis=2)

        def select(values: tf.Tensor, *width: int) -> tf.Tensor:
            ragged = tf.ragged.boolean_mask(values, is_new)[:, :num_best]
            return ragged.to_tensor(shape=[None, num_best, *width])

        counts = tf.reduce_sum(tf.cast(is_new, tf.int32), axis=1)
        num_spans = tf.reduce_sum(tf.cast(is_span, tf.int32), axis=1)
        has_more = (counts < num_best) & (num_spans == most)
        return (
            2 * most,
            tf.reduce_any(has_more),
            select(tf.reshape(texts, shape)),
            select(spans, 2),
            tf.minimum(counts, num_best),
        )

    # A first guess, because some texts occur more than once.
    most = tf.constant(2 * num_best - 1)
    shape = tf.stack([num_questions, num_best])
    _, _, *best = tf.while_loop(
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
    return tuple(best)
