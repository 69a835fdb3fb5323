"""Places of sentences in blocks, in NumPy (ReAT).

Batches are planned before any row is laid out, so this part is also needed outside the
graph (`seg_tf.layouts.blocks`).

Shape key: R rows, N sentences of a row, L row length, T block length.
"""

import dataclasses
from typing import Self

import numpy as np

from seg_tf.text.vocabulary import Vocabulary

# <SS>, <Attn> and </s>.
NUM_SPECIAL_TOKENS = 3


@dataclasses.dataclass(frozen=True)
class SpecialIds:
    """Vocabulary ids of `<SS>`, `<Attn>`, `</s>` and padding."""

    ss: int
    attention: int
    end: int
    pad: int

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Self:
        """The ids of a vocabulary; a ValueError if it has no row for `<Attn>`."""
        return cls(
            ss=vocabulary.cls_id,
            attention=vocabulary.attention_id,
            end=vocabulary.sep_id,
            pad=vocabulary.pad_id,
        )


def split_long(lengths: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Cuts sentences of `lengths` `(S,)` that are too long into even parts.

    For example, lengths [3, 10] with at most 4 become [3, 4, 3, 3], the parts
    [0, 0, 1, 2] of their sentences.
    """
    num_parts = np.maximum(-(-lengths // longest), 1)
    whole, parts = np.repeat(lengths, num_parts), np.repeat(num_parts, num_parts)
    first_parts = np.repeat(np.cumsum(num_parts) - num_parts, num_parts)
    part = np.arange(len(parts)) - first_parts
    return whole // parts + (part < whole % parts), part


def place_in_blocks(
    lengths: np.ndarray, num_blocks: int, block_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """First position of each sentence of a row, so that none spans two blocks.

    First-fit decreasing: the longest first, each into the first block with room. Rows
    that are half full always succeed; of real sentences, with 30 positions on average
    in blocks of 128, so do nearly all rows with a fill of 0.98.

    Args:
        lengths: int array `(R, N)`, positions of each sentence, at most T; 0 at
            padding.
        num_blocks: L / T.
        block_length: T.

    Returns:
        int array `(R, N)`, the starts, 0 at padding; and bool array `(R,)`, whether all
        sentences fit. Starts of other rows are meaningless.
    """
    rows = np.arange(len(lengths))
    used = np.zeros((len(lengths), num_blocks), np.int32)
    starts = np.zeros(lengths.shape, np.int32)
    succeeded = np.ones(len(lengths), bool)
    order = np.argsort(-lengths, axis=1, kind="stable")
    for sentence in order.T:
        length = lengths[rows, sentence]
        if not length.any():
            break
        has_room = used + length[:, np.newaxis] <= block_length
        block = has_room.argmax(axis=1)
        succeeded &= has_room[rows, block]
        start = block * block_length + used[rows, block]
        starts[rows, sentence] = np.where(length > 0, start, 0)
        used[rows, block] += length
    return starts, succeeded


def place_in_fewest_blocks(
    lengths: np.ndarray, block_length: int
) -> tuple[np.ndarray, int]:
    """First positions of one row's sentences in the fewest blocks, and their number.

    More blocks would not change the positions.
    """
    num_blocks = max(1, -(-int(lengths.sum()) // block_length))
    while True:
        starts, succeeded = place_in_blocks(
            lengths[np.newaxis], num_blocks, block_length
        )
        if succeeded.all():
            return starts[0], num_blocks
        num_blocks += 1
