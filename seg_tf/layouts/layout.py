"""Defines the interfaces of layouts, and of readouts, which select text vectors.

Each kind of row has one layout class, selected by the config of a checkpoint's inputs
(`seg_tf.checkpoints.pretrained.Pretrained.layout`).

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
# Static sizes of the rows of a batch. Each of the few values is compiled once.
RowShape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class TextCapacity:
    """Limits of the text that fits into a pretraining row.

    `num_pieces` excludes special tokens. If `num_sentences` is None, any number fits.
    If `longest_part` is set, sentences with more pieces are split and count as several.
    """

    num_pieces: int
    num_sentences: int | None = None
    longest_part: int | None = None


class Layout(abc.ABC):
    """Base class of layouts, which convert texts to rows of an encoder's features.

    Constructors take the inputs config of a run, the encoder, the vocabulary and
    `max_length`, which defaults to the length in pretraining. `capacity` and `readout`
    raise ValueError if `num_texts` texts cannot fit into a row.

    Attributes:
        max_length: int. Maximum number of positions of an example.
        text_capacity: limits of the text that fits into a row.
        longest_part: int. Maximum number of pieces of a sentence that is not split.
        holds_spans: bool. Whether spans of a text are also spans of positions in a row.
        vectors_per_text: bool. Whether each text of a row has a separate vector.
        sent_id: int or None. Id of the token before each sentence, if any (SLM).
        extra_features: features that `sentence_vectors` reads but the encoder does not.
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
        """Returns the maximum total number of pieces of `num_texts` texts in a row."""

    @abc.abstractmethod
    def rows(self, trees: Trees) -> Features:
        """Converts each row of `trees` to features, padded to a common length."""

    @abc.abstractmethod
    def num_tokens(self, example: Example) -> int:
        """Returns the length of an example in a row, including special tokens."""

    @abc.abstractmethod
    def fits(self, example: Example) -> bool:
        """Returns whether all sentences of an example fit into a row."""

    @abc.abstractmethod
    def row_shape(self, example: Example) -> RowShape:
        """Returns the smallest supported row shape into which an example fits."""

    @abc.abstractmethod
    def lay_out(
        self, examples: Sequence[Example], row_shape: RowShape
    ) -> dict[str, np.ndarray]:
        """Lays out one example per row. All examples must fit into `row_shape`."""

    def read_features(self, rows: Features) -> dict[str, tf.Tensor]:
        """Returns the features of rows that an encoder or head may read."""
        unread = self.unread_features
        return {name: rows[name] for name in rows if name not in unread}

    # === Questions about contexts ===

    def for_spans(self) -> Self:
        """Returns a layout whose rows distinguish question and context."""
        return self

    def piece_starts(self, example: Example) -> np.ndarray:
        """Returns the position of each segment's first piece. Needs `holds_spans`."""
        raise NotImplementedError

    # === Vectors ===

    @abc.abstractmethod
    def readout(self, num_texts: int) -> TextReadout:
        """Returns the readout for examples of `num_texts` texts in one row."""

    @abc.abstractmethod
    def sentence_vectors(
        self, encoder: Any, sequence_output: tf.Tensor, features: Features
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns sentence vectors `(B, M, D)`, 0 at padding, and their mask `(B, M)`.

        `sequence_output`, float `(B, L, D)`, is the output of the encoder for the rows.
        """

    def pooled_output(
        self, sequence_output: tf.Tensor, vectors: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Returns a vector for each row, `(B, D)`, by default the output at `[CLS]`."""
        del vectors, mask
        return sequence_output[:, 0]


class TextReadout(abc.ABC):
    """Base class of readouts, which select the output vectors that represent texts.

    Readouts have no weights, and Keras can save them. `feature_names` are the features
    that `head_vectors` reads. If `needs_pooler` is True, the head must add a pooler,
    because the encoder was pretrained without one.
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
        """Maps the encoder's output `(B, L, D)` to the input of a head, `(B, V, D)`."""

    def get_config(self) -> dict[str, Any]:
        return {"num_texts": self.num_texts}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return cls(**config)


@keras.saving.register_keras_serializable(package="seg_tf")
class FirstToken(TextReadout):
    """Selects the output at `[CLS]`, as in BERT. All texts of a row share it."""

    needs_pooler = True

    def head_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        return sequence_output[:, :1]


@keras.saving.register_keras_serializable(package="seg_tf")
class SentenceTokens(TextReadout):
    """Selects the outputs at `[CLS]` and at each text's `[SENT]` (SLM, section 2.2)."""

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
    """Pools each `<SS>` output, and averages over the parts of each text (ReAT)."""

    feature_names = ("sentence_starts", "given_text")

    def head_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        pooled = encoder.pool(sequence_output, features["sentence_starts"])
        return mean_vectors(pooled, features["given_text"], self.num_texts)[0]
