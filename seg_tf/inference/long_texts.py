"""Vectors of the sentences of a long text, in the context of as many as fit a row.

Shape key: S sentences, N parts of them, D width of the vectors.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.inference.example_vectors import ExampleVectors
from seg_tf.layouts import block_placing
from seg_tf.layouts.rows import Segment


@dataclasses.dataclass(frozen=True)
class EncodedText:
    """The sentences of a text, encoded.

    Attributes:
        vectors: float32 array `(S, D)`.
        num_parts: sentences, those that are too long counted by their parts.
        num_positions: positions that they take, special tokens included, padding left
            out.
        num_passes: how many times the model ran: stretches that do not see each other.
    """

    vectors: np.ndarray
    num_parts: int
    num_positions: int
    num_passes: int


class LongTexts:
    """Encodes texts of any length: those that fit into a row in one pass.

    A ReAT's row takes as many sentences as it has places for, of a chapter say; that of
    another encoder a window of pretraining. Vectors are those of `ExampleVectors`. A
    sentence that is too long for the model is encoded in parts, whose vectors are
    averaged: no word is left out. A text that does not fit into a row is encoded in
    stretches that do not see each other.

    Args:
        pretrained: an encoder of texts.

    Raises:
        ValueError: if it is another model.
    """

    def __init__(self, pretrained: Pretrained):
        self._vectors = ExampleVectors(pretrained)
        self._layout = self._vectors.layout
        self._word_pieces = pretrained.text_encoder()

    def encode(
        self, sentences: Sequence[str], paragraphs: Sequence[int] | None = None
    ) -> EncodedText:
        """Encodes the sentences of a text.

        Args:
            sentences: at least one, in order.
            paragraphs: number of the paragraph of each, from 0, rising; None is one
                paragraph.
        """
        pieces, lengths = self._word_pieces.encode(sentences)
        parts, number = block_placing.split_long(
            np.asarray(lengths), self._layout.longest_part
        )
        firsts = np.flatnonzero(number == 0)
        segments = _segments(
            np.split(pieces, np.cumsum(parts)[:-1]),
            np.cumsum(number == 0) - 1,
            np.zeros(len(firsts), int) if paragraphs is None else np.array(paragraphs),
        )
        vectors, num_positions = [], 0
        stretches = _stretches(
            number == 0, lambda begin: self._fitting(segments, begin)
        )
        for begin, end in stretches:
            stretch = segments[begin:end]
            vectors.append(self._vectors([stretch])[0])
            num_positions += self._layout.num_tokens(stretch)
        sums = np.add.reduceat(np.concatenate(vectors), firsts, axis=0)
        counts = np.diff(np.append(firsts, len(parts)))
        return EncodedText(
            vectors=sums / counts[:, np.newaxis].astype(np.float32),
            num_parts=len(parts),
            num_positions=num_positions,
            num_passes=len(vectors),
        )

    def _fitting(self, segments: Sequence[Segment], begin: int) -> int:
        """Number of parts from `begin` on that fit into a row; at least 1."""
        left = len(segments) - begin
        fewest, most = 1, min(2, left)
        while most < left and self._layout.fits(segments[begin : begin + most]):
            fewest, most = most, min(2 * most, left)
        while fewest < most:
            count = (fewest + most + 1) // 2
            if self._layout.fits(segments[begin : begin + count]):
                fewest = count
            else:
                most = count - 1
        return fewest


def _segments(
    pieces: Sequence[np.ndarray],
    sentences: np.ndarray,
    paragraphs: np.ndarray,
) -> list[Segment]:
    """Parts with their indices.

    Args:
        pieces: of each part.
        sentences: number of the sentence of each part.
        paragraphs: number of the paragraph of each sentence.
    """
    begins = np.flatnonzero(np.diff(paragraphs, prepend=-1))
    in_paragraph = np.arange(len(paragraphs)) - np.repeat(
        begins, np.diff(np.append(begins, len(paragraphs)))
    )
    segments: list[Segment] = []
    first_token = 0
    for number, (of_part, sentence) in enumerate(
        zip(pieces, sentences.tolist(), strict=True)
    ):
        if number and sentence != sentences[number - 1]:
            first_token = 0
        segments.append(
            Segment(
                of_part,
                paragraph=int(paragraphs[sentence]),
                sentence=int(in_paragraph[sentence]),
                first_token=first_token,
            )
        )
        first_token += len(of_part)
    return segments


def _stretches(
    is_begin: np.ndarray, longest: Callable[[int], int]
) -> list[tuple[int, int]]:
    """Few stretches of sentences, about equally long, so that none lacks context.

    Where it can be, a stretch ends with a sentence, not with a part of one.

    Args:
        is_begin: bool `(N,)`, where a sentence begins.
        longest: the most parts of a stretch that begins at a part.
    """
    begins = np.append(np.flatnonzero(is_begin), len(is_begin))
    stretches, begin = [], 0
    while begin < len(is_begin):
        most = longest(begin)
        left = len(is_begin) - begin
        num_left = -(-left // most)
        # From an equal share on, the first end of a sentence; or the last before, but
        # no orphan; or the share.
        share = begin - (-left // num_left)
        after = int(begins[np.searchsorted(begins, share)])
        before = int(begins[np.searchsorted(begins, share, side="right") - 1])
        if after <= begin + most:
            end = after
        else:
            end = before if 2 * before >= begin + share else share
        stretches.append((begin, end))
        begin = end
    return stretches
