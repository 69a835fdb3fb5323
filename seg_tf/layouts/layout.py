"""The interface of a row form: rows of texts, and the vectors that represent them.

Each form has one class, created for a checkpoint by the config of its inputs
(`seg_tf.checkpoints.pretrained.Pretrained.layout`). Fine-tuning, inference and export
use it without knowing the model.

A readout picks the vectors that represent texts: `[CLS]` (BERT, SegaBERT), `[CLS]` and
`[SENT]` (SLM), or `<SS>` (ReAT), depending on how the encoder was pretrained.

Shape key: B rows, L row length, M sentences, D width, T texts of an example, V vectors
that a head reads.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import keras
import numpy as np
import tensorflow as tf

from seg_tf.ops.gathering import gather_vectors, mean_vectors

if TYPE_CHECKING:
    from seg_tf.layouts.rows import Example
    from seg_tf.text.graph.trees import Trees

Features = Mapping[str, tf.Tensor]
# Static sizes of a batch's rows. There are few values, and each is compiled once.
RowShape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class TextCapacity:
    """The part of a document that fits into a row of pretraining.

    Attributes:
        num_pieces: word pieces.
        num_sentences: sentences; None for any number.
        longest_part: if set, a longer sentence counts as several sentences.
    """

    num_pieces: int
    num_sentences: int | None = None
    longest_part: int | None = None

    def shared(self, other: Self) -> Self:
        """The capacity that fits into the rows of both."""
        limits = [
            capacity.num_sentences
            for capacity in (self, other)
            if capacity.num_sentences is not None
        ]
        return dataclasses.replace(
            self,
            num_pieces=min(self.num_pieces, other.num_pieces),
            num_sentences=min(limits, default=None),
        )


class Layout(abc.ABC):
    """Rows of one form.

    Constructors have the arguments config of a run's inputs, encoder, vocabulary, and
    `max_length`, the maximum length of an example; None uses that of pretraining.

    Attributes:
        max_length: maximum number of positions of an example.
        text_capacity: the part of a document that fits into a row.
        longest_part: maximum number of pieces of a sentence that stays whole.
        holds_spans: whether question and context share a window of a row, so that an
            answer is a span of positions.
        vectors_per_text: whether a row of several texts has a vector for each. If not,
            each text needs a separate row.
        sent_id: id of the token before each sentence, as in SLM; None without one.
        extra_features: features that `sentence_vectors` reads, beyond the encoder's.
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
        """Maximum number of word pieces of an example of `num_texts` texts.

        Raises:
            ValueError: if not even empty texts fit.
        """

    @abc.abstractmethod
    def rows(self, trees: Trees) -> Features:
        """Rows of texts, as long as the longest needs, eagerly or in a graph."""

    @abc.abstractmethod
    def num_tokens(self, example: Example) -> int:
        """Positions of an example in a row, special tokens included."""

    @abc.abstractmethod
    def fits(self, example: Example) -> bool:
        """Returns True if all sentences of a text fit into a row."""

    @abc.abstractmethod
    def row_shape(self, example: Example) -> RowShape:
        """The smallest sizes of a row for the example."""

    @abc.abstractmethod
    def lay_out(
        self, examples: Sequence[Example], row_shape: RowShape
    ) -> dict[str, np.ndarray]:
        """Rows of fixed sizes, one for each example, independent of one another.

        Raises:
            ValueError: if an example needs a larger row.
        """

    def read_features(self, rows: Features) -> dict[str, tf.Tensor]:
        """The features of rows that an encoder or a head may read."""
        return {
            name: values
            for name, values in rows.items()
            if name not in self.unread_features
        }

    # === Questions about contexts ===

    def for_spans(self) -> Self:
        """The layout whose rows distinguish question and context (`holds_spans`)."""
        return self

    def piece_starts(self, example: Example) -> np.ndarray:
        """First position of each segment's pieces, of layouts `for_spans`."""
        raise NotImplementedError

    # === Vectors ===

    @abc.abstractmethod
    def readout(self, num_texts: int) -> TextReadout:
        """The readout for examples of `num_texts` texts, which must fit into a row."""

    @abc.abstractmethod
    def sentence_vectors(
        self, encoder: Any, sequence_output: tf.Tensor, features: Features
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Vectors of the sentences of rows, `(B, M, D)`, 0 at padding, and their mask.

        Args:
            encoder: the encoder.
            sequence_output: its output, float `(B, L, D)`.
            features: the rows.
        """

    def pooled_output(
        self, sequence_output: tf.Tensor, vectors: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """A vector of each row, `(B, D)`, by default that of `[CLS]`.

        `vectors` and `mask` are the results of `sentence_vectors`.
        """
        del vectors, mask
        return sequence_output[:, 0]


# === Readouts ===


class TextReadout(abc.ABC):
    """Picks the vectors of texts. It has no weights, and Keras can save it.

    Attributes:
        feature_names: features that it reads, beyond the encoder's.
        num_vectors: `V`.
        needs_pooler: whether a head has to add the pooler that pretraining lacked.
    """

    feature_names: ClassVar[tuple[str, ...]] = ()
    needs_pooler: ClassVar[bool] = False

    def __init__(self, num_texts: int = 1):
        self.num_texts = num_texts
        self.num_vectors = num_texts

    @abc.abstractmethod
    def head_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        """Input of a head, `(B, V, D)`, from an encoder's output `(B, L, D)`."""

    def text_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        """A vector for each text of a row, in the context of all: `(B, T, D)`."""
        return self.head_vectors(encoder, sequence_output, features)

    def get_config(self) -> dict[str, Any]:
        return {"num_texts": self.num_texts}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return cls(**config)


@keras.saving.register_keras_serializable(package="seg_tf")
class FirstToken(TextReadout):
    """`[CLS]`, as in BERT. Vectors of several texts need a row for each.

    Pretraining without next sentence prediction trains no pooler, so a head has to add
    one: a dense layer with tanh, as in BERT's code.
    """

    needs_pooler = True

    def head_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        return sequence_output[:, :1]


@keras.saving.register_keras_serializable(package="seg_tf")
class SentenceTokens(TextReadout):
    """`[CLS]` and the `[SENT]` of each of `num_texts` texts (SLM, section 2.2)."""

    feature_names = ("candidate_positions",)

    def __init__(self, num_texts: int):
        super().__init__(num_texts)
        self.num_vectors = 1 + num_texts

    def head_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        positions = features["candidate_positions"][:, : self.num_vectors]
        return gather_vectors(sequence_output, positions)

    def text_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        return self.head_vectors(encoder, sequence_output, features)[:, 1:]


@keras.saving.register_keras_serializable(package="seg_tf")
class MeanOfPieces(TextReadout):
    """The mean over the word pieces of each of `num_texts` texts of one sentence.

    Special tokens do not count. The mean is 0 for a text without pieces.
    """

    feature_names = ("sentence_number",)

    def head_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        number = features["sentence_number"]
        return mean_vectors(sequence_output, number, self.num_texts)[0]


@keras.saving.register_keras_serializable(package="seg_tf")
class PooledSentences(TextReadout):
    """The pooled `<SS>` of `num_texts` texts, or the mean of its parts (ReAT)."""

    feature_names = ("sentence_starts", "given_text")

    def head_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        pooled = encoder.pool(sequence_output, features["sentence_starts"])
        return mean_vectors(pooled, features["given_text"], self.num_texts)[0]
