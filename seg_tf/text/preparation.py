"""Text preprocessing that a checkpoint carries: vocabulary, casing, splitter."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from seg_tf.text.encoding import WORD_PIECES


@dataclasses.dataclass(frozen=True)
class TextPreparation:
    """Vocabulary, casing and sentence splitter with which text became records.

    Attributes:
        vocabulary: content of the `vocab.txt`.
        lower_case: whether text was lower-cased and stripped of accents.
        sentence_splitter: name and checksum of its parameters, as in a manifest.
        tokenizer: one of `seg_tf.text.encoding.TOKENIZERS`.
    """

    vocabulary: bytes = dataclasses.field(repr=False)
    lower_case: bool
    sentence_splitter: Mapping[str, Any]
    tokenizer: str = WORD_PIECES

    def described(self) -> dict[str, Any]:
        """Values for a checkpoint's config; the vocabulary is a file beside it."""
        return {
            "tokenizer": self.tokenizer,
            "lower_case": self.lower_case,
            "sentence_splitter": dict(self.sentence_splitter),
        }
