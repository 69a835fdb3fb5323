"""Text preprocessing that a checkpoint carries: vocabulary, normalization, splitter."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from seg_tf.text.encoding import WORD_PIECES
from seg_tf.text.exact_tokenizer import Normalization

# Beside records, and in a checkpoint.
VOCABULARY_FILE = "vocab.txt"
SENTENCE_PARAMETERS_FILE = "sentence_parameters.json"


@dataclasses.dataclass(frozen=True)
class TextPreparation:
    """Vocabulary, normalization and sentence splitter with which text became records.

    Attributes:
        vocabulary: content of the `vocab.txt`.
        normalization: changes to text before words were looked up.
        sentence_splitter: name and checksum of its parameters, as in a manifest.
        tokenizer: one of `seg_tf.text.encoding.TOKENIZERS`.
        sentence_parameters: those of the splitter, as `PunktParameters.to_bytes`; None
            where the records do not hold them.
    """

    vocabulary: bytes = dataclasses.field(repr=False)
    normalization: Normalization
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
            **self.normalization.described(),
            "sentence_splitter": dict(self.sentence_splitter),
        }
