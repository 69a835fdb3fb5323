"""Rows of sentences (SLM) as examples, and how they are put together to batches."""

from collections.abc import Iterator, Sequence

import numpy as np

from seg_tf.inference import texts
from seg_tf.inference.texts import Sentence
from seg_tf.layouts.rows import NUM_SPECIAL_TOKENS, Example, Segment, bucket_length
from seg_tf.layouts.sentences import SentenceLayout

_SENT_TOKENS = 1


def num_tokens(pieces: np.ndarray) -> int:
    """Positions that a sentence takes in a row."""
    return _SENT_TOKENS + len(pieces)


def capacity(row_length: int) -> int:
    """Positions of a row that sentences can take."""
    return row_length - NUM_SPECIAL_TOKENS


def cut(pieces: np.ndarray, row_length: int) -> np.ndarray:
    """As much of a sentence as goes into a row; the same array if that is all."""
    longest = capacity(row_length) - _SENT_TOKENS
    return pieces[:longest] if len(pieces) > longest else pieces


def make_row(given: Sequence[Sentence], pieces: Sequence[np.ndarray]) -> Example:
    """The row of consecutive sentences, whose indices start at 0.

    Args:
        given: the sentences, in the order in which the model reads them.
        pieces: int32 ids of each; a sentence may have none.
    """
    return tuple(
        Segment(of_sentence, paragraph=paragraph, sentence=number)
        for of_sentence, paragraph, number in zip(
            pieces, *texts.indices(given), strict=True
        )
    )


def batches(
    rows: Sequence[Example], longest: int, tokens_per_batch: int
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
    lengths = np.array(
        [bucket_length(SentenceLayout.num_tokens(row), longest) for row in rows], int
    )
    for length in np.unique(lengths):
        numbers = np.flatnonzero(lengths == length)
        size = max(1, tokens_per_batch // int(length))
        for begin in range(0, len(numbers), size):
            yield int(length), numbers[begin : begin + size]
