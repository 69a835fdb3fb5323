"""How text became word pieces: what whoever uses a model on text has to repeat."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class TextPreparation:
    """What the records of a run were made with, beside the text itself.

    Attributes:
        vocabulary: content of the `vocab.txt`.
        lower_case: whether text was lower-cased and stripped of accents.
        sentence_splitter: name and checksum of its parameters, as in a manifest.
    """

    vocabulary: bytes = dataclasses.field(repr=False)
    lower_case: bool
    sentence_splitter: Mapping[str, Any]
