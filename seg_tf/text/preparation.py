"""Text preprocessing that a checkpoint carries: vocabulary, casing, splitter."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from seg_tf.text.encoding import WORD_PIECES

# Beside records, and in a checkpoint.
VOCABULARY_FILE = "vocab.txt"
SENTENCE_PARAMETERS_FILE = "sentence_parameters.json"


@dataclasses.dataclass(frozen=True)
class TextPreparation:
    """Vocabulary, casing and sentence splitter with which text became records.

    Attributes:
        vocabulary: content of the `vocab.txt`.
        lower_case: whether text was lower-cased and stripped of accents.
        sentence_splitter: name and checksum of its parameters, as in a manifest.
        tokenizer: one of `seg_tf.text.encoding.TOKENIZERS`.
        sentence_parameters: those of the splitter, as `PunktParameters.to_bytes`; None
            where the records do not hold them.
    """

    vocabulary: bytes = dataclasses.field(repr=False)
    lower_case: bool
    sentence_splitter: Mapping[str, Any]
    tokenizer: str = WORD_PIECES
    sentence_parameters: bytes | None = dataclasses.field(default=None, repr=False)

    def files(self) -> dict[str, bytes]:
        """Name -> content of the files that a checkpoint holds."""
        found = {VOCABULARY_FILE: self.vocabulary}
        if self.sentence_parameters is not None:
            found[SENTENCE_PARAMETERS_FILE] = self.sentence_parameters
        return found

    def described(self) -> dict[str, Any]:
        """Values for a checkpoint's config; the rest are files beside it."""
        return {
            "tokenizer": self.tokenizer,
            "lower_case": self.lower_case,
            "sentence_splitter": dict(self.sentence_splitter),
        }
