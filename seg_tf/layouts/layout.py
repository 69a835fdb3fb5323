"""The interface of a row form: rows of texts, and the vectors that represent them.

Each form has one class, created for a checkpoint by the config of its inputs
(`seg_tf.checkpoints.pretrained.Pretrained.layout`). Fine-tuning, inference and export
use it without knowing the model.

Shape key: B rows, L row length, M sentences, D width, V vectors that a head reads.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import keras
import numpy as np
import tensorflow as tf

from seg_tf.ops.attention import gather_vectors, mean_vectors

if TYPE_CHECKING:
    from seg_tf.layouts.rows import Example
    from seg_tf.text.graph.trees import Trees

Features = Mapping[str, tf.Tensor]
# Static sizes of a batch's rows. There are few values, and each is compiled once.
RowShape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class TextCapacity:
    """The part of a document that fits into a row of pretraining.

    Any number of sentences fits if `num_sentences` is None. Sentences longer than
    `longest_part` count as several.
    """

    num_pieces: int
    num_sentences: int | None = None
    longest_part: int | None = None


class Layout(abc.ABC):
    """Rows of one form.

    Constructors have the arguments config of a run's inputs, encoder, vocabulary, and
    `max_length`, the maximum length of an example; None uses that of pretraining.

    Attributes:
        max_length: maximum number of positions of an example.
        text_capacity: the part of a document that fits into a row.
        longest_part: maximum number of pieces of a sentence that stays whole.
        holds_spans: whether an answer is a span of positions of a row.
        vectors_per_text: whether a row of several texts has a vector for each.
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
        """Maximum number of word pieces of an example of `num_texts` texts."""

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
        """Rows of fixed sizes, one for each example; a ValueError if one is larger."""

    def read_features(self, rows: Features) -> dict[str, tf.Tensor]:
        """The features of rows that an encoder or a head may read."""
        unread = self.unread_features
        return {name: rows[name] for name in rows if name not in unread}

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

        `sequence_output`, float `(B, L, D)`, is the encoder's output for the rows.
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
    """Picks the vectors of texts, as the encoder was pretrained.

    It has no weights, and Keras can save it. `needs_pooler` tells whether a head has to
    add the pooler that pretraining lacked.
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

    def get_config(self) -> dict[str, Any]:
        return {"num_texts": self.num_texts}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return cls(**config)


@keras.saving.register_keras_serializable(package="seg_tf")
class FirstToken(TextReadout):
    """`[CLS]`, as in BERT. Vectors of several texts need a row for each."""

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


@keras.saving.register_keras_serializable(package="seg_tf")
class PooledSentences(TextReadout):
    """The pooled `<SS>` of `num_texts` texts, or the mean of its parts (ReAT)."""

    feature_names = ("sentence_starts", "given_text")

    def head_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        pooled = encoder.pool(sequence_output, features["sentence_starts"])
        return mean_vectors(pooled, features["given_text"], self.num_texts)[0]
