"""Texts as `[CLS] [SENT] A [SENT] B [SEP]` (SLM and mixtures of it)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from seg_tf.finetuning.row_lengths import check_lengths, longest_row, room_beside
from seg_tf.finetuning.segments import Segment, num_pieces, trees_of
from seg_tf.inference.row_runner import sentence_inputs
from seg_tf.inference.rows import bucket_length
from seg_tf.layouts.sentences import NUM_SPECIAL_TOKENS, sentence_rows

if TYPE_CHECKING:
    from seg_tf.checkpoints.pretrained import Pretrained


class SentenceLayout:
    """Lays out a `[SENT]` before every segment, in the order of the text.

    That is `sentence_rows`, as in pretraining (SLM, section 2.1). Token types are the
    same for all but question answering (section 2.2).

    Args:
        pretrained: such a model.
        max_length: the most positions of a row; None takes those of pretraining.
        distinguishes_texts: whether the token type is the number of the text, not 0.

    Raises:
        ValueError: if the model embeds fewer positions, or was trained on other rows.
    """

    vectors_per_text = True

    def __init__(
        self,
        pretrained: Pretrained,
        max_length: int | None = None,
        distinguishes_texts: bool = False,
    ):
        self._max_sentences = sentence_inputs(pretrained).max_sentences
        self.max_length = longest_row(pretrained, max_length)
        self._distinguishes_texts = distinguishes_texts
        self._vocabulary = pretrained.vocabulary
        self._caps = pretrained.encoder.index_caps

    def room(self, num_texts: int) -> int:
        if num_texts > self._max_sentences:
            raise ValueError(
                "`texts` must be at most as many as the model takes sentences, "
                f"{self._max_sentences}. Received: {num_texts} texts"
            )
        return room_beside(2 + num_texts, self.max_length, num_texts)

    def row_shape(self, example: Sequence[Segment]) -> tuple[int, int]:
        length = bucket_length(_num_tokens(example), self.max_length)
        return length, len(example) + NUM_SPECIAL_TOKENS

    def lay_out(
        self, examples: Sequence[Sequence[Segment]], row_shape: tuple[int, int]
    ) -> dict[str, np.ndarray]:
        row_length, num_candidates = row_shape
        check_lengths(map(_num_tokens, examples), row_length)
        with tf.device("CPU"):
            trees = trees_of(examples, num_candidates - NUM_SPECIAL_TOKENS)
            if not self._distinguishes_texts:
                trees = trees.as_one_text()
            rows = sentence_rows(
                trees,
                special_ids=self._vocabulary.special_ids,
                sent_id=self._vocabulary.sent_id,
                row_length=row_length,
                caps=self._caps,
            )
        del rows["sentence_number"], rows["gold_candidates"]
        return {name: values.numpy() for name, values in rows.items()}

    def piece_starts(self, example: Sequence[Segment]) -> np.ndarray:
        """At which position of the row each segment's pieces begin."""
        lengths = np.array([len(segment.pieces) for segment in example])
        # Behind [CLS], and a [SENT] for each segment up to here.
        num_sents = np.arange(1, 1 + len(example))
        return 1 + np.cumsum(lengths) - lengths + num_sents


def _num_tokens(example: Sequence[Segment]) -> int:
    return num_pieces(example) + len(example) + NUM_SPECIAL_TOKENS
