"""Contexts and questions as word pieces, and answers as spans of them.

A question is paragraph 0, sentence 0. The lines of a context are the paragraphs from 1
on; their sentences are counted from 0 in each, word pieces from 0 in each sentence
(Segatron, section 3.2).
"""

import dataclasses

import numpy as np

from seg_tf.tasks.squad.squad_files import Answer
from seg_tf.text.piece_offsets import PieceOffsets
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.tree import DocumentTree
from seg_tf.text.vocabulary import Vocabulary

FIRST_CONTEXT_PARAGRAPH = 1


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedContext:
    """A context as word pieces with character offsets.

    Attributes:
        text: the context.
        token_ids: int32 array `(n,)`, its pieces without special tokens.
        starts: int array `(n,)`, first character of each piece.
        stops: int array `(n,)`, the character after it.
        sentence_bounds: int array `(s + 1,)`, first piece of each sentence, and n.
        paragraph_index: int array `(s,)`, paragraph of each sentence, from 1.
        sentence_index: int array `(s,)`, number of each in its paragraph.
    """

    text: str
    token_ids: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    sentence_bounds: np.ndarray
    paragraph_index: np.ndarray
    sentence_index: np.ndarray

    def sentence_of(self, piece: int) -> int:
        """Number, in the context, of the sentence that a piece is of."""
        return int(np.searchsorted(self.sentence_bounds, piece, side="right")) - 1

    def span_of(self, answer: Answer) -> tuple[int, int] | None:
        """First and last piece that share a character with an answer.

        None if there is no such piece. The span may hold more than the answer, "1999"
        where that is "99": pieces cannot be parted.
        """
        shared = np.minimum(self.stops, answer.stop) - np.maximum(
            self.starts, answer.start
        )
        touched = np.flatnonzero(shared > 0)
        return (int(touched[0]), int(touched[-1])) if len(touched) else None

    def text_of(self, first: int, last: int) -> str:
        """The characters from one piece to another, both included."""
        start, stop = self.starts[first : last + 1], self.stops[first : last + 1]
        return self.text[int(start.min()) : int(stop.max())]


class SpanEncoder:
    """Makes word pieces of questions and contexts.

    Args:
        vocabulary: of the pretrained model.
        lower_case: whether text is lower-cased and stripped of accents first; None
            does so if the vocabulary is uncased.
        splitter: what makes sentences of a line. Default: the English one.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        lower_case: bool | None = None,
        splitter: SentenceSplitter | None = None,
    ):
        self._pieces = PieceOffsets(vocabulary, lower_case)
        self._splitter = splitter or SentenceSplitter()

    def question(self, text: str) -> np.ndarray:
        """int32 ids of a question, which is one sentence whatever it holds."""
        return self._pieces.encode(text)[0]

    def context(self, text: str) -> EncodedContext:
        """A context as a tree of word pieces.

        As in records, sentences without a piece and paragraphs without a sentence are
        not counted.
        """
        pieces: list[tuple[np.ndarray, ...]] = []
        paragraph_lengths = []
        line_start = 0
        for line in text.split("\n"):
            num_before = len(pieces)
            for begin, end in self._splitter.spans(line):
                ids, starts, stops = self._pieces.encode(line[begin:end])
                if len(ids):
                    shift = line_start + begin
                    pieces.append((ids, starts + shift, stops + shift))
            if len(pieces) > num_before:
                paragraph_lengths.append(len(pieces) - num_before)
            line_start += len(line) + 1
        nothing = (np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))
        ids, starts, stops = map(np.concatenate, zip(nothing, *pieces, strict=True))
        sentence_lengths = np.array([len(one) for one, _, _ in pieces], np.int64)
        bounds = np.append(0, np.cumsum(sentence_lengths))
        indices = DocumentTree(
            ids,
            sentence_lengths,
            np.array(paragraph_lengths, np.int64),
            (FIRST_CONTEXT_PARAGRAPH, 0, 0),
        ).indices()
        return EncodedContext(
            text=text,
            token_ids=ids,
            starts=starts,
            stops=stops,
            sentence_bounds=bounds,
            paragraph_index=indices["paragraph_index"][bounds[:-1]],
            sentence_index=indices["sentence_index"][bounds[:-1]],
        )
