"""Texts as `[CLS] A [SEP] B [SEP]` (BERT, BERT with P.S., SegaBERT)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from seg_tf.finetuning.row_lengths import check_lengths, longest_row, room_beside
from seg_tf.finetuning.segments import Segment, num_pieces, trees_of
from seg_tf.inference.rows import bucket_length
from seg_tf.layouts.windows import window_rows

if TYPE_CHECKING:
    from seg_tf.checkpoints.pretrained import Pretrained


class WindowLayout:
    """Lays out `[CLS]` and each text with a `[SEP]` after it: `window_rows`.

    Args:
        pretrained: such a model.
        max_length: the most positions of a row; None takes those of pretraining.

    Raises:
        ValueError: if the model embeds fewer positions.
    """

    vectors_per_text = False

    def __init__(self, pretrained: Pretrained, max_length: int | None = None):
        self.max_length = longest_row(pretrained, max_length)
        self._vocabulary = pretrained.vocabulary
        self._caps = pretrained.encoder.index_caps

    def room(self, num_texts: int) -> int:
        return room_beside(1 + num_texts, self.max_length, num_texts)

    def row_shape(self, example: Sequence[Segment]) -> tuple[int]:
        return (bucket_length(_num_tokens(example), self.max_length),)

    def lay_out(
        self, examples: Sequence[Sequence[Segment]], row_shape: tuple[int]
    ) -> dict[str, np.ndarray]:
        (row_length,) = row_shape
        check_lengths(map(_num_tokens, examples), row_length)
        with tf.device("CPU"):
            rows = window_rows(
                trees_of(examples, max(map(len, examples))),
                special_ids=self._vocabulary.special_ids,
                row_length=row_length,
                caps=self._caps,
            )
        del rows["sentence_number"]
        return {name: values.numpy() for name, values in rows.items()}

    def piece_starts(self, example: Sequence[Segment]) -> np.ndarray:
        """At which position of the row each segment's pieces begin."""
        lengths = np.array([len(segment.pieces) for segment in example])
        texts = np.array([segment.text for segment in example])
        # Behind [CLS], and a [SEP] for each text before.
        num_separators = np.concatenate([[0], np.cumsum(texts[1:] != texts[:-1])])
        return 1 + np.cumsum(lengths) - lengths + num_separators


def _num_tokens(example: Sequence[Segment]) -> int:
    return num_pieces(example) + 1 + len({segment.text for segment in example})
