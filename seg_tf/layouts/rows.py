"""Defines examples of word pieces, and the base class of `[CLS] … [SEP]` layouts."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.layouts.layout import Features, Layout, RowShape, TextCapacity
from seg_tf.text.graph.trees import Trees

# `[CLS]` and `[SEP]`. Sentences may have additional special tokens.
NUM_SPECIAL_TOKENS = 2
_SHORTEST_BUCKET = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """Word pieces of a text, or of one of its sentences, and their indices.

    `pieces` is an int array of ids, possibly empty. `text` is the number of the text in
    the example. The other fields are indices of the first piece.
    """

    pieces: np.ndarray
    text: int = 0
    paragraph: int = 0
    sentence: int = 0
    first_token: int = 0


Example = Sequence[Segment]


def num_pieces(example: Example) -> int:
    """Counts the pieces of all segments of an example."""
    return sum(len(segment.pieces) for segment in example)


def trees_of(examples: Sequence[Example], num_columns: int) -> Trees:
    """Converts examples to trees: one sentence per segment, padded to `num_columns`."""
    segments = [segment for example in examples for segment in example]
    counts = np.array([len(example) for example in examples])
    rows = [
        (s.paragraph, s.sentence, s.first_token, s.text, len(s.pieces))
        for s in segments
    ]
    table = np.array(rows, np.int32)
    padded = np.zeros((len(examples), num_columns, table.shape[1]), np.int32)
    padded[np.arange(num_columns) < counts[:, np.newaxis]] = table
    *indices, lengths = np.moveaxis(padded, 2, 0)
    row_lengths = lengths.sum(axis=1)
    pieces = np.zeros((len(examples), row_lengths.max()), np.int32)
    is_piece = np.arange(pieces.shape[1]) < row_lengths[:, np.newaxis]
    pieces[is_piece] = np.concatenate([segment.pieces for segment in segments])
    paragraphs, sentences, first_tokens, texts = map(tf.constant, indices)
    return Trees(
        pieces=tf.constant(pieces),
        sentence_lengths=tf.constant(lengths),
        num_sentences=tf.constant(counts, tf.int32),
        paragraphs=paragraphs,
        sentences=sentences,
        first_tokens=first_tokens,
        texts=texts,
    )


def bucket_length(num_tokens: int, longest: int) -> int:
    """Rounds a number of tokens up to one of a few row lengths, at most `longest`."""
    step = max(_SHORTEST_BUCKET, (1 << (num_tokens - 1).bit_length()) // 8)
    return min(-(-num_tokens // step) * step, longest)


def room_for_pieces(
    num_specials: int, max_length: int, num_texts: int, max_sentences: int
) -> int:
    """Returns how many pieces fit into a row that has `num_specials` special tokens.

    Raises a ValueError if `max_length` or `max_sentences` is too small for the texts.
    """
    if max_length < num_specials or num_texts > max_sentences:
        raise ValueError(
            f"`max_length` must be at least {num_specials}, the special tokens of the "
            f"texts, and there must be at most {max_sentences} texts. Received: "
            f"max_length={max_length}, {num_texts} texts"
        )
    return max_length - num_specials


class IndexedLayout(Layout):
    """Base class of layouts with `[CLS]`, the texts in order, and a final `[SEP]`.

    Raises a ValueError if `max_length` exceeds the encoder's number of positions.
    """

    holds_spans = True

    def __init__(
        self, inputs: Any, encoder: Any, vocabulary: Any, max_length: int | None = None
    ):
        num_positions = encoder.index_tables.get("position_index")
        window = inputs.window_length if max_length is None else max_length
        if max_length is None:
            max_length = min(inputs.row_length, num_positions or inputs.row_length)
        elif num_positions is not None and max_length > num_positions:
            raise ValueError(
                "`max_length` must be at most the model's number of positions, "
                f"{num_positions}. Received: max_length={max_length}"
            )
        self.max_length = max_length
        self.text_capacity = TextCapacity(min(window, max_length) - NUM_SPECIAL_TOKENS)
        self.longest_part = max_length - NUM_SPECIAL_TOKENS
        self._special_ids = vocabulary.special_ids
        self._caps = encoder.index_caps

    @abc.abstractmethod
    def rows(self, trees: Trees, row_length: int | tf.Tensor | None = None) -> Features:
        """Lays out rows as in `Layout.rows`, padded to `row_length` if it is given."""

    def lay_out(
        self, examples: Sequence[Example], row_shape: RowShape
    ) -> dict[str, np.ndarray]:
        row_length, *candidates = row_shape
        # The candidates include `[CLS]` and `[SEP]`.
        num_columns = candidates[0] - 2 if candidates else max(map(len, examples))
        longest = max(map(self.num_tokens, examples))
        if longest > row_length:
            raise ValueError(
                f"`rows` must have at most {row_length} positions. Received: a row of "
                f"{longest}"
            )
        with tf.device("CPU"):
            rows = self.rows(trees_of(examples, num_columns), row_length)
        return {
            name: values.numpy() for name, values in self.read_features(rows).items()
        }

    def fits(self, example: Example) -> bool:
        limit = self.text_capacity.num_sentences
        if limit is not None and len(example) > limit:
            return False
        return self.num_tokens(example) <= self.max_length

    def piece_starts(self, example: Example) -> np.ndarray:
        lengths = np.array([len(segment.pieces) for segment in example])
        return 1 + np.cumsum(lengths) - lengths + self._specials_before(example)

    @classmethod
    def num_tokens(cls, example: Example) -> int:
        num_inside = int(cls._specials_before(example)[-1])
        return NUM_SPECIAL_TOKENS + num_inside + num_pieces(example)

    def _bucket(self, example: Example) -> int:
        return bucket_length(self.num_tokens(example), self.max_length)

    @staticmethod
    @abc.abstractmethod
    def _specials_before(example: Example) -> np.ndarray:
        """Counts the special tokens between `[CLS]` and the pieces of each segment."""


def row_features(
    pieces: tf.Tensor,
    piece: tf.Tensor,
    *,
    is_piece: tf.Tensor,
    specials: tf.Tensor,
    is_token: tf.Tensor,
    pad_id: int,
    indices: Mapping[str, tf.Tensor],
    caps: Mapping[str, int],
) -> dict[str, tf.Tensor]:
    """Returns `token_ids`, `padding_mask`, and each index in `caps`, below its cap.

    All tensors except `pieces` are `(B, L)`. Where `is_piece` is True, `piece` is the
    position of the token in `pieces`. Other tokens are in `specials`. Where `is_token`
    is False, the position is padding, and its indices are 0.
    """
    # One more column, for rows without pieces.
    pieces = tf.pad(pieces, [[0, 0], [0, 1]])
    tokens = tf.gather(pieces, tf.where(is_piece, piece, 0), batch_dims=1)
    tokens = tf.where(is_piece, tokens, specials)
    return {
        "token_ids": tf.where(is_token, tokens, pad_id),
        "padding_mask": is_token,
        **{
            name: tf.where(is_token, tf.minimum(indices[name], cap - 1), 0)
            for name, cap in caps.items()
        },
    }
