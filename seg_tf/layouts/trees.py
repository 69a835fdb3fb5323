"""The texts of a batch of rows as sentences of word pieces: input of every layout.

Shape key: B rows, P pieces of a row, S sentences of a row, G paragraphs of a text.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from seg_tf.text.tree import DocumentTree


@dataclasses.dataclass(frozen=True)
class Trees:
    """Sentences of rows, in the order of the text, and their indices.

    A row may hold several texts. Sentences may have no piece; columns from
    `num_sentences` on are padding, whatever they hold.

    Attributes:
        pieces: int32 tensor `(B, P)`, pieces of all sentences of a row, padded.
        sentence_lengths: int32 tensor `(B, S)`, pieces of each sentence.
        num_sentences: int32 tensor `(B,)`, at least 1.
        paragraphs: int32 tensor `(B, S)`, paragraph index of each sentence, rising.
        sentences: int32 tensor `(B, S)`, sentence index in the paragraph.
        first_tokens: int32 tensor `(B, S)`, token index of the first piece, above 0
            where a row begins inside a sentence.
        texts: int32 tensor `(B, S)`, number of the text, from 0, rising.
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
    ) -> "Trees":
        """One document, or window of a document, a row.

        A document without a piece has one empty sentence.

        Args:
            pieces: int32 tensor `(B, P)`, padded.
            sentence_lengths: int32 tensor `(B, S)`, S above 0.
            num_sentences: int32 tensor `(B,)`.
            paragraph_lengths: int32 tensor `(B, G)`, sentences of each paragraph,
                padded with 0.
            first_index: int tensor `(B, 3)`, paragraph, sentence and token index of
                the first piece in the whole document; None for 0.
        """
        num_sentences = tf.maximum(num_sentences, 1)
        if first_index is None:
            first_index = tf.zeros([tf.size(num_sentences), 3], tf.int32)
        first_paragraph, first_sentence, first_token = tf.split(
            tf.cast(first_index, tf.int32), 3, axis=1
        )
        number = tf.range(tf.shape(sentence_lengths)[1])[tf.newaxis, :]
        paragraphs, sentences = locate(
            tf.minimum(number, num_sentences[:, tf.newaxis] - 1),
            paragraph_lengths,
            first_sentence,
        )
        return cls(
            pieces=pieces,
            sentence_lengths=sentence_lengths,
            num_sentences=num_sentences,
            paragraphs=paragraphs + first_paragraph,
            sentences=sentences,
            first_tokens=tf.where(number == 0, first_token, 0),
            texts=tf.zeros_like(paragraphs),
        )

    @classmethod
    def of_document(cls, tree: DocumentTree) -> "Trees":
        """A document that has a piece, or a window of it, as the one row of a batch."""
        return cls.of_documents(
            pieces=tf.constant(tree.token_ids[np.newaxis], tf.int32),
            sentence_lengths=tf.constant(tree.sentence_lengths[np.newaxis], tf.int32),
            num_sentences=tf.constant([len(tree.sentence_lengths)], tf.int32),
            paragraph_lengths=tf.constant(tree.paragraph_lengths[np.newaxis], tf.int32),
            first_index=tf.constant([tree.first_index], tf.int32),
        )

    @classmethod
    def of_texts(cls, texts: list[tf.RaggedTensor]) -> "Trees":
        """Equally many texts in each row, each a paragraph of one sentence.

        So it is in fine-tuning (SegaBERT, sections 2.3 and 3.2).

        Args:
            texts: ragged int32 tensors `(B, pieces)`, in the order of the row.
        """
        lengths = tf.stack([one.row_lengths() for one in texts], axis=1)
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

    def as_one_text(self) -> "Trees":
        """The same, where the text of a sentence does not show."""
        return dataclasses.replace(self, texts=tf.zeros_like(self.texts))

    def is_sentence(self) -> tf.Tensor:
        """Bool tensor `(B, S)`, False at padding."""
        number = tf.range(tf.shape(self.sentence_lengths)[1])[tf.newaxis, :]
        return number < self.num_sentences[:, tf.newaxis]

    def num_pieces(self) -> tf.Tensor:
        """Pieces of each row: int32 tensor `(B,)`."""
        lengths = tf.where(self.is_sentence(), self.sentence_lengths, 0)
        return tf.reduce_sum(lengths, axis=1)

    def capped_paragraphs(self, cap: int | None) -> tf.Tensor:
        """Paragraph index of each sentence, below `cap`: int32 tensor `(B, S)`.

        The paragraphs of a row slide down until the last one fits or the first one is
        0, and are then clamped. This keeps the differences between the paragraphs of a
        window deep in a long document, where clamping alone would make them one (rule
        of the authors' code of SegaBERT).

        Args:
            cap: rows of the paragraph table; None if there is none.
        """
        if cap is None:
            return self.paragraphs
        is_sentence = self.is_sentence()
        last = tf.reduce_max(tf.where(is_sentence, self.paragraphs, 0), axis=1)
        excess = tf.maximum(last - (cap - 1), 0)
        slide = tf.minimum(excess, self.paragraphs[:, 0])[:, tf.newaxis]
        return tf.minimum(self.paragraphs - slide, cap - 1)


def largest(counts: tf.Tensor) -> tf.Tensor:
    """The largest of counts, 0 where a batch is empty and has none."""
    return tf.maximum(tf.reduce_max(counts), 0)


def locate(
    item: tf.Tensor, lengths: tf.Tensor, first: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Number of the run of `lengths` that each item lies in, and its place there.

    Args:
        item: int32 tensor `(B, N)`, or `(1, N)`, counted through all runs.
        lengths: int32 tensor `(B, G)`, padded with 0; where all are 0, the first run
            holds every item.
        first: int32 tensor `(B, 1)`. The numbers of the first run start there, those
            of the others at 0.

    Returns:
        Two int32 tensors `(B, N)`.
    """
    ends = tf.cumsum(lengths, axis=1)
    item += tf.zeros_like(first)
    run = tf.searchsorted(ends, item, side="right")
    run = tf.where(ends[:, -1:] > 0, run, 0)
    # The item that the numbers of a run are counted from.
    origins = ends - lengths
    origins -= tf.pad(first, [[0, 0], [0, tf.shape(lengths)[1] - 1]])
    return run, item - tf.gather(origins, run, batch_dims=1)
