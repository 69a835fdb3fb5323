"""Normalization that a vocabulary asks for, inferred from its rows.

A row with a capital letter can never be found in text that was lower-cased, and a row
with an accent never in text that was stripped of them. An uncased vocabulary has next
to none of those rows (BERT's has none), a cased one many (more than one in ten), so
the vocabulary itself says how text has to be prepared for it.
"""

import dataclasses
import logging
import re

from absl import flags

from seg_tf.text.exact_tokenizer import (
    CONTINUATION,
    UNCASED,
    Normalization,
    exact_normalizer,
    letter_normalizer,
)
from seg_tf.text.token_table import TokenTable

MAX_UNCASED_SHARE = 0.01
"""The largest share of rows that normalization changes in a vocabulary made with it."""

# `[UNK]`, `[unused1]`, `<eos>`: no text becomes one of these.
_SPECIAL = re.compile(r"\[.+\]|<.+>")


@dataclasses.dataclass(frozen=True)
class Casing:
    """Rows of a vocabulary that normalization of text would change.

    Attributes:
        source: the vocabulary's file.
        num_rows: ordinary rows; special tokens and unused rows do not count.
        num_changed: those that text which is lower-cased and stripped of accents can
            never hold.
        num_with_case: those with a letter that has a capital.
        num_capitals: those that lower-cased text can never hold.
        num_ideographs: those in which an ideograph is part of a longer word.
    """

    source: str
    num_rows: int
    num_changed: int
    num_with_case: int
    num_capitals: int
    num_ideographs: int

    @classmethod
    def of(cls, vocabulary: TokenTable) -> "Casing":
        """Counts the rows of a vocabulary."""
        ordinary = _ordinary_rows(vocabulary)
        split = exact_normalizer(UNCASED).normalize_str
        return cls(
            vocabulary.source,
            len(ordinary),
            _num_changed(ordinary, UNCASED),
            sum(token.upper() != token.lower() for token in ordinary),
            _num_changed(ordinary, Normalization(True, strip_accents=False)),
            sum(
                len(split(token.removeprefix(CONTINUATION)).split()) > 1
                for token in ordinary
                if not token.isascii()
            ),
        )

    @property
    def normalization(self) -> Normalization:
        """The normalization of the text that the vocabulary is of."""
        is_uncased = self.num_changed <= MAX_UNCASED_SHARE * self.num_rows
        # Of rows without case, those of an Indic vocabulary for example, nothing can be
        # told: they do not count.
        is_lower = self.num_capitals <= MAX_UNCASED_SHARE * self.num_with_case
        return Normalization(
            lower_case=is_uncased or (is_lower and self.num_with_case > 0),
            strip_accents=is_uncased,
            split_ideographs=self.num_ideographs <= MAX_UNCASED_SHARE * self.num_rows,
        )

    def __str__(self) -> str:
        return (
            f"{self.num_changed:,} of the {self.num_rows:,} ordinary rows of "
            f"{self.source} have capital letters or accents, {self.num_capitals:,} of "
            "them capital letters"
        )


def choose(
    vocabulary: TokenTable,
    lower_case: bool | None = None,
    strip_accents: bool | None = None,
    split_ideographs: bool | None = None,
) -> Normalization:
    """Returns the normalization of text for a vocabulary.

    Logs a warning where `lower_case` or `strip_accents` contradicts the vocabulary.

    Args:
        vocabulary: word pieces or words.
        lower_case: what the user or a file says; None infers it from the rows.
        strip_accents: likewise; None follows `lower_case` where that is given.
        split_ideographs: likewise; None infers it from the rows.
    """
    casing = Casing.of(vocabulary)
    inferred = casing.normalization
    if split_ideographs is None:
        split_ideographs = inferred.split_ideographs
    if lower_case is None:
        lower_case = inferred.lower_case
        if strip_accents is None:
            strip_accents = inferred.strip_accents
    chosen = Normalization(lower_case, strip_accents, split_ideographs)
    if chosen == inferred:
        return chosen
    num_lost = _num_changed(_ordinary_rows(vocabulary), chosen)
    if num_lost > MAX_UNCASED_SHARE * casing.num_rows:
        logging.warning(
            "`lower_case` is %s and `strip_accents` is %s, and %s: %s of the rows can "
            "never be found in such text. --nolower_case keeps capital letters, "
            "--nostrip_accents keeps accents; without flags, the vocabulary decides",
            *(str(chosen.lower_case).lower(), str(chosen.strip_accents).lower()),
            *(casing, f"{num_lost:,}"),
        )
    has_case = 2 * casing.num_with_case > casing.num_rows
    if inferred.lower_case and not chosen.lower_case and has_case:
        logging.warning(
            "`lower_case` is false, and %s: words of the text that do will be unknown. "
            "For an uncased vocabulary give --lower_case, or neither flag, which lets "
            "the vocabulary decide",
            casing,
        )
    return chosen


def define_flags(lower_case_help: str, lower_case: bool | None = None) -> None:
    """Defines `--lower_case`, `--strip_accents` and `--split_ideographs`.

    Args:
        lower_case_help: help of the first.
        lower_case: default of the first; None where the vocabulary decides.
    """
    follows = "as --lower_case is" + (
        "; if that is not given either, as the vocabulary's rows say"
        if lower_case is None
        else ""
    )
    flags.DEFINE_bool("lower_case", lower_case, lower_case_help)
    flags.DEFINE_bool(
        "strip_accents",
        None,
        "Strip combining marks: accents, but also vowel signs of Indic scripts, "
        "voicing marks of kana, points of Hebrew and Arabic. --nostrip_accents keeps "
        f"them in lower-cased text too. Default: {follows}.",
    )
    flags.DEFINE_bool(
        "split_ideographs",
        None if lower_case is None else True,
        "Make each Chinese character a word."
        + (" Default: as the vocabulary's rows say." if lower_case is None else ""),
    )


def _ordinary_rows(vocabulary: TokenTable) -> list[str]:
    return [token for token in vocabulary.tokens if not _SPECIAL.fullmatch(token)]


def _num_changed(tokens: list[str], normalization: Normalization) -> int:
    normalize = letter_normalizer(normalization).normalize_str
    return sum(normalize(token) != token for token in tokens)
