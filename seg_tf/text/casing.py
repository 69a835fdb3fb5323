"""Casing of a vocabulary: whether text is lower-cased before words are looked up.

A row with a capital letter or an accent can never be found in text that was
lower-cased and stripped of accents. An uncased vocabulary has next to none of those
rows (BERT's has none), a cased one many (more than one in ten), so the vocabulary
itself says how text has to be prepared for it.
"""

import dataclasses
import logging
import re

from seg_tf.text.exact_tokenizer import letter_normalizer
from seg_tf.text.token_table import TokenTable

MAX_UNCASED_SHARE = 0.01
"""The largest share of rows that lower-casing changes in an uncased vocabulary."""

# `[UNK]`, `[unused1]`, `<eos>`: no text becomes one of these.
_SPECIAL = re.compile(r"\[.+\]|<.+>")


@dataclasses.dataclass(frozen=True)
class Casing:
    """Rows of a vocabulary that lower-casing and accent stripping would change.

    Attributes:
        source: the vocabulary's file.
        num_rows: ordinary rows; special tokens and unused rows do not count.
        num_changed: those of them that lower-cased text can never hold.
    """

    source: str
    num_rows: int
    num_changed: int

    @classmethod
    def of(cls, vocabulary: TokenTable) -> "Casing":
        """Counts the rows of a vocabulary."""
        normalize = letter_normalizer(True).normalize_str
        ordinary = [
            token for token in vocabulary.tokens if not _SPECIAL.fullmatch(token)
        ]
        num_changed = sum(normalize(token) != token for token in ordinary)
        return cls(vocabulary.source, len(ordinary), num_changed)

    @property
    def is_uncased(self) -> bool:
        """True if text is to be lower-cased and stripped of accents."""
        return self.num_changed <= MAX_UNCASED_SHARE * self.num_rows

    def __str__(self) -> str:
        return (
            f"{self.num_changed:,} of the {self.num_rows:,} ordinary rows of "
            f"{self.source} have capital letters or accents"
        )


def choose(vocabulary: TokenTable, lower_case: bool | None = None) -> bool:
    """Return whether text has to be lower-cased for a vocabulary.

    Logs a warning where `lower_case` contradicts the vocabulary.

    Args:
        vocabulary: word pieces or words.
        lower_case: what the user or a file says; None infers it from the rows.

    Returns:
        `lower_case`, or where it is None whether the vocabulary is uncased.
    """
    casing = Casing.of(vocabulary)
    if lower_case is None:
        return casing.is_uncased
    if lower_case and not casing.is_uncased:
        logging.warning(
            "`lower_case` is true, and %s: lower-cased text can never hold these. For "
            "a cased vocabulary give --nolower_case, or neither flag, which lets the "
            "vocabulary decide",
            casing,
        )
    if not lower_case and casing.is_uncased and _has_letters_with_case(vocabulary):
        logging.warning(
            "`lower_case` is false, and %s: words of the text that do will be unknown. "
            "For an uncased vocabulary give --lower_case, or neither flag, which lets "
            "the vocabulary decide",
            casing,
        )
    return bool(lower_case)


def _has_letters_with_case(vocabulary: TokenTable) -> bool:
    """True if most ordinary rows could be written in capitals."""
    ordinary = [token for token in vocabulary.tokens if not _SPECIAL.fullmatch(token)]
    return 2 * sum(token != token.upper() for token in ordinary) > len(ordinary)
