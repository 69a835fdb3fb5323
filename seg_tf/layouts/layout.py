"""The contract of a row form: rows of texts, and the vectors that stand for them.

Each form has one class, made once for a checkpoint by the config of its inputs
(`seg_tf.checkpoints.pretrained.Pretrained.layout`). Fine-tuning, inference and export
use it and do not ask which model it is for.

Shape key: B rows, L row length, M sentences, D width.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from seg_tf.layouts.readouts import TextReadout
    from seg_tf.layouts.segments import Example
    from seg_tf.layouts.trees import Trees
    from seg_tf.text.graph.characters import TextTrees

Features = Mapping[str, tf.Tensor]
# Static sizes of a batch's rows: of few values, each of which is compiled once.
RowShape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class TextCapacity:
    """Most of a document that a row of pretraining holds.

    Attributes:
        num_pieces: word pieces.
        num_sentences: sentences; None for any number.
    """

    num_pieces: int
    num_sentences: int | None = None

    def shared(self, other: Self) -> Self:
        """Whatever fits into the rows of both."""
        numbers = (self.num_sentences, other.num_sentences)
        limits = [number for number in numbers if number is not None]
        return dataclasses.replace(
            self,
            num_pieces=min(self.num_pieces, other.num_pieces),
            num_sentences=min(limits, default=None),
        )


class Layout(abc.ABC):
    """Rows of one form.

    Constructors take the config of a run's inputs, its encoder and vocabulary, and
    `max_length`, the most positions of an example; None takes those of pretraining.

    Attributes:
        max_length: the most positions that an example takes.
        text_capacity: the most of a document that a row takes.
        longest_part: the most pieces of a sentence that a row takes whole.
        holds_spans: whether question and context share a window of a row, so that an
            answer is a span of positions.
        vectors_per_text: whether a row of several texts has a vector for each, so that
            texts can be encoded jointly; if not, each has to have a row of its own.
        sent_id: id of the token before each sentence, as in SLM; None if there is none.
        extra_features: features beside the encoder's that `sentence_vectors` reads.
        unread_features: features of `rows` that no encoder or head reads.
    """

    max_length: int
    text_capacity: TextCapacity
    longest_part: int
    holds_spans: ClassVar[bool]
    vectors_per_text: ClassVar[bool]
    extra_features: ClassVar[tuple[str, ...]]
    unread_features: ClassVar[tuple[str, ...]] = ()
    sent_id: int | None = None

    # === Rows ===

    @abc.abstractmethod
    def capacity(self, num_texts: int) -> int:
        """The most word pieces of an example of so many texts.

        Raises:
            ValueError: if not even empty texts fit.
        """

    @abc.abstractmethod
    def rows(self, trees: Trees) -> Features:
        """Rows of texts, as long as the longest needs, eagerly or in a graph."""

    @abc.abstractmethod
    def num_tokens(self, example: Example) -> int:
        """Positions that a text takes in a row, special tokens included."""

    @abc.abstractmethod
    def fits(self, example: Example) -> bool:
        """Returns True if a row takes all sentences of a text."""

    @abc.abstractmethod
    def row_shape(self, example: Example) -> RowShape:
        """The smallest sizes of a row that take it; larger ones do as well."""

    @abc.abstractmethod
    def lay_out(
        self, examples: Sequence[Example], row_shape: RowShape
    ) -> dict[str, np.ndarray]:
        """Rows of given sizes, one for each example, independent of one another.

        Raises:
            ValueError: if an example needs a larger row.
        """

    def read_features(self, rows: Features) -> dict[str, tf.Tensor]:
        """Those features of rows that an encoder or a head may read."""
        return {
            name: values
            for name, values in rows.items()
            if name not in self.unread_features
        }

    def beginning(self, trees: TextTrees) -> TextTrees:
        """As much as a row takes of documents that are within `text_capacity`."""
        return trees

    # === Questions about contexts ===

    def for_spans(self) -> Self:
        """The same, where a row tells question and context apart (`holds_spans`)."""
        return self

    def piece_starts(self, example: Example) -> np.ndarray:
        """Position at which each segment's pieces begin, of layouts `for_spans`."""
        raise NotImplementedError

    # === Vectors ===

    @abc.abstractmethod
    def readout(self, num_texts: int) -> TextReadout:
        """The vectors that stand for the texts of an example.

        Raises:
            ValueError: if so many do not fit into a row.
        """

    @abc.abstractmethod
    def sentence_vectors(
        self, encoder: Any, sequence_output: tf.Tensor, features: Features
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Vectors of the sentences of rows, and which of them there are.

        Args:
            encoder: the encoder.
            sequence_output: float `(B, L, D)`.
            features: the rows.

        Returns:
            float `(B, M, D)`, 0 where there is no sentence, and bool `(B, M)`.
        """

    def pooled_output(
        self, sequence_output: tf.Tensor, vectors: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """One vector of each row, `(B, D)`: that of `[CLS]`.

        Args:
            sequence_output: float `(B, L, D)`.
            vectors: float `(B, M, D)` of `sentence_vectors`, and `mask`, bool `(B, M)`.
            mask: likewise.
        """
        del vectors, mask
        return sequence_output[:, 0]
