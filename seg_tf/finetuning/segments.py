"""Texts as word pieces, made offline and cut to what a row takes.

Shape key: E examples, T texts of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from seg_tf.layouts.rows import Segment
from seg_tf.preprocessing.text_preprocessor import cut_longest

if TYPE_CHECKING:
    from seg_tf.text.encoding import TextEncoder


class EncodedTexts(Sequence):
    """Examples of one or more texts as segments, one for each text.

    In fine-tuning every text is a paragraph of its own, of one sentence (SegaBERT,
    sections 2.3 and 3.2).

    Args:
        pieces: int array, the pieces of all texts, one behind the other.
        lengths: int array `(E, T)`, the pieces of each.
        room: the most pieces of an example; of those that have more the longest texts
            are cut.

    Attributes:
        lengths: int array `(E, T)`, pieces that are left of each.
        num_cut: examples that were cut.
    """

    def __init__(self, pieces: np.ndarray, lengths: np.ndarray, room: int):
        self._pieces = pieces
        ends = np.cumsum(lengths).reshape(lengths.shape)
        self._starts = ends - lengths
        with tf.device("CPU"):
            kept = cut_longest(tf.constant(lengths, tf.int32), room)
        self.lengths = kept.numpy()
        self.num_cut = int((self.lengths < lengths).any(axis=1).sum())

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: int) -> tuple[Segment, ...]:
        texts = zip(
            self._starts[number].tolist(), self.lengths[number].tolist(), strict=True
        )
        return tuple(
            Segment(self._pieces[start : start + length], text, paragraph=text)
            for text, (start, length) in enumerate(texts)
        )


def is_text(values: Any) -> bool:
    """Returns True for texts or tuples of texts, maybe none; False for batches."""
    if not isinstance(values, Sequence | np.ndarray):
        return False
    if not len(values):
        return True
    first = values[0]
    return isinstance(first, str) or (
        isinstance(first, Sequence) and all(isinstance(one, str) for one in first)
    )


def as_tuples(texts: Sequence[str | Sequence[str]]) -> list[tuple[str, ...]]:
    """Examples as tuples of texts, all of as many; a string is an example of one.

    Raises:
        ValueError: if there is no example, or they differ in their number of texts.
    """
    if isinstance(texts, str):
        raise ValueError(
            "`texts` must be a sequence of examples, each a text or a tuple of texts. "
            f"Received: the string {texts[:50]!r}"
        )
    tuples = [_as_tuple(one, number) for number, one in enumerate(texts)]
    if not tuples:
        raise ValueError("`texts` must hold at least one example. Received: none")
    for number, one in enumerate(tuples):
        if len(one) != len(tuples[0]) or not one:
            raise ValueError(
                "`texts` must hold examples of equally many texts, at least one. "
                f"Received: texts[{number}] of {len(one)}, texts[0] of {len(tuples[0])}"
            )
    return tuples


def _as_tuple(example: Any, number: int) -> tuple[str, ...]:
    if isinstance(example, str):
        return (example,)
    is_sequence = isinstance(example, Sequence | np.ndarray)
    if not is_sequence or not all(isinstance(one, str) for one in example):
        raise ValueError(
            "`texts` must hold texts or tuples of texts. Received: "
            f"texts[{number}]={example!r}"
        )
    return tuple(example)


def encode_texts(
    text_encoder: TextEncoder, texts: Sequence[tuple[str, ...]], room: int
) -> EncodedTexts:
    """Spells every text in word pieces, once.

    Args:
        text_encoder: that of the checkpoint.
        texts: what `as_tuples` returned.
        room: the most pieces of an example.
    """
    pieces, lengths = text_encoder.encode([text for one in texts for text in one])
    shape = (len(texts), len(texts[0]))
    return EncodedTexts(pieces, np.asarray(lengths, np.int64).reshape(shape), room)
