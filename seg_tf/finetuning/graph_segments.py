"""Examples of one or two texts as rows, in the graph: those of the layouts for Keras.

Every text is a paragraph of its own, of one sentence (SegaBERT, sections 2.3 and 3.2).

Shape key: B examples, T texts of each, N characters.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from seg_tf.text.graph.characters import FlatTexts
from seg_tf.text.graph.pieces import GraphWordPieces
from seg_tf.text.vocabulary import Vocabulary


def encode_segments(
    texts: Sequence[tf.Tensor], word_pieces: GraphWordPieces, room: int
) -> tuple[list[tf.RaggedTensor], tf.Tensor]:
    """The pieces of texts, the longest cut to what a row has room for.

    Args:
        texts: T string tensors `(B,)`, one or two.
        word_pieces: what makes pieces of them.
        room: the most pieces of an example.

    Returns:
        T ragged int32 tensors `(B, pieces)`; and bool `(B,)`, whether an example was
        cut.
    """
    spelled = []
    for of_text in texts:
        flat = FlatTexts.of(of_text)
        pieces = word_pieces.encode(
            flat.code_points,
            flat.starts,
            flat.ends,
            tf.range(tf.size(of_text)),
            most_words=room + 1,
        )
        spelled.append(
            tf.RaggedTensor.from_value_rowids(
                pieces.ids, pieces.spans, nrows=tf.size(of_text), validate=False
            ).with_row_splits_dtype(tf.int64)
        )
    lengths = [tf.cast(one.row_lengths(), tf.int32) for one in spelled]
    kept = cut_longest(lengths, room)
    is_cut = tf.reduce_any([k < n for k, n in zip(kept, lengths, strict=True)], axis=0)
    cut = [
        tf.ragged.boolean_mask(
            one, tf.ragged.range(tf.cast(one.row_lengths(), tf.int32)) < _rows(most)
        )
        for one, most in zip(spelled, kept, strict=True)
    ]
    return cut, is_cut


def cut_longest(lengths: Sequence[tf.Tensor], room: int) -> list[tf.Tensor]:
    """How much is left of one or two texts that are cut by BERT's rule.

    Args:
        lengths: T int32 tensors `(B,)`.
        room: the most pieces of an example.
    """
    if len(lengths) == 1:
        return [tf.minimum(lengths[0], room)]
    first, second = lengths
    # A text that needs no more than half keeps all of it.
    half = room // 2
    kept_first = tf.minimum(first, room - tf.minimum(second, half))
    return [kept_first, tf.minimum(second, room - kept_first)]


def window_rows(
    segments: Sequence[tf.RaggedTensor], vocabulary: Vocabulary, caps: Mapping[str, int]
) -> dict[str, tf.Tensor]:
    """Lays out `[CLS] A [SEP] B [SEP]`, as `seg_tf.finetuning.window_layout` does.

    Args:
        segments: what `encode_segments` returned.
        vocabulary: of the model.
        caps: rows of each index table; which indices are wanted.

    Returns:
        `token_ids`, `padding_mask`, the indices that `caps` names, and
        `sentence_number`, which text, from 1, a position holds a piece of, 0 if none.
    """
    runs = _Runs(segments)
    runs.add_special(vocabulary.cls_id, 0, 0)
    for text, pieces in enumerate(segments):
        runs.add_pieces(pieces, 0, text)
        runs.add_special(vocabulary.sep_id, pieces.row_lengths(), text)
    return runs.features(vocabulary.pad_id, caps)


def rows_of_sentences(
    segments: Sequence[tf.RaggedTensor], vocabulary: Vocabulary, caps: Mapping[str, int]
) -> dict[str, tf.Tensor]:
    """Lays out `[CLS] [SENT] A [SENT] B [SEP]`, as `sentence_layout` does.

    Args:
        segments: what `encode_segments` returned.
        vocabulary: of the model.
        caps: rows of each index table; which indices are wanted.

    Returns:
        As of `window_rows`, and `candidate_positions` and `candidate_mask`.
    """
    runs = _Runs(segments)
    candidates = [0]
    runs.add_special(vocabulary.cls_id, 0, 0, sentence_id=0, token_type=0)
    for text, pieces in enumerate(segments):
        shared = {"sentence_id": text + 1, "token_type": 0}
        candidates.append(runs.num_tokens)
        runs.add_special(vocabulary.sent_id, 0, text, **shared)
        runs.add_pieces(pieces, 1, text, **shared)
    last = len(segments) - 1
    candidates.append(runs.num_tokens)
    runs.add_special(
        vocabulary.sep_id,
        segments[last].row_lengths() + 1,
        last,
        sentence_id=len(segments) + 1,
        token_type=0,
    )
    positions = tf.stack([tf.zeros_like(runs.num_tokens) + one for one in candidates])
    return {
        **runs.features(vocabulary.pad_id, caps),
        "candidate_positions": tf.transpose(positions),
        "candidate_mask": tf.ones_like(tf.transpose(positions), tf.bool),
    }


class _Runs:
    """Rows that are put together from runs of tokens whose indices go on by one."""

    def __init__(self, segments: Sequence[tf.RaggedTensor]):
        self._none = tf.zeros_like(segments[0].row_lengths(), tf.int32)
        self.num_tokens = self._none
        self._runs: dict[str, list[tf.RaggedTensor]] = {}

    def add_special(
        self, token_id: int, token_index: int | tf.Tensor, text: int, **shared: int
    ) -> None:
        """Adds one token to every row."""
        one = self._none + 1
        ids = tf.RaggedTensor.from_tensor(_rows(self._none + token_id))
        self._add(ids, one, token_index, text, 0, shared)

    def add_pieces(
        self, pieces: tf.RaggedTensor, first_token: int, text: int, **shared: int
    ) -> None:
        """Adds pieces to every row."""
        lengths = tf.cast(pieces.row_lengths(), tf.int32)
        self._add(pieces, lengths, first_token, text, text + 1, shared)

    def _add(
        self,
        ids: tf.RaggedTensor,
        lengths: tf.Tensor,
        first_token: int | tf.Tensor,
        text: int,
        number: int,
        shared: Mapping[str, int],
    ) -> None:
        counts = tf.ragged.range(lengths)
        values = {
            "token_ids": ids,
            "token_index": counts + _rows(self._none + tf.cast(first_token, tf.int32)),
            "sentence_number": counts * 0 + number,
            "paragraph_index": counts * 0 + text,
            "sentence_index": counts * 0,
            "token_type": counts * 0 + text,
            **{name: counts * 0 + value for name, value in shared.items()},
        }
        for name, value in values.items():
            self._runs.setdefault(name, []).append(value)
        self.num_tokens += lengths

    def features(self, pad_id: int, caps: Mapping[str, int]) -> dict[str, tf.Tensor]:
        joined = {name: tf.concat(runs, axis=1) for name, runs in self._runs.items()}
        joined["position_index"] = tf.ragged.range(self.num_tokens)
        token_ids = joined["token_ids"].to_tensor(pad_id)
        return {
            "token_ids": token_ids,
            "padding_mask": tf.sequence_mask(self.num_tokens, tf.shape(token_ids)[1]),
            "sentence_number": joined["sentence_number"].to_tensor(),
            **{
                name: tf.minimum(joined[name], cap - 1).to_tensor()
                for name, cap in caps.items()
            },
        }


def _rows(values: tf.Tensor) -> tf.Tensor:
    return values[:, tf.newaxis]
