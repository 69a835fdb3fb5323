"""Contexts of questions as word pieces, in the graph: those of `tasks.squad.spans`.

Shape key: B contexts, P pieces of all contexts.
"""

import dataclasses
import functools
import unicodedata

import numpy as np
import tensorflow as tf

from seg_tf.export.segments import spell
from seg_tf.tasks.squad.spans import FIRST_CONTEXT_PARAGRAPH
from seg_tf.text.graph.characters import FlatTexts
from seg_tf.text.graph.code_point_table import NUM_CODE_POINTS, CodePointTable
from seg_tf.text.graph.pieces import GraphWordPieces
from seg_tf.text.graph.sentences import GraphSentenceSplitter
from seg_tf.text.marked_positions import MarkedPositions, shifted

_ANY_NUMBER = tf.int32.max


@dataclasses.dataclass(frozen=True)
class GraphContexts:
    """Contexts as pieces that know where they stand, one behind the other.

    Attributes:
        texts: the characters of the contexts.
        num_pieces: int32 `(B,)`, of each context.
        first_pieces: int32 `(B,)`, how many pieces stand before those of each.
        ids: int32 `(P,)`, vocabulary ids.
        starts: int32 `(P,)`, first character of each in `texts`, and `stops`, the
            character behind it.
        sentences: int32 `(P,)`, number of the piece's sentence in the context, from 0.
        paragraph_index: int32 `(P,)`, from 1.
        sentence_index: int32 `(P,)`, in the paragraph.
        token_index: int32 `(P,)`, in the sentence.
    """

    texts: FlatTexts
    num_pieces: tf.Tensor
    first_pieces: tf.Tensor
    ids: tf.Tensor
    starts: tf.Tensor
    stops: tf.Tensor
    sentences: tf.Tensor
    paragraph_index: tf.Tensor
    sentence_index: tf.Tensor
    token_index: tf.Tensor


class GraphContextEncoder(tf.Module):
    """Makes pieces of contexts, all that they have.

    Args:
        splitter: what makes sentences of their lines, which are paragraphs.
        word_pieces: what makes pieces of sentences.

    Call arguments:
        texts: string `(B,)`.
    """

    def __init__(self, splitter: GraphSentenceSplitter, word_pieces: GraphWordPieces):
        super().__init__()
        self._splitter = splitter
        self._word_pieces = word_pieces
        self._is_mark = CodePointTable(_marks())

    def __call__(self, texts: tf.Tensor) -> GraphContexts:
        flat = FlatTexts.of(texts)
        found = self._splitter(flat.code_points)
        text = flat.text_of(found.starts)
        pieces = self._word_pieces.encode(
            flat.code_points, found.starts, found.stops, text, most_words=_ANY_NUMBER
        )
        text = tf.gather(text, pieces.spans)
        num_pieces = tf.math.bincount(
            text, minlength=tf.size(texts), maxlength=tf.size(texts), dtype=tf.int32
        )
        # What has no piece is not counted.
        begins_text = _begins(text)
        begins_paragraph = _begins(tf.gather(found.paragraphs, pieces.spans))
        begins_sentence = _begins(pieces.spans)
        piece = tf.range(tf.size(pieces.ids))
        sentence = tf.cumsum(tf.cast(begins_sentence, tf.int32))
        paragraph = tf.cumsum(tf.cast(begins_paragraph, tf.int32))

        def counted(numbers: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
            """Numbers, less those of what texts, or paragraphs, begin with."""
            first = MarkedPositions(begins).last_before(piece + 1)
            return numbers - tf.gather(numbers, first)

        # Marks go with the letter that they are combined with, in its sentence.
        is_mark = self._is_mark(flat.code_points) > 0
        stops = tf.minimum(
            MarkedPositions(~is_mark).next_from(pieces.stops),
            tf.gather(found.stops, pieces.spans),
        )
        return GraphContexts(
            texts=flat,
            num_pieces=num_pieces,
            first_pieces=tf.cumsum(num_pieces, exclusive=True),
            ids=pieces.ids,
            starts=pieces.starts,
            stops=stops,
            sentences=counted(sentence, begins_text),
            paragraph_index=FIRST_CONTEXT_PARAGRAPH + counted(paragraph, begins_text),
            sentence_index=counted(sentence, begins_paragraph),
            token_index=counted(piece, begins_sentence),
        )


def encode_questions(
    texts: tf.Tensor, word_pieces: GraphWordPieces, most_pieces: int
) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """The first pieces of questions, each one sentence whatever it holds.

    Args:
        texts: string `(B,)`.
        word_pieces: what makes pieces of them.
        most_pieces: what is read of a question.

    Returns:
        Ragged int32 `(B, pieces)`; and bool `(B,)`, whether a question has more.
    """
    # One more, so that what is cut off shows.
    spelled = spell(texts, word_pieces, most_pieces + 1)
    return spelled[:, :most_pieces], spelled.row_lengths() > most_pieces


def _begins(numbers: tf.Tensor) -> tf.Tensor:
    """Positions whose number differs from the one before."""
    return numbers != shifted(numbers, -1, -1)


@functools.cache
def _marks() -> np.ndarray:
    """1 for every combining mark, else 0."""
    return np.array(
        [
            unicodedata.category(chr(code_point))[0] == "M"
            for code_point in range(NUM_CODE_POINTS)
        ],
        np.int32,
    )
