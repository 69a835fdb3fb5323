"""Vectors of an encoder's output that stand for the texts of a row.

Three forms, by what the encoder was pretrained to put where: `[CLS]` (BERT, SegaBERT),
`[CLS]` and `[SENT]` (SLM), `<SS>` (ReAT).
"""

# Shape key: B batch, L row length, D width, T texts of an example, N sentences of a
# row, V vectors that a head reads.

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import keras

from seg_tf.ops.gathering import gather_vectors, mean_vectors


class TextReadout(abc.ABC):
    """Picks vectors; has no weights of its own, and Keras can save it.

    Attributes:
        feature_names: features that it reads beside those of the encoder.
        num_vectors: `V`.
        needs_pooler: whether a head has to pool what pretraining trained no pooler
            for.
    """

    feature_names: ClassVar[tuple[str, ...]]
    needs_pooler: ClassVar[bool]
    num_vectors: int

    @abc.abstractmethod
    def head_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        """Input of a head: `(B, V, D)`.

        Args:
            encoder: the encoder.
            sequence_output: float tensor `(B, L, D)`, what it returned.
            features: the batch.
        """

    @abc.abstractmethod
    def text_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        """A vector for each text of a row, in the context of all: `(B, T, D)`."""

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Arguments of the constructor."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return cls(**config)


@keras.saving.register_keras_serializable(package="seg_tf")
class FirstToken(TextReadout):
    """`[CLS]`, as in BERT. Texts that are to have a vector each need rows of their own.

    Pretraining without next sentence prediction trains no pooler, so a head has to
    bring one: a dense layer with tanh, as in BERT's code.
    """

    feature_names = ()
    needs_pooler = True
    num_vectors = 1

    def head_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        return sequence_output[:, :1]

    text_vectors = head_vectors

    def get_config(self) -> dict[str, Any]:
        return {}


class _OfTexts(TextReadout):
    """Base of those with vectors of the texts of a row, known by their number.

    Args:
        num_texts: int. `T`.
    """

    needs_pooler = False

    def __init__(self, num_texts: int):
        self.num_texts = num_texts
        self.num_vectors = num_texts

    def text_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        return self.head_vectors(encoder, sequence_output, features)

    def get_config(self) -> dict[str, Any]:
        return {"num_texts": self.num_texts}


@keras.saving.register_keras_serializable(package="seg_tf")
class SentenceTokens(_OfTexts):
    """`[CLS]` and the `[SENT]` of each text (SLM, section 2.2).

    Args:
        num_texts: int. `T`.
    """

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
class MeanOfPieces(_OfTexts):
    """The mean over the word pieces of each text, special tokens left out.

    Args:
        num_texts: int. `T`.
    """

    feature_names = ("sentence_number",)

    def head_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        """The means; 0 for a text without pieces. A text is one sentence."""
        number = features["sentence_number"]
        return mean_vectors(sequence_output, number, self.num_texts)[0]


@keras.saving.register_keras_serializable(package="seg_tf")
class PooledSentences(_OfTexts):
    """The pooled `<SS>` of each text; the mean over its parts if it has some (ReAT).

    Args:
        num_texts: int. `T`.
    """

    feature_names = ("sentence_starts", "given_text")

    def head_vectors(
        self, encoder: Any, sequence_output: Any, features: Mapping[str, Any]
    ) -> Any:
        pooled = encoder.pool(sequence_output, features["sentence_starts"])
        return mean_vectors(pooled, features["given_text"], self.num_texts)[0]
