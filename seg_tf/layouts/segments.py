"""Examples as sentences of word pieces that were spelled before, in NumPy."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from seg_tf.layouts.trees import Trees


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """Word pieces of one text, or of one sentence of it, and their indices.

    Attributes:
        pieces: int array of ids; there may be none.
        text: which of the texts of an example, from 0.
        paragraph: paragraph index.
        sentence: sentence index in the paragraph.
        first_token: token index of the first piece, not 0 where a segment begins
            inside a sentence.
    """

    pieces: np.ndarray
    text: int = 0
    paragraph: int = 0
    sentence: int = 0
    first_token: int = 0


Example = Sequence[Segment]


def num_pieces(example: Example) -> int:
    """Pieces of all segments of an example."""
    return sum(len(segment.pieces) for segment in example)


def trees_of(examples: Sequence[Example], num_columns: int) -> Trees:
    """Examples as layouts take them, each segment a sentence.

    Args:
        examples: the segments of each.
        num_columns: columns for sentences, at least as many as an example has.
    """
    segments = [segment for example in examples for segment in example]
    counts = np.array([len(example) for example in examples])
    table = np.array(
        [
            (one.paragraph, one.sentence, one.first_token, one.text, len(one.pieces))
            for one in segments
        ],
        np.int32,
    )
    is_sentence = np.arange(num_columns) < counts[:, np.newaxis]
    padded = np.zeros((len(examples), num_columns, table.shape[1]), np.int32)
    padded[is_sentence] = table
    *indices, lengths = np.moveaxis(padded, 2, 0)
    num_pieces = lengths.sum(axis=1)
    pieces = np.zeros((len(examples), num_pieces.max()), np.int32)
    is_piece = np.arange(pieces.shape[1]) < num_pieces[:, np.newaxis]
    pieces[is_piece] = np.concatenate([one.pieces for one in segments])
    paragraphs, sentences, first_tokens, texts = map(tf.constant, indices)
    return Trees(
        pieces=tf.constant(pieces),
        sentence_lengths=tf.constant(lengths),
        num_sentences=tf.constant(counts, tf.int32),
        paragraphs=paragraphs,
        sentences=sentences,
        first_tokens=first_tokens,
        texts=texts,
    )
