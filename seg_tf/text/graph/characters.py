"""Texts as flat tensors of characters, and their beginnings as trees, in the graph.

Shape key: B texts, N characters of all, S sentences, P pieces of a text, M sentences
of a text, G paragraphs of a text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import tensorflow as tf

from seg_tf.text.marked_positions import MarkedPositions, shifted

if TYPE_CHECKING:
    from seg_tf.text.graph.pieces import GraphWordPieces
    from seg_tf.text.graph.sentences import GraphSentenceSplitter


@dataclasses.dataclass(frozen=True)
class FlatTexts:
    """Texts, one after the other.

    Attributes:
        code_points: int32 `(N,)`; there is a line feed after every text.
        starts: int32 `(B,)`, the first character of each text, and `ends`, int32
            `(B,)`, the line feed after it.
    """

    code_points: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor

    @classmethod
    def of(cls, texts: tf.Tensor) -> FlatTexts:
        """Decodes UTF-8; bytes that are none become U+FFFD.

        Args:
            texts: string tensor `(B,)`.
        """
        decoded = tf.strings.unicode_decode(
            tf.strings.join([texts, "\n"]), "UTF-8", errors="replace"
        )
        splits = tf.cast(decoded.row_splits, tf.int32)
        return cls(decoded.flat_values, splits[:-1], splits[1:] - 1)

    def text_of(self, position: tf.Tensor) -> tf.Tensor:
        """Number of the text that each character belongs to."""
        return tf.searchsorted(self.ends, position)

    def strings(self, starts: tf.Tensor, stops: tf.Tensor) -> tf.Tensor:
        """The characters from some positions up to others."""
        lengths = stops - starts
        ragged = tf.ragged.range(starts, stops)
        return tf.strings.unicode_encode(
            tf.RaggedTensor.from_row_lengths(
                tf.gather(self.code_points, ragged.flat_values), lengths, validate=False
            ),
            "UTF-8",
        )


@dataclasses.dataclass(frozen=True)
class TextTrees:
    """Beginnings of texts as paragraphs, sentences and word pieces.

    Attributes:
        pieces: int32 `(B, P)`, padded with 0.
        num_pieces: int32 `(B,)`.
        sentence_lengths: int32 `(B, M)`, pieces of each sentence, padded with 0.
        num_sentences: int32 `(B,)`.
        paragraph_lengths: int32 `(B, G)`, sentences of each paragraph, padded with 0.
        sentences: string `(B, M)`, the sentences, unchanged.
        is_cut: bool `(B,)`, whether the text has more pieces.
    """

    pieces: tf.Tensor
    num_pieces: tf.Tensor
    sentence_lengths: tf.Tensor
    num_sentences: tf.Tensor
    paragraph_lengths: tf.Tensor
    sentences: tf.Tensor
    is_cut: tf.Tensor

    def beginning(self, cost: Callable[[tf.Tensor], tf.Tensor], most: int) -> TextTrees:
        """The first sentences of each, as many as do not cost too much together.

        Args:
            cost: of sentences by their pieces.
            most: the most that those of a text may cost.
        """
        is_kept = tf.cumsum(cost(self.sentence_lengths), axis=1) <= most
        lengths = tf.where(is_kept, self.sentence_lengths, 0)
        num_pieces = tf.reduce_sum(lengths, axis=1)
        num_sentences = tf.reduce_sum(tf.cast(lengths > 0, tf.int32), axis=1)
        ends = tf.cumsum(self.paragraph_lengths, axis=1)
        ends = tf.minimum(ends, num_sentences[:, tf.newaxis])
        return TextTrees(
            pieces=self.pieces,
            num_pieces=num_pieces,
            sentence_lengths=lengths,
            num_sentences=num_sentences,
            paragraph_lengths=ends - tf.pad(ends, [[0, 0], [1, 0]])[:, :-1],
            sentences=tf.where(lengths > 0, self.sentences, ""),
            is_cut=self.is_cut | (num_pieces < self.num_pieces),
        )


class GraphTreeBuilder(tf.Module):
    """Makes trees of texts, each cut to the capacity of its row.

    As where records are made, a line is a paragraph, sentences and paragraphs without
    a piece are left out; and as where they are cut, a beginning is whole sentences, or
    a part of the first one if that alone is too long.

    Args:
        splitter: what makes sentences of paragraphs.
        word_pieces: what makes pieces of sentences.
        most_pieces: the most of a text.
        most_sentences: likewise; None for any number.
    """

    def __init__(
        self,
        splitter: GraphSentenceSplitter,
        word_pieces: GraphWordPieces,
        most_pieces: int,
        most_sentences: int | None = None,
    ):
        super().__init__()
        self._splitter = splitter
        self._word_pieces = word_pieces
        self._most_pieces = most_pieces
        self._most_sentences = most_sentences

    def __call__(self, texts: tf.Tensor) -> TextTrees:
        """The trees of strings `(B,)`. Of a text without a piece, nothing is there."""
        flat = FlatTexts.of(texts)
        num_texts = tf.size(texts)
        found = self._splitter(flat.code_points)
        text = flat.text_of(found.starts)
        pieces = self._word_pieces.encode(
            flat.code_points,
            found.starts,
            found.stops,
            text,
            # One more than fits, so that what is cut off shows.
            most_words=self._most_pieces + 1,
        )
        lengths = tf.math.bincount(
            pieces.spans, minlength=tf.size(text), dtype=tf.int32
        )
        kept_lengths = self._kept_lengths(lengths, text)

        # Pieces: those that come first in a sentence that is kept.
        offset = tf.range(tf.size(pieces.spans)) - tf.gather(
            tf.cumsum(lengths, exclusive=True), pieces.spans
        )
        is_kept = offset < tf.gather(kept_lengths, pieces.spans)
        piece_texts = tf.gather(text, tf.boolean_mask(pieces.spans, is_kept))
        # Sentences, and paragraphs, numbered anew by where one begins.
        is_sentence = kept_lengths > 0
        sentence_texts = tf.boolean_mask(text, is_sentence)
        paragraphs = tf.boolean_mask(found.paragraphs, is_sentence)
        is_first = paragraphs != shifted(paragraphs, -1, -1)
        firsts = MarkedPositions(is_first).positions
        after = tf.concat([firsts, [tf.size(paragraphs)]], 0)[1:]

        def padded(values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
            ragged = tf.RaggedTensor.from_value_rowids(
                values, rows, nrows=num_texts, validate=False
            )
            return ragged.to_tensor()

        total = tf.math.bincount(
            text, lengths, minlength=num_texts, maxlength=num_texts, dtype=tf.int32
        )
        num_pieces = tf.math.bincount(piece_texts, minlength=num_texts, dtype=tf.int32)
        return TextTrees(
            pieces=padded(tf.boolean_mask(pieces.ids, is_kept), piece_texts),
            num_pieces=num_pieces,
            sentence_lengths=padded(
                tf.boolean_mask(kept_lengths, is_sentence), sentence_texts
            ),
            num_sentences=tf.math.bincount(
                sentence_texts, minlength=num_texts, dtype=tf.int32
            ),
            paragraph_lengths=padded(after - firsts, tf.gather(sentence_texts, firsts)),
            sentences=padded(
                flat.strings(
                    tf.boolean_mask(found.starts, is_sentence),
                    tf.boolean_mask(found.stops, is_sentence),
                ),
                sentence_texts,
            ),
            is_cut=total > num_pieces,
        )

    def _kept_lengths(self, lengths: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
        """Pieces of every sentence that are kept: int32 `(S,)`."""
        position = tf.range(tf.size(text) + 1)
        first = MarkedPositions(text != shifted(text, -1, -1)).last_before(position[1:])
        before = tf.cumsum(lengths, exclusive=True)
        end = before + lengths - tf.gather(before, first)
        has_pieces = MarkedPositions(lengths > 0)
        ordinal = has_pieces.count_before(position[:-1]) - has_pieces.count_before(
            first
        )
        kept = tf.where(end <= self._most_pieces, lengths, 0)
        kept = tf.where(ordinal == 0, tf.minimum(lengths, self._most_pieces), kept)
        if self._most_sentences is not None:
            kept = tf.where(ordinal < self._most_sentences, kept, 0)
        return kept
