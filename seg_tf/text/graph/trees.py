"""Trees of word pieces for a batch of rows, the input of every layout.

Shape key: B rows, P pieces of a row, S sentences of a row, G paragraphs of a text, N
sentences of all texts.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple, Self

import tensorflow as tf

from seg_tf.text.graph.flat import FlatTexts, MarkedPositions, shifted

if TYPE_CHECKING:
    from seg_tf.text.graph.punkt import GraphSentenceSplitter
    from seg_tf.text.graph.word_pieces import GraphWordPieces
    from seg_tf.text.tree import DocumentTree


@dataclasses.dataclass(frozen=True)
class Trees:
    """Sentences of rows, in text order, and their indices.

    A row may contain several texts, and sentences may be empty. Columns starting at
    `num_sentences` are padding with arbitrary values. All tensors are int32.

    Attributes:
        pieces: `(B, P)`. Pieces of all sentences of a row, padded.
        sentence_lengths: `(B, S)`. Number of pieces of each sentence.
        num_sentences: `(B,)`. Number of sentences, at least 1.
        paragraphs: `(B, S)`. Paragraph index of each sentence, ascending.
        sentences: `(B, S)`. Sentence index in the paragraph.
        first_tokens: `(B, S)`. Token index of the first piece of each sentence, above 0
            if the row lacks the beginning of the sentence.
        texts: `(B, S)`. Number of the text of each sentence, from 0, ascending.
    """

    pieces: tf.Tensor
    sentence_lengths: tf.Tensor
    num_sentences: tf.Tensor
    paragraphs: tf.Tensor
    sentences: tf.Tensor
    first_tokens: tf.Tensor
    texts: tf.Tensor

    @classmethod
    def of_documents(
        cls,
        *,
        pieces: tf.Tensor,
        sentence_lengths: tf.Tensor,
        num_sentences: tf.Tensor,
        paragraph_lengths: tf.Tensor,
        first_index: tf.Tensor | None = None,
    ) -> Self:
        """Creates trees with one document, or one window of a document, per row.

        A document without pieces has one empty sentence. `paragraph_lengths`, `(B, G)`,
        count sentences, padded with 0. `first_index`, `(B, 3)`, contains the paragraph,
        sentence and token index of each window's first piece, by default 0.
        """
        num_sentences = tf.maximum(num_sentences, 1)
        if first_index is None:
            first_index = tf.zeros([tf.size(num_sentences), 3], tf.int32)
        first_paragraph, first_sentence, first_token = tf.split(
            tf.cast(first_index, tf.int32), 3, axis=1
        )
        number = tf.range(tf.shape(sentence_lengths)[1])[tf.newaxis, :]
        sentence = tf.minimum(number, num_sentences[:, tf.newaxis] - 1)
        ends = tf.cumsum(paragraph_lengths, axis=1)
        paragraph = tf.searchsorted(ends, sentence, side="right")
        # If there are no sentences, the empty one belongs to the first paragraph.
        paragraph = tf.where(ends[:, -1:] > 0, paragraph, 0)
        # The sentence at which the indices of each paragraph start.
        origins = ends - paragraph_lengths
        padding = [[0, 0], [0, tf.shape(paragraph_lengths)[1] - 1]]
        origins -= tf.pad(first_sentence, padding)
        return cls(
            pieces=pieces,
            sentence_lengths=sentence_lengths,
            num_sentences=num_sentences,
            paragraphs=paragraph + first_paragraph,
            sentences=sentence - tf.gather(origins, paragraph, batch_dims=1),
            first_tokens=tf.where(number == 0, first_token, 0),
            texts=tf.zeros_like(paragraph),
        )

    @classmethod
    def of_document(cls, tree: DocumentTree) -> Self:
        """Creates a batch of one row from a nonempty document or window."""
        rows = {
            "pieces": tree.token_ids,
            "sentence_lengths": tree.sentence_lengths,
            "num_sentences": len(tree.sentence_lengths),
            "paragraph_lengths": tree.paragraph_lengths,
            "first_index": tree.first_index,
        }
        return cls.of_documents(
            **{name: tf.constant([row], tf.int32) for name, row in rows.items()}
        )

    @classmethod
    def of_texts(cls, texts: list[tf.RaggedTensor]) -> Self:
        """Creates trees of several texts per row, each a paragraph of one sentence.

        Fine-tuning uses such trees (SegaBERT, sections 2.3 and 3.2). `texts` contains
        one ragged int32 tensor `(B, pieces)` for each text of a row, in order.
        """
        lengths = tf.stack([text.row_lengths() for text in texts], axis=1)
        lengths = tf.cast(lengths, tf.int32)
        number = tf.zeros_like(lengths) + tf.range(len(texts))
        return cls(
            pieces=tf.concat(texts, axis=1).to_tensor(),
            sentence_lengths=lengths,
            num_sentences=tf.fill([tf.shape(lengths)[0]], len(texts)),
            paragraphs=number,
            sentences=tf.zeros_like(lengths),
            first_tokens=tf.zeros_like(lengths),
            texts=number,
        )

    def as_one_text(self) -> Self:
        """Returns the trees with all sentences of a row in one text."""
        return dataclasses.replace(self, texts=tf.zeros_like(self.texts))

    def is_sentence(self) -> tf.Tensor:
        """Returns a bool mask `(B, S)`, False at padding."""
        number = tf.range(tf.shape(self.sentence_lengths)[1])[tf.newaxis, :]
        return number < self.num_sentences[:, tf.newaxis]

    def num_pieces(self) -> tf.Tensor:
        """Returns the number of pieces of each row, int32 `(B,)`."""
        lengths = tf.where(self.is_sentence(), self.sentence_lengths, 0)
        return tf.reduce_sum(lengths, axis=1)

    def capped_paragraphs(self, cap: int | None) -> tf.Tensor:
        """Returns paragraph indices `(B, S)`, below `cap` if it is not None.

        As in the published code of SegaBERT, the indices of a row are shifted down
        until the last is below `cap` or the first is 0. Then they are clipped.
        """
        if cap is None:
            return self.paragraphs
        last = tf.reduce_max(tf.where(self.is_sentence(), self.paragraphs, 0), axis=1)
        excess = tf.maximum(last - (cap - 1), 0)
        slide = tf.minimum(excess, self.paragraphs[:, 0])[:, tf.newaxis]
        return tf.minimum(self.paragraphs - slide, cap - 1)


def largest(counts: tf.Tensor) -> tf.Tensor:
    """Returns the largest count, or 0 if the batch is empty."""
    return tf.maximum(tf.reduce_max(counts), 0)


class Beginnings(NamedTuple):
    """The beginnings of texts, truncated to the sentences that fit into a row.

    `num_sentences`, int32 `(B,)`, is 0 for a text without pieces. `sentences`, strings
    `(B, S)`, are padded with "". `is_cut`, bool `(B,)`, marks truncated texts.
    """

    trees: Trees
    num_sentences: tf.Tensor
    sentences: tf.Tensor
    is_cut: tf.Tensor


class GraphTreeBuilder(tf.Module):
    """Converts texts to trees, truncated to the capacity of a row.

    As in records, each line is a paragraph, and empty sentences and paragraphs are left
    out. Texts are truncated after a sentence, or inside the first one if it is too
    long. See `seg_tf.layouts.layout.TextCapacity` for the limits.
    """

    def __init__(
        self,
        splitter: GraphSentenceSplitter,
        word_pieces: GraphWordPieces,
        max_pieces: int,
        max_sentences: int | None = None,
        longest_part: int | None = None,
    ):
        super().__init__()
        self._splitter = splitter
        self._word_pieces = word_pieces
        self._max_pieces = max_pieces
        self._max_sentences = max_sentences
        self._longest_part = longest_part

    def __call__(self, texts: tf.Tensor) -> Beginnings:
        """Converts texts, strings `(B,)`, to the `Beginnings` that fit into rows."""
        flat = FlatTexts.of(texts)
        num_texts = tf.size(texts)
        split = self._splitter(flat.code_points)
        text = flat.text_of(split.starts)
        pieces = self._word_pieces.encode(
            flat.code_points,
            split.starts,
            split.stops,
            text,
            # One more than fits, to detect truncated texts.
            most_words=self._max_pieces + 1,
        )
        lengths = tf.math.bincount(
            pieces.spans, minlength=tf.size(text), dtype=tf.int32
        )
        kept_lengths = self._kept_lengths(lengths, text)

        # The first pieces of kept sentences.
        offset = tf.range(tf.size(pieces.spans)) - tf.gather(
            tf.cumsum(lengths, exclusive=True), pieces.spans
        )
        is_kept = offset < tf.gather(kept_lengths, pieces.spans)
        piece_texts = tf.gather(text, tf.boolean_mask(pieces.spans, is_kept))
        # Sentences with pieces, and their paragraphs.
        is_sentence = kept_lengths > 0
        sentence_texts = tf.boolean_mask(text, is_sentence)
        paragraphs = tf.boolean_mask(split.paragraphs, is_sentence)
        firsts = MarkedPositions(paragraphs != shifted(paragraphs, -1, -1)).positions
        after = tf.concat([firsts, [tf.size(paragraphs)]], 0)[1:]

        def padded(values: tf.Tensor, rows: tf.Tensor, extra: int = 0) -> tf.Tensor:
            tensor = tf.RaggedTensor.from_value_rowids(
                values, rows, nrows=num_texts, validate=False
            ).to_tensor()
            return tf.pad(tensor, [[0, 0], [0, extra]]) if extra else tensor

        def count(rows: tf.Tensor, weights: tf.Tensor | None = None) -> tf.Tensor:
            return tf.math.bincount(
                rows, weights, minlength=num_texts, maxlength=num_texts, dtype=tf.int32
            )

        num_pieces, num_sentences = count(piece_texts), count(sentence_texts)
        # A text without pieces has an empty sentence.
        width = tf.maximum(largest(num_sentences), 1)
        sentence_lengths = tf.boolean_mask(kept_lengths, is_sentence)
        return Beginnings(
            trees=Trees.of_documents(
                pieces=padded(tf.boolean_mask(pieces.ids, is_kept), piece_texts),
                sentence_lengths=padded(sentence_lengths, sentence_texts, 1)[:, :width],
                num_sentences=num_sentences,
                paragraph_lengths=padded(
                    after - firsts, tf.gather(sentence_texts, firsts), 1
                ),
            ),
            num_sentences=num_sentences,
            sentences=padded(
                flat.strings(
                    tf.boolean_mask(split.starts, is_sentence),
                    tf.boolean_mask(split.stops, is_sentence),
                ),
                sentence_texts,
            ),
            is_cut=count(text, lengths) > num_pieces,
        )

    def _kept_lengths(self, lengths: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
        """Returns the number of pieces to keep of every sentence, int32 `(N,)`."""
        position = tf.range(tf.size(text) + 1)
        first = MarkedPositions(text != shifted(text, -1, -1)).last_before(position[1:])

        def up_to_here(values: tf.Tensor) -> tf.Tensor:
            before = tf.cumsum(values, exclusive=True)
            return before + values - tf.gather(before, first)

        lengths_in_row = tf.where(up_to_here(lengths) <= self._max_pieces, lengths, 0)
        number = up_to_here(tf.cast(lengths > 0, tf.int32))
        lengths_in_row = tf.where(
            number == 1, tf.minimum(lengths, self._max_pieces), lengths_in_row
        )
        if self._longest_part is not None:
            number = up_to_here(-(-lengths_in_row // self._longest_part))
        if self._max_sentences is not None:
            lengths_in_row = tf.where(number <= self._max_sentences, lengths_in_row, 0)
        return lengths_in_row
