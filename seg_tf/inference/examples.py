"""Rows of word pieces for an encoder of texts: sentences, texts and long documents."""

import re
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from seg_tf.layouts.layout import Layout
from seg_tf.layouts.rows import Example, Segment
from seg_tf.preprocessing.segments import cut_longest
from seg_tf.text.encoding import TextEncoder
from seg_tf.text.punkt import Splitter

# Blanks are white space in every normalization, so word pieces do not cross them.
_WORD = re.compile(r"[^ \t\r]+")


def make_example(
    pieces: Sequence[np.ndarray], paragraphs: Sequence[int]
) -> tuple[Segment, ...]:
    """Returns a row of consecutive sentences, whose indices start at 0.

    Args:
        pieces: word pieces of each sentence.
        paragraphs: paragraph of each sentence, rising.
    """
    segments: list[Segment] = []
    sentence, previous = 0, None
    for ids, paragraph in zip(pieces, paragraphs, strict=True):
        sentence = sentence + 1 if paragraph == previous else 0
        previous = paragraph
        segments.append(
            Segment(ids, paragraph=int(paragraph - paragraphs[0]), sentence=sentence)
        )
    return tuple(segments)


def renumbered(paragraphs: Sequence[int]) -> list[int]:
    """Rising numbers without gaps."""
    return np.unique(paragraphs, return_inverse=True)[1].tolist()


def text_examples(
    text_encoder: TextEncoder, rows: Sequence[tuple[str, ...]], capacity: int
) -> tuple[list[Example], int]:
    """Returns rows of texts, and how many were too long and cut.

    In fine-tuning each text is a paragraph of one sentence (SegaBERT, sections 2.3 and
    3.2). The longest text of a row is cut first.

    Args:
        text_encoder: that of the checkpoint.
        rows: texts of each row, the same number in all.
        capacity: maximum number of pieces of a row.
    """
    ids, counts = text_encoder.encode([text for row in rows for text in row])
    lengths = np.asarray(counts, np.int64).reshape(len(rows), len(rows[0]))
    starts = np.cumsum(lengths).reshape(lengths.shape) - lengths
    with tf.device("CPU"):
        short = cut_longest(tf.constant(lengths, tf.int32), capacity).numpy()
    examples = [
        tuple(
            Segment(ids[start : start + length], text, paragraph=text)
            for text, (start, length) in enumerate(zip(*row, strict=True))
        )
        for row in zip(starts.tolist(), short.tolist(), strict=True)
    ]
    return examples, int((short < lengths).any(axis=1).sum())


def locate_pieces(
    document: str, splitter: Splitter, text_encoder: TextEncoder
) -> tuple[tuple[Segment, ...], np.ndarray]:
    """Returns the sentences of a document, and where their word pieces come from.

    Args:
        document: a text whose lines are paragraphs.
        splitter: splits a line into sentences.
        text_encoder: that of the checkpoint.

    Returns:
        The sentences that have pieces; and for each piece start and stop of its word,
        in characters of the document: int array `(number of pieces, 2)`.

    Raises:
        ValueError: if there is no piece.
    """
    words, sentence_numbers, paragraphs = [], [], []
    for paragraph, line in enumerate(re.finditer(r"[^\n]+", document)):
        for start, stop in splitter.spans(line[0]):
            for word in _WORD.finditer(line[0], start, stop):
                words.append((line.start() + word.start(), line.start() + word.end()))
                sentence_numbers.append(len(paragraphs))
            paragraphs.append(paragraph)
    ids, lengths = text_encoder.encode([document[start:stop] for start, stop in words])
    if not len(ids):
        raise ValueError("`document` must hold a word. Received: none")
    numbers, counts = np.unique(
        np.repeat(sentence_numbers, lengths), return_counts=True
    )
    example = make_example(
        np.split(ids, np.cumsum(counts)[:-1]),
        renumbered([paragraphs[number] for number in numbers]),
    )
    return example, np.repeat(words, lengths, axis=0)


# === Documents longer than a row ===


def split_long(example: Example, longest_part: int) -> tuple[list[Segment], np.ndarray]:
    """Splits long sentences into even parts.

    Returns:
        The parts, and a bool array, True where a part starts a sentence.
    """
    segments: list[Segment] = []
    is_start = []
    for segment in example:
        first_token = 0
        num_parts = max(1, -(-len(segment.pieces) // longest_part))
        for number, ids in enumerate(np.array_split(segment.pieces, num_parts)):
            segments.append(
                Segment(
                    ids,
                    paragraph=segment.paragraph,
                    sentence=segment.sentence,
                    first_token=first_token,
                )
            )
            is_start.append(number == 0)
            first_token += len(ids)
    return segments, np.array(is_start)


def even_rows(
    layout: Layout, segments: Sequence[Segment], is_start: np.ndarray
) -> list[tuple[int, int]]:
    """Ranges of a document for few rows of similar length.

    Where possible, a row ends at the end of a sentence.

    Args:
        layout: layout of the rows.
        segments: parts of sentences.
        is_start: which of them start a sentence.
    """
    starts = np.append(np.flatnonzero(is_start), len(segments))
    rows, begin = [], 0
    while begin < len(segments):
        most = _num_fitting(layout, segments, begin)
        left = len(segments) - begin
        # An equal share, rounded up to the end of a sentence if it fits, else down
        # unless less than half of the share remains.
        share = begin - (-left // -(-left // most))
        after = int(starts[np.searchsorted(starts, share)])
        before = int(starts[np.searchsorted(starts, share, side="right") - 1])
        if after <= begin + most:
            end = after
        else:
            end = before if 2 * before >= begin + share else share
        rows.append((begin, end))
        begin = end
    return rows


def overlapping_rows(
    layout: Layout, segments: Sequence[Segment]
) -> list[tuple[int, int]]:
    """Ranges of a document for rows as long as possible, each overlapping the next."""
    rows, begin = [], 0
    while True:
        end = begin + _num_fitting(layout, segments, begin)
        rows.append((begin, end))
        if end == len(segments):
            return rows
        begin = (begin + end + 1) // 2


def _num_fitting(layout: Layout, segments: Sequence[Segment], begin: int) -> int:
    """Number of segments from `begin` on that fit in a row; at least 1."""
    left = len(segments) - begin
    fewest, most = 1, min(2, left)
    while most < left and layout.fits(segments[begin : begin + most]):
        fewest, most = most, min(2 * most, left)
    while fewest < most:
        count = (fewest + most + 1) // 2
        if layout.fits(segments[begin : begin + count]):
            fewest = count
        else:
            most = count - 1
    return fewest
