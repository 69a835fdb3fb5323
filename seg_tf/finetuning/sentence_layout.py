"""Texts as `[CLS] [SENT] A [SENT] B [SEP]` (SLM and mixtures of it)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from seg_tf.finetuning.row_lengths import longest_row, room_beside
from seg_tf.finetuning.row_of_runs import Run, lay_out_runs
from seg_tf.finetuning.segments import Segment
from seg_tf.finetuning.window_layout import index_caps
from seg_tf.inference.row_runner import sentence_inputs
from seg_tf.inference.rows import bucket_length

if TYPE_CHECKING:
    from seg_tf.checkpoints.pretrained import Pretrained


class SentenceLayout:
    """Lays out a `[SENT]` before every segment, in the order of the text.

    For example, texts of the pieces [7, 8] and [9], the paragraphs 0 and 1, become

      tokens               [CLS]  [SENT]  7  8  [SENT]  9  [SEP]
      position_index           0       1  2  3       4  5      6
      sentence_id              0       1  1  1       2  2      3
      paragraph_index          0       0  0  0       1  1      1
      token_index              0       0  1  2       0  1      2
      candidate_positions      0  1  4  6

    as in pretraining (SLM, section 2.1). Token types are the same for all but question
    answering (section 2.2).

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
        self._caps = index_caps(pretrained)

    def room(self, num_texts: int) -> int:
        if num_texts > self._max_sentences:
            raise ValueError(
                "`texts` must be at most as many as the model takes sentences, "
                f"{self._max_sentences}. Received: {num_texts} texts"
            )
        return room_beside(2 + num_texts, self.max_length, num_texts)

    def row_shape(self, example: Sequence[Segment]) -> tuple[int, int]:
        length = sum(len(run.token_ids) for run in self._runs(example))
        return bucket_length(length, self.max_length), len(example) + 2

    def lay_out(
        self, examples: Sequence[Sequence[Segment]], row_shape: tuple[int, int]
    ) -> dict[str, np.ndarray]:
        row_length, num_candidates = row_shape
        rows = [list(self._runs(example)) for example in examples]
        features = lay_out_runs(rows, row_length, self._vocabulary.pad_id, self._caps)
        positions = np.zeros((len(rows), num_candidates), np.int32)
        mask = np.zeros((len(rows), num_candidates), bool)
        for row, runs in enumerate(rows):
            # Every run begins with its candidate.
            lengths = np.array([len(run.token_ids) for run in runs])
            positions[row, : len(runs)] = np.cumsum(lengths) - lengths
            mask[row, : len(runs)] = True
        return {**features, "candidate_positions": positions, "candidate_mask": mask}

    def piece_starts(self, example: Sequence[Segment]) -> np.ndarray:
        """At which position of the row each segment's pieces begin."""
        lengths = np.array([len(segment.pieces) for segment in example])
        # Behind [CLS], and a [SENT] for each segment up to here.
        num_sents = np.arange(1, 1 + len(example))
        return 1 + np.cumsum(lengths) - lengths + num_sents

    def _runs(self, example: Sequence[Segment]) -> Iterator[Run]:
        """`[CLS]`, the segments with their `[SENT]`, and `[SEP]`."""
        first, last = example[0], example[-1]
        yield Run([self._vocabulary.cls_id], 0, self._shared(first, 0))
        for number, segment in enumerate(example, start=1):
            token_ids = np.concatenate([[self._vocabulary.sent_id], segment.pieces])
            yield Run(token_ids, segment.first_token, self._shared(segment, number))
        behind = last.first_token + 1 + len(last.pieces)
        shared = self._shared(last, len(example) + 1)
        yield Run([self._vocabulary.sep_id], behind, shared)

    def _shared(self, segment: Segment, sentence_id: int) -> dict[str, int]:
        return {
            "sentence_id": sentence_id,
            "paragraph_index": segment.paragraph,
            "sentence_index": segment.sentence,
            "token_type": segment.text if self._distinguishes_texts else 0,
        }
