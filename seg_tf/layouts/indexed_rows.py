"""Rows whose positions are told by the indices that the encoder embeds.

Shape key: B rows, L row length.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.layouts import row_lengths
from seg_tf.layouts.layout import Features, Layout, RowShape, TextCapacity
from seg_tf.layouts.segments import Example, num_pieces, trees_of
from seg_tf.layouts.trees import Trees

# Of one text, beside those of its sentences: `[CLS]` and `[SEP]`.
NUM_SPECIAL_TOKENS = 2


class IndexedLayout(Layout):
    """`[CLS]`, the pieces in the order of the text and special tokens, `[SEP]`.

    Args:
        inputs: config of the rows of pretraining.
        encoder: of such a model.
        vocabulary: of the model.
        max_length: the most positions of a row; None takes those of pretraining.

    Raises:
        ValueError: if the model embeds fewer positions.
    """

    holds_spans = True

    def __init__(
        self, inputs: Any, encoder: Any, vocabulary: Any, max_length: int | None = None
    ):
        self.max_length = row_lengths.longest_row(
            inputs.row_length, encoder, max_length
        )
        self.text_capacity = TextCapacity(inputs.window_length - NUM_SPECIAL_TOKENS)
        self.longest_part = self.max_length - NUM_SPECIAL_TOKENS
        self._special_ids = vocabulary.special_ids
        self._caps = encoder.index_caps

    @abc.abstractmethod
    def rows(self, trees: Trees, row_length: int | tf.Tensor | None = None) -> Features:
        """As `Layout.rows`, or of a given length, which the tokens have to fit."""

    def lay_out(
        self, examples: Sequence[Example], row_shape: RowShape
    ) -> dict[str, np.ndarray]:
        row_length, *candidates = row_shape
        # `[CLS]` and `[SEP]` are among the candidates.
        num_columns = candidates[0] - 2 if candidates else max(map(len, examples))
        row_lengths.check_lengths(map(self.num_tokens, examples), row_length)
        with tf.device("CPU"):
            rows = self.rows(trees_of(examples, num_columns), row_length)
        return {
            name: values.numpy() for name, values in self.read_features(rows).items()
        }

    def fits(self, example: Example) -> bool:
        most = self.text_capacity.num_sentences
        is_few = most is None or len(example) <= most
        return is_few and self.num_tokens(example) <= self.max_length

    def piece_starts(self, example: Example) -> np.ndarray:
        lengths = np.array([len(segment.pieces) for segment in example])
        return 1 + np.cumsum(lengths) - lengths + self._specials_before(example)

    @classmethod
    def num_tokens(cls, example: Example) -> int:
        num_inside = int(cls._specials_before(example)[-1])
        return NUM_SPECIAL_TOKENS + num_inside + num_pieces(example)

    def _bucket(self, example: Example) -> int:
        return row_lengths.bucket_length(self.num_tokens(example), self.max_length)

    @staticmethod
    @abc.abstractmethod
    def _specials_before(example: Example) -> np.ndarray:
        """Special tokens between `[CLS]` and the pieces of each segment."""


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
    """`token_ids`, `padding_mask` and the indices that `caps` names, below their cap.

    At a position, in tensors `(B, L)`, is the `piece` of that number of the row, or,
    where not `is_piece`, one of `specials`, or, where not `is_token`, padding, whose
    indices are 0.
    """
    # One more, for rows without a piece.
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
