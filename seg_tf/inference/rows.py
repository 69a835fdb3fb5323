"""Rows of sentences as word pieces, and how they are put together to batches.

Shape key: B rows, P pieces of a row, M sentences of a row.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from seg_tf.inference import texts
from seg_tf.inference.texts import Sentence

# `[CLS]` and `[SEP]`, and `[SENT]` before each sentence.
_SPECIAL_TOKENS = 2
_SENT_TOKENS = 1
_SHORTEST_BUCKET = 16


@dataclasses.dataclass(frozen=True)
class Row:
    """The sentences of one row, in the order in which the model shall read them.

    Attributes:
        pieces: int32 ids of each sentence; a sentence may have none.
        paragraphs: paragraph index of each.
        sentences: sentence index of each.
    """

    pieces: tuple[np.ndarray, ...]
    paragraphs: tuple[int, ...]
    sentences: tuple[int, ...]

    @property
    def num_tokens(self) -> int:
        """Positions that the row takes."""
        return _SPECIAL_TOKENS + sum(map(num_tokens, self.pieces))


def num_tokens(pieces: np.ndarray) -> int:
    """Positions that a sentence takes in a row."""
    return _SENT_TOKENS + len(pieces)


def room(row_length: int) -> int:
    """Positions of a row that sentences can take."""
    return row_length - _SPECIAL_TOKENS


def cut(pieces: np.ndarray, row_length: int) -> np.ndarray:
    """As much of a sentence as goes into a row; the same array if that is all."""
    longest = room(row_length) - _SENT_TOKENS
    return pieces[:longest] if len(pieces) > longest else pieces


def make_row(sentences: Sequence[Sentence], pieces: Sequence[np.ndarray]) -> Row:
    """The row of consecutive sentences, whose indices start at 0."""
    paragraphs, numbers = texts.indices(sentences)
    return Row(tuple(pieces), tuple(paragraphs), tuple(numbers))


def bucket_length(num_tokens: int, longest: int) -> int:
    """The row length that rows of so many tokens are padded to.

    There are few lengths, each of which is compiled once. Behind the shortest, less
    than a fifth of a row is padding, and 8 % if all lengths are equally frequent.

    Args:
        num_tokens: positions that are needed, at most `longest`.
        longest: the longest row of the model.
    """
    step = max(_SHORTEST_BUCKET, (1 << (num_tokens - 1).bit_length()) // 8)
    return min(-(-num_tokens // step) * step, longest)


def batches(
    rows: Sequence[Row], longest: int, tokens_per_batch: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Puts rows of about the same length together.

    Args:
        rows: any rows.
        longest: the longest row of the model.
        tokens_per_batch: about how many positions a batch has, padding included.

    Yields:
        The length that the rows of a batch are padded to, and their numbers. Every
        row is in one batch.
    """
    lengths = np.array([bucket_length(row.num_tokens, longest) for row in rows], int)
    for length in np.unique(lengths):
        numbers = np.flatnonzero(lengths == length)
        size = max(1, tokens_per_batch // int(length))
        for begin in range(0, len(numbers), size):
            yield int(length), numbers[begin : begin + size]


def pad(
    rows: Sequence[Row], max_sentences: int, row_length: int
) -> dict[str, np.ndarray]:
    """Rows as fields of `seg_tf.layouts.trees.Trees`.

    Args:
        rows: B of them.
        max_sentences: M.
        row_length: P, more than there can be.

    Returns:
        int32 arrays by the names of the fields.
    """
    numbers = {
        name: np.zeros((len(rows), max_sentences), np.int32)
        for name in ("sentence_lengths", "paragraphs", "sentences")
    }
    pieces = np.zeros((len(rows), row_length), np.int32)
    for at, row in enumerate(rows):
        count = len(row.pieces)
        joined = np.concatenate(row.pieces)
        pieces[at, : len(joined)] = joined
        numbers["sentence_lengths"][at, :count] = [len(one) for one in row.pieces]
        numbers["paragraphs"][at, :count] = row.paragraphs
        numbers["sentences"][at, :count] = row.sentences
    return {
        "pieces": pieces,
        "num_sentences": np.array([len(row.pieces) for row in rows], np.int32),
        **numbers,
    }
