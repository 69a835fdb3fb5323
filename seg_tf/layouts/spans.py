"""Rows of a question and a window of its context, and where the answer is in them.

Shape key: W windows, L row length, S sentences of a row, K pieces of all windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from seg_tf.layouts.layout import Features
from seg_tf.layouts.trees import Trees, largest
from seg_tf.text.marked_positions import count_off

if TYPE_CHECKING:
    from seg_tf.layouts.context_windows import Windows
    from seg_tf.layouts.contexts import Contexts, Questions
    from seg_tf.layouts.indexed_rows import IndexedLayout


def span_rows(
    trees: Trees, layout: IndexedLayout, row_length: int | tf.Tensor | None = None
) -> dict[str, tf.Tensor]:
    """Lays out question and window as one row.

    Args:
        trees: what `span_trees` returned.
        layout: of the model, `for_spans`.
        row_length: L; None takes what the longest needs.

    Returns:
        The features of `layout.rows`, and

        * `can_answer`, bool `(W, L)`: the positions of the window's pieces, in their
          order, and that of `[CLS]`, which stands for no answer;
        * `can_hold_answer`, bool `(W, S + 2)`, for a layout with a token before each
          sentence: the candidates of the window's sentences, and that of `[CLS]`.
    """
    rows = dict(layout.rows(trees, row_length))
    # The question is sentence 1.
    rows["can_answer"] = _with_cls(rows["sentence_number"][:, 1:] > 1)
    if layout.sent_id is not None:
        of_context = trees.is_sentence() & (trees.texts > 0)
        rows["can_hold_answer"] = _with_cls(tf.pad(of_context, [[0, 0], [0, 1]]))
    return rows


def span_trees(
    contexts: Contexts,
    questions: Questions,
    windows: Windows,
    num_columns: int | tf.Tensor | None = None,
) -> Trees:
    """Question and window, text 0 and 1 of each row.

    What a window cuts off at its start is counted: its first piece keeps the token
    index that it has in its sentence.

    Args:
        contexts: what is asked about.
        questions: what is asked.
        windows: of the contexts, at least one.
        num_columns: columns for sentences, the question among them; None takes those
            that are needed.
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
        """Values of sentences as `(W, S)`, 0 for the question."""
        padded = by_row(values, row).to_tensor(shape=tf.stack([-1, num_columns - 1]))
        return tf.pad(padded, [[0, 0], [1, 0]])

    asked = tf.gather(questions.pieces, windows.questions)
    num_asked = tf.cast(asked.row_lengths(), tf.int32)[:, tf.newaxis]
    piece, window = windows.pieces()
    pieces = by_row(tf.gather(contexts.ids, piece), window)
    asked = asked.with_row_splits_dtype(pieces.row_splits.dtype)
    paragraphs = column(tf.gather(contexts.paragraph_index, sentence))
    is_question = tf.range(num_columns)[tf.newaxis, :] == 0
    return Trees(
        pieces=tf.concat([asked, pieces], axis=1).to_tensor(),
        sentence_lengths=tf.where(is_question, num_asked, column(stop - start)),
        num_sentences=1 + num_shown,
        paragraphs=paragraphs,
        sentences=column(tf.gather(contexts.sentence_index, sentence)),
        first_tokens=column(start - tf.gather(bounds, sentence)),
        texts=tf.cast(~is_question, tf.int32) + tf.zeros_like(paragraphs),
    )


def answer_labels(
    rows: Features, windows: Windows, first: tf.Tensor, last: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Positions that a model has to point at.

    Args:
        rows: what `span_rows` returned.
        windows: those of the rows.
        first: int32 `(W,)`, first piece of the answer to the question of each window,
            counted through all contexts.
        last: int32 `(W,)`, its last piece; before the first where there is none.

    Returns:
        int32 `(W,)`, `start` and `end` and, if there are candidates for sentences,
        `sentence`, the one whose sentence the answer starts in. All are 0, the place of
        `[CLS]`, where the window does not hold the answer whole.
    """
    positions = tf.where(rows["can_answer"][:, 1:])[:, 1] + 1
    positions = tf.pad(tf.cast(positions, tf.int32), [[0, 1]])
    lengths = windows.lengths()
    base = tf.cumsum(lengths, exclusive=True) - windows.starts
    is_held = (windows.starts <= first) & (first <= last) & (last < windows.stops)

    def position(piece: tf.Tensor) -> tf.Tensor:
        found = tf.gather(positions, tf.where(is_held, base + piece, 0))
        return tf.where(is_held, found, 0)

    labels = {"start": position(first), "end": position(last)}
    if "can_hold_answer" in rows:
        # [CLS] is candidate 0, the first sentence candidate 1.
        labels["sentence"] = tf.gather(
            rows["sentence_number"], labels["start"], batch_dims=1
        )
    return labels


def _with_cls(flags: tf.Tensor) -> tf.Tensor:
    return tf.pad(flags, [[0, 0], [1, 0]], constant_values=True)
