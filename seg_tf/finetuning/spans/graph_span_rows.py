"""Question and window of a context as a row, in the graph: those of `span_batches`.

Shape key: W windows, L row length, S sentences of a row.
"""

import tensorflow as tf

from seg_tf.finetuning.spans.graph_contexts import GraphContexts
from seg_tf.finetuning.spans.graph_windows import GraphWindows
from seg_tf.layouts.layout import Layout
from seg_tf.layouts.trees import Trees
from seg_tf.text.marked_positions import shifted


def span_rows(trees: Trees, layout: Layout) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Lays out question and window as one row.

    Args:
        trees: what `span_trees` returned.
        layout: of the model, `for_spans`.

    Returns:
        The features of its rows, and `can_answer`, bool `(W, L)`; and int64 `(K, 2)`,
        row and position of each piece of the windows, in their order.
    """
    rows = layout.rows(trees)
    # The question is sentence 1.
    is_context = rows["sentence_number"] > 1
    is_cls = tf.range(tf.shape(is_context)[1])[tf.newaxis, :] == 0
    return {**rows, "can_answer": is_context | is_cls}, tf.where(is_context)


def span_trees(
    questions: tf.RaggedTensor,
    contexts: GraphContexts,
    shown: GraphWindows,
    of_sentences: bool,
) -> Trees:
    """Question and window, text 0 and 1 of each row.

    Args:
        questions: ragged int32, the pieces that are read of each.
        contexts: what is asked about.
        shown: windows of the contexts. One without a piece has an empty sentence, for
            models of sentences none.
        of_sentences: whether the model is one of sentences.
    """
    num_rows = tf.size(shown.lengths)
    asked = tf.gather(questions, shown.contexts)
    sentence = tf.gather(contexts.sentences, shown.pieces)
    begins = (shown.offsets == 0) | (sentence != shifted(sentence, -1, -1))
    rows = tf.boolean_mask(shown.windows, begins)
    run = tf.cumsum(tf.cast(begins, tf.int32)) - 1
    lengths = tf.math.bincount(run, minlength=tf.size(rows), maxlength=tf.size(rows))

    def by_row(values: tf.Tensor, rows: tf.Tensor) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_value_rowids(
            values, rows, nrows=num_rows, validate=False
        )

    def column(values: tf.Tensor) -> tf.Tensor:
        """Values of sentences as `(W, S)`, 0 for the question, and one column more."""
        return tf.pad(by_row(values, rows).to_tensor(), [[0, 0], [1, 1]])

    first_pieces = tf.boolean_mask(shown.pieces, begins)
    paragraphs, sentence_indices, first_tokens = (
        column(tf.gather(values, first_pieces))
        for values in (
            contexts.paragraph_index,
            contexts.sentence_index,
            contexts.token_index,
        )
    )
    num_asked = tf.cast(asked.row_lengths(), tf.int32)[:, tf.newaxis]
    num_shown = tf.math.bincount(rows, minlength=num_rows, maxlength=num_rows)
    is_question = tf.range(tf.shape(paragraphs)[1])[tf.newaxis, :] == 0
    pieces = by_row(tf.gather(contexts.ids, shown.pieces), shown.windows)
    asked = asked.with_row_splits_dtype(pieces.row_splits.dtype)
    return Trees(
        pieces=tf.concat([asked, pieces], axis=1).to_tensor(),
        sentence_lengths=tf.where(is_question, num_asked, column(lengths)),
        num_sentences=1 + tf.maximum(num_shown, 0 if of_sentences else 1),
        paragraphs=paragraphs,
        sentences=sentence_indices,
        first_tokens=first_tokens,
        texts=tf.cast(~is_question, tf.int32) + tf.zeros_like(paragraphs),
    )
