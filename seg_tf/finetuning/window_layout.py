"""Texts as `[CLS] A [SEP] B [SEP]` (BERT, BERT with P.S., SegaBERT)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from seg_tf.finetuning.row_lengths import longest_row, room_beside
from seg_tf.finetuning.row_of_runs import Run, lay_out_runs
from seg_tf.finetuning.segments import Segment
from seg_tf.inference.rows import bucket_length

if TYPE_CHECKING:
    from seg_tf.checkpoints.pretrained import Pretrained


class WindowLayout:
    """Lays out `[CLS]` and each text with a `[SEP]` behind it.

    For example, texts of the pieces [7, 8] and [9], the paragraphs 0 and 1, become

      tokens           [CLS]  7  8  [SEP]  9  [SEP]
      position_index       0  1  2      3  4      5
      paragraph_index      0  0  0      0  1      1
      sentence_index       0  0  0      0  0      0
      token_index          0  0  1      2  0      1
      token_type           0  0  0      0  1      1

    `[CLS]` takes the indices of the first piece, `[SEP]` those of the piece before it,
    its token index one higher; all stay below the rows of their tables (SegaBERT,
    section 3.2, and the indices of pretraining).

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
        self._caps = index_caps(pretrained)

    def room(self, num_texts: int) -> int:
        return room_beside(1 + num_texts, self.max_length, num_texts)

    def row_shape(self, example: Sequence[Segment]) -> tuple[int]:
        length = sum(len(run.token_ids) for run in self._runs(example))
        return (bucket_length(length, self.max_length),)

    def lay_out(
        self, examples: Sequence[Sequence[Segment]], row_shape: tuple[int]
    ) -> dict[str, np.ndarray]:
        rows = [list(self._runs(example)) for example in examples]
        return lay_out_runs(rows, *row_shape, self._vocabulary.pad_id, self._caps)

    def piece_starts(self, example: Sequence[Segment]) -> np.ndarray:
        """At which position of the row each segment's pieces begin."""
        lengths = np.array([len(segment.pieces) for segment in example])
        texts = np.array([segment.text for segment in example])
        # Behind [CLS], and a [SEP] for each text before.
        num_separators = np.concatenate([[0], np.cumsum(texts[1:] != texts[:-1])])
        return 1 + np.cumsum(lengths) - lengths + num_separators

    def _runs(self, example: Sequence[Segment]) -> Iterator[Run]:
        first = example[0]
        yield Run([self._vocabulary.cls_id], first.first_token, _shared(first))
        for _, of_text in itertools.groupby(example, lambda one: one.text):
            for segment in of_text:
                yield Run(segment.pieces, segment.first_token, _shared(segment))
            behind = segment.first_token + len(segment.pieces)
            yield Run([self._vocabulary.sep_id], behind, _shared(segment))


def index_caps(pretrained: Pretrained) -> dict[str, int]:
    """Rows of every table that an encoder looks indices up in."""
    encoder = pretrained.encoder
    types = {"token_type": encoder.num_token_types} if encoder.num_token_types else {}
    return {**encoder.index_tables, **types}


def _shared(segment: Segment) -> dict[str, int]:
    return {
        "paragraph_index": segment.paragraph,
        "sentence_index": segment.sentence,
        "token_type": segment.text,
    }
