"""Texts as the sentences of one text, `<SS> <Attn> words </s>` each (ReAT)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from seg_tf.finetuning.row_lengths import room_beside
from seg_tf.finetuning.segments import Segment
from seg_tf.layouts import block_placing, blocks

if TYPE_CHECKING:
    from seg_tf.checkpoints.pretrained import Pretrained


class BlockLayout:
    """Lays out each segment as a sentence; those of a row are one text and meet.

    For example, texts of the pieces [7, 8] and [9] become, with blocks of 10,

      tokens             <SS> <Attn> 7  8  </s>  <SS> <Attn> 9  </s>  [PAD]
      position_index       0     1   2  3    4     0     1   2    3     0
      sentence_number      1     1   1  1    1     2     2   2    2     0
      text_number          1     1   1  1    1     1     1   1    1     0
      sentence_position    0     0   0  0    0     1     1   1    1     0
      sentence_starts      0  5
      given_text           1  2

    A segment too long for a block is laid out in even parts, each a sentence.

    Args:
        pretrained: a ReAT.
        max_length: the most positions of an example, special tokens of its texts
            included, those of parts not; None takes as many as the model has places
            for.
    """

    vectors_per_text = True

    def __init__(self, pretrained: Pretrained, max_length: int | None = None):
        encoder = pretrained.encoder
        self._block_length = encoder.block_length
        self._max_sentences = encoder.max_sentences
        self._longest_part = encoder.block_length - block_placing.NUM_SPECIAL_TOKENS
        places = encoder.max_sentences * encoder.block_length
        self.max_length = places if max_length is None else max_length
        self._special_ids = block_placing.SpecialIds.of(pretrained.vocabulary)

    def room(self, num_texts: int) -> int:
        if num_texts > self._max_sentences:
            raise ValueError(
                "`texts` must be at most as many as the model takes sentences, "
                f"{self._max_sentences}. Received: {num_texts} texts"
            )
        num_specials = block_placing.NUM_SPECIAL_TOKENS * num_texts
        wanted = room_beside(num_specials, self.max_length, num_texts)
        # Whatever their lengths, texts of so many pieces have no more parts than the
        # model has places: each wastes less than a part.
        most = self._longest_part * (self._max_sentences - num_texts) + num_texts
        return min(wanted, most)

    def row_shape(self, example: Sequence[Segment]) -> tuple[int, int]:
        parts, _ = self._parts(example)
        _, num_blocks = self._place(parts)
        # Keras warns of attention to one place alone, which one sentence is.
        slots = max(2, 1 << (len(parts) - 1).bit_length())
        return _few(num_blocks), slots

    def lay_out(
        self, examples: Sequence[Sequence[Segment]], row_shape: tuple[int, int]
    ) -> dict[str, np.ndarray]:
        num_blocks, num_slots = row_shape
        capacity = num_blocks * self._block_length
        numbers = {
            name: np.zeros((len(examples), num_slots), np.int32)
            for name in ("lengths", "starts", "given_text")
        }
        pieces = np.zeros((len(examples), capacity), np.int32)
        for row, example in enumerate(examples):
            parts, text_of_part = self._parts(example)
            starts, _ = self._place(parts)
            joined = np.concatenate([one.pieces for one in example])
            pieces[row, : len(joined)] = joined
            numbers["lengths"][row, : len(parts)] = parts
            numbers["starts"][row, : len(parts)] = starts
            numbers["given_text"][row, : len(parts)] = 1 + text_of_part
        given_text = numbers.pop("given_text")
        with tf.device("CPU"):
            rows = blocks.as_one_text(
                blocks.lay_out(
                    pieces=tf.constant(pieces),
                    **{name: tf.constant(array) for name, array in numbers.items()},
                    is_sentence=tf.constant(given_text > 0),
                    row_length=capacity,
                    special_ids=self._special_ids,
                )
            )
        del rows["padding_mask"]
        return {
            **{name: values.numpy() for name, values in rows.items()},
            "sentence_starts": numbers["starts"],
            "sentence_mask": given_text > 0,
            "given_text": given_text,
        }

    def _parts(self, example: Sequence[Segment]) -> tuple[np.ndarray, np.ndarray]:
        """Pieces of each part, and which text it belongs to."""
        lengths = np.array([len(segment.pieces) for segment in example])
        parts, number = block_placing.split_long(lengths, self._longest_part)
        if len(parts) > self._max_sentences:
            raise ValueError(
                "`example` must have at most as many sentences, or parts of them, as "
                f"the model has places, {self._max_sentences}. Received: {len(parts)}"
            )
        texts = np.array([segment.text for segment in example])
        return parts, texts[np.cumsum(number == 0) - 1]

    def _place(self, parts: np.ndarray) -> tuple[np.ndarray, int]:
        return block_placing.place_in_fewest_blocks(
            parts + block_placing.NUM_SPECIAL_TOKENS, self._block_length
        )


def _few(number: int) -> int:
    """The next number of few: 1 to 8, 10, 12, 14, 16, 20, 24, and so on."""
    step = max(1, (1 << (number - 1).bit_length()) // 8)
    return -(-number // step) * step
