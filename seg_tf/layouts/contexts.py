"""Contexts of questions, and questions, as flat word pieces.

A question is paragraph 0, sentence 0. The lines of a context are the paragraphs from 1
on; their sentences are counted from 0 in each, word pieces from 0 in each sentence
(Segatron, section 3.2).

Shape key: B contexts, P pieces of all contexts, S sentences of all contexts,
Q questions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from seg_tf.text.graph.characters import FlatTexts
from seg_tf.text.marked_positions import MarkedPositions, shifted, which_run

_FIRST_CONTEXT_PARAGRAPH = 1


@dataclasses.dataclass(frozen=True, eq=False)
class Contexts:
    """Contexts as pieces that know their characters and sentences, one after the other.

    As in records, sentences without a piece and paragraphs without a sentence are not
    counted.

    Attributes:
        texts: the characters of the contexts.
        bounds: int32 `(B + 1,)`, first piece of each context, and P.
        ids: int32 `(P,)`, vocabulary ids.
        starts: int32 `(P,)`, first character of each in `texts`, and `stops`, the
            character after it; neither falls.
        sentences: int32 `(P,)`, the sentence of each piece, counted through all
            contexts.
        sentence_bounds: int32 `(S + 1,)`, first piece of each sentence, and P.
        paragraph_index: int32 `(S,)`, of each sentence, from 1 in a context.
        sentence_index: int32 `(S,)`, in the paragraph.
    """

    texts: FlatTexts
    bounds: tf.Tensor
    ids: tf.Tensor
    starts: tf.Tensor
    stops: tf.Tensor
    sentences: tf.Tensor
    sentence_bounds: tf.Tensor
    paragraph_index: tf.Tensor
    sentence_index: tf.Tensor

    @classmethod
    def of_sentences(
        cls,
        texts: FlatTexts,
        *,
        ids: tf.Tensor,
        starts: tf.Tensor,
        stops: tf.Tensor,
        lengths: tf.Tensor,
        paragraphs: tf.Tensor,
        numbers: tf.Tensor,
    ) -> Contexts:
        """Counts the paragraphs of contexts and the sentences of paragraphs.

        Args:
            texts: as above.
            ids: as above, like `starts` and `stops`.
            starts: likewise.
            stops: likewise.
            lengths: int32 `(S,)`, pieces of each sentence, at least one.
            paragraphs: int32 `(S,)`, a number for every paragraph of all contexts,
                rising.
            numbers: int32 `(S,)`, the context of each sentence.
        """
        begins_text = _begins(numbers)
        begins_paragraph = _begins(paragraphs)
        sentence = tf.range(tf.size(lengths))
        paragraph = tf.cumsum(tf.cast(begins_paragraph, tf.int32))

        def counted(values: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
            """Values less those of what contexts, or paragraphs, begin with."""
            first = MarkedPositions(begins).last_before(sentence + 1)
            return values - tf.gather(values, first)

        of_each = tf.math.unsorted_segment_sum(lengths, numbers, tf.size(texts.starts))
        return cls(
            texts=texts,
            bounds=_bounds(of_each),
            ids=ids,
            starts=starts,
            stops=stops,
            sentences=which_run(lengths),
            sentence_bounds=_bounds(lengths),
            paragraph_index=_FIRST_CONTEXT_PARAGRAPH + counted(paragraph, begins_text),
            sentence_index=counted(sentence, begins_paragraph),
        )

    @classmethod
    def joined(cls, parts: Sequence[Contexts]) -> Contexts:
        """The contexts of all parts, one after the other."""

        def join(values: Sequence[tf.Tensor], sizes: Sequence[tf.Tensor]) -> tf.Tensor:
            """Values that count what each part has so many of, counted through all."""
            bases = tf.cumsum([tf.zeros([], tf.int32), *map(tf.size, sizes)])
            moved = [one + bases[part] for part, one in enumerate(values)]
            return tf.concat(moved, axis=0)

        def bounds(values: Sequence[tf.Tensor]) -> tf.Tensor:
            # The last bound of a part is the first of the next.
            ends = [one[-1:] for one in values[-1:]]
            return join([*(one[:-1] for one in values), *ends], [*ids[:-1], []])

        ids = [part.ids for part in parts]
        texts = [part.texts for part in parts]
        characters = [one.code_points for one in texts]
        return cls(
            texts=FlatTexts(
                tf.concat(characters, axis=0),
                join([one.starts for one in texts], characters),
                join([one.ends for one in texts], characters),
            ),
            bounds=bounds([part.bounds for part in parts]),
            ids=tf.concat(ids, axis=0),
            starts=join([part.starts for part in parts], characters),
            stops=join([part.stops for part in parts], characters),
            sentences=join(
                [part.sentences for part in parts],
                [part.sentence_index for part in parts],
            ),
            sentence_bounds=bounds([part.sentence_bounds for part in parts]),
            paragraph_index=tf.concat([part.paragraph_index for part in parts], axis=0),
            sentence_index=tf.concat([part.sentence_index for part in parts], axis=0),
        )

    def num_pieces(self) -> tf.Tensor:
        """Pieces of each context: int32 `(B,)`."""
        return self.bounds[1:] - self.bounds[:-1]

    def spans(
        self, numbers: tf.Tensor, starts: tf.Tensor, stops: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """First and last piece that share a character with parts of contexts.

        A span may hold more than the part, "1999" where that is "99": pieces cannot be
        divided.

        Args:
            numbers: int32 `(N,)`, the context of each part.
            starts: int32 `(N,)`, first character of each in its context.
            stops: int32 `(N,)`, the one after its last.

        Returns:
            Two int32 tensors `(N,)`; the last is before the first where there is no
            such piece.
        """
        base, end = (
            tf.gather(values, numbers)
            for values in (self.texts.starts, self.texts.ends)
        )
        starts = tf.maximum(base + starts, base)
        stops = tf.minimum(base + stops, end)
        first = tf.searchsorted(self.stops, starts, side="right")
        last = tf.searchsorted(self.starts, stops, side="left") - 1
        return first, tf.where(starts < stops, last, first - 1)


@dataclasses.dataclass(frozen=True, eq=False)
class Questions:
    """Pieces that are read of questions, each one sentence whatever it holds.

    Attributes:
        pieces: ragged int32 `(Q, pieces)`.
        contexts: int32 `(Q,)`, the context that each is about.
        is_cut: bool `(Q,)`, whether it has more pieces.
    """

    pieces: tf.RaggedTensor
    contexts: tf.Tensor
    is_cut: tf.Tensor

    @classmethod
    def beginnings(
        cls, pieces: tf.RaggedTensor, contexts: tf.Tensor, most_pieces: int
    ) -> Questions:
        """As much as is read of questions.

        Args:
            pieces: ragged int32 `(Q, pieces)`; of longer questions one more than is
                read is enough.
            contexts: as above.
            most_pieces: what is read of a question.
        """
        return cls(
            pieces[:, :most_pieces], contexts, pieces.row_lengths() > most_pieces
        )

    def num_pieces(self) -> tf.Tensor:
        """Pieces that are read of each: int32 `(Q,)`."""
        return tf.cast(self.pieces.row_lengths(), tf.int32)


def _begins(numbers: tf.Tensor) -> tf.Tensor:
    """Positions whose number differs from the one before."""
    return numbers != shifted(numbers, -1, -1)


def _bounds(lengths: tf.Tensor) -> tf.Tensor:
    return tf.pad(tf.cumsum(lengths), [[1, 0]])
