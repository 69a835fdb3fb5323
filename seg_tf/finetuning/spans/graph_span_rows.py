"""Question and window of a context as a row, in the graph: those of `span_batches`.

Shape key: W windows, K pieces of all windows, L row length, Q pieces of all questions.
"""

from collections.abc import Mapping

import tensorflow as tf

from seg_tf.finetuning.spans.graph_contexts import GraphContexts
from seg_tf.finetuning.spans.graph_windows import GraphWindows
from seg_tf.text.marked_positions import count_off, shifted
from seg_tf.text.vocabulary import Vocabulary

_OF_QUESTION = {"paragraph_index": 0, "sentence_index": 0, "token_type": 0}


def span_rows(
    questions: tf.RaggedTensor,
    contexts: GraphContexts,
    windows: GraphWindows,
    vocabulary: Vocabulary,
    caps: Mapping[str, int],
    of_sentences: bool,
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Lays out `[CLS] question [SEP] window [SEP]`, as `WindowLayout` does.

    For models of sentences `[CLS] [SENT] question [SENT] s1 [SENT] s2 … [SEP]`, as
    `SentenceLayout` does where it tells texts apart.

    Args:
        questions: ragged int32, the pieces that are read of each.
        contexts: what is asked about.
        windows: of the contexts.
        vocabulary: of the model.
        caps: rows of each index table; which indices are wanted.
        of_sentences: whether `[SENT]` stands before every sentence.

    Returns:
        `token_ids`, `padding_mask`, `can_answer` and the indices that `caps` names,
        each `(W, L)`; and int32 `(K,)`, where in its row each piece of a window stands.
    """
    per_sentence = int(of_sentences)
    row = tf.range(tf.size(windows.lengths))
    asked, question_row = count_off(
        *(
            tf.gather(values, windows.contexts)
            for values in (_starts(questions), _lengths(questions))
        )
    )
    num_asked = tf.gather(_lengths(questions), windows.contexts)
    place = tf.ragged.range(num_asked).flat_values

    # === Pieces of windows ===
    indices = {
        name: tf.gather(getattr(contexts, name), windows.pieces)
        for name in ("paragraph_index", "sentence_index", "token_index")
    }
    sentence = tf.gather(contexts.sentences, windows.pieces)
    is_first = windows.offsets == 0
    begins = is_first | (sentence != shifted(sentence, -1, -1))
    # Which sentence of the row, from 0; the question is none of them.
    number = sentence - tf.gather(
        tf.boolean_mask(sentence, is_first),
        tf.cumsum(tf.cast(is_first, tf.int32)) - 1,
    )
    before = 2 + tf.gather(num_asked, windows.windows)
    position = before + windows.offsets + per_sentence * (number + 1)

    # === Rows ===
    # What an empty window does not have, for its [SEP].
    has_pieces = windows.lengths > 0
    last = tf.cumsum(windows.lengths) - 1

    def of_last(values: tf.Tensor) -> tf.Tensor:
        padded = tf.pad(values, [[0, 1]])
        return tf.where(has_pieces, tf.gather(padded, tf.maximum(last, 0)), 0)

    num_sentences = of_last(number + 1)
    end = 2 + num_asked + windows.lengths + per_sentence * num_sentences
    tokens = _Tokens(tf.size(row), 1 + tf.reduce_max(tf.pad(end, [[0, 1]])))
    tokens.add(row, 0, vocabulary.cls_id, token_index=0, sentence_id=0, **_OF_QUESTION)
    if of_sentences:
        tokens.add(
            row, 1, vocabulary.sent_id, token_index=0, sentence_id=1, **_OF_QUESTION
        )
    else:
        tokens.add(
            row, 1 + num_asked, vocabulary.sep_id, token_index=num_asked, **_OF_QUESTION
        )
    tokens.add(
        question_row,
        1 + per_sentence + place,
        tf.gather(questions.flat_values, asked),
        token_index=per_sentence + place,
        sentence_id=1,
        **_OF_QUESTION,
    )
    if of_sentences:
        of_first = {
            name: tf.boolean_mask(values, begins) for name, values in indices.items()
        }
        tokens.add(
            tf.boolean_mask(windows.windows, begins),
            tf.boolean_mask(position, begins) - 1,
            vocabulary.sent_id,
            sentence_id=tf.boolean_mask(number, begins) + 2,
            token_type=1,
            **of_first,
        )
    indices["token_index"] += per_sentence
    tokens.add(
        windows.windows,
        position,
        tf.gather(contexts.ids, windows.pieces),
        sentence_id=number + 2,
        token_type=1,
        **indices,
    )
    indices["token_index"] += 1
    tokens.add(
        row,
        end,
        vocabulary.sep_id,
        sentence_id=num_sentences + 2,
        token_type=1,
        **{name: of_last(values) for name, values in indices.items()},
    )
    features = tokens.features(vocabulary.pad_id, caps)
    can_answer = tokens.marked(windows.windows, position) | tokens.marked(row, 0)
    return {**features, "can_answer": can_answer}, position


class _Tokens:
    """Rows that tokens are added to, anywhere."""

    def __init__(self, num_rows: tf.Tensor, row_length: tf.Tensor):
        self._shape = tf.stack([num_rows, row_length])
        self._at: list[tf.Tensor] = []
        self._values: list[Mapping[str, tf.Tensor]] = []

    def add(
        self,
        rows: tf.Tensor,
        positions: tf.Tensor | int,
        ids: tf.Tensor | int,
        **indices: tf.Tensor | int,
    ) -> None:
        """Adds a token for each of some rows, at positions of these."""
        self._at.append(_places(rows, positions))
        indices = {"token_ids": ids, "position_index": positions, **indices}
        self._values.append({name: rows * 0 + one for name, one in indices.items()})

    def features(self, pad_id: int, caps: Mapping[str, int]) -> dict[str, tf.Tensor]:
        at = tf.concat(self._at, axis=0)

        def placed(name: str, most: int, fill: int) -> tf.Tensor:
            values = tf.concat([values[name] for values in self._values], axis=0)
            return tf.tensor_scatter_nd_update(
                tf.fill(self._shape, fill), at, tf.minimum(values, most)
            )

        return {
            "token_ids": placed("token_ids", tf.int32.max, pad_id),
            "padding_mask": self._marked(at),
            **{name: placed(name, cap - 1, 0) for name, cap in caps.items()},
        }

    def marked(self, rows: tf.Tensor, positions: tf.Tensor | int) -> tf.Tensor:
        """Bool `(W, L)`, True at positions of rows."""
        return self._marked(_places(rows, positions))

    def _marked(self, at: tf.Tensor) -> tf.Tensor:
        ones = tf.ones_like(at[:, 0], tf.bool)
        return tf.tensor_scatter_nd_update(tf.fill(self._shape, False), at, ones)


def _places(rows: tf.Tensor, positions: tf.Tensor | int) -> tf.Tensor:
    return tf.stack([rows, rows * 0 + positions], axis=1)


def _lengths(ragged: tf.RaggedTensor) -> tf.Tensor:
    return tf.cast(ragged.row_lengths(), tf.int32)


def _starts(ragged: tf.RaggedTensor) -> tf.Tensor:
    return tf.cast(ragged.row_starts(), tf.int32)
