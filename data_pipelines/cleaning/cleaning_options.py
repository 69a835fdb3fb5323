"""Options of the cleaning steps. Their descriptions are the help texts of the flags."""

import dataclasses
from typing import Any

from seg_tf.config.base import Whole, check_ranges

EXACT, NEAR = "exact", "near"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CleaningOptions:
    """Cleaning steps to apply to a corpus before building records. Default: none.

    Each field has a flag of the same name.
    Words are separated by whitespace.

    Attributes:
        min_line_words: drop lines (paragraphs) with fewer words. C4 keeps lines of at
            least 5 words.
        min_document_words: drop documents with fewer words, not counting dropped lines.
        language: drop documents in languages other than these codes, such as en or
            en,de. Needs --language_function.
        language_function: language detector, as module:function. The function maps a
            text to a code or to a sequence that begins with a code.
        duplicates: drop documents that repeat an earlier one. exact: the same words;
            near: also 80 % of the word 5-grams (by MinHash), for up to a million
            documents and --engine=local only. Reads the corpus twice.
    """

    min_line_words: Whole = 0
    min_document_words: Whole = 0
    language: str | None = None
    language_function: str | None = None
    duplicates: str | None = None

    def __post_init__(self):
        check_ranges(self)
        for name, rule, is_met in (
            (
                "language_function",
                "and `language` must be given together: no way to detect a language is "
                "built in",
                (self.language is None) == (self.language_function is None),
            ),
            (
                "duplicates",
                f"must be {EXACT!r} or {NEAR!r}",
                self.duplicates in (None, EXACT, NEAR),
            ),
        ):
            if not is_met:
                raise ValueError(
                    f"`{name}` {rule}. Received: {name}={getattr(self, name)!r}"
                )

    @property
    def languages(self) -> tuple[str, ...]:
        """The language codes in `language`."""
        return tuple(name.strip() for name in (self.language or "").split(","))

    def described(self) -> dict[str, Any]:
        """Returns the options that differ from the defaults."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }

    @property
    def is_on(self) -> bool:
        """True if any cleaning step is on."""
        return self != NO_CLEANING


NO_CLEANING = CleaningOptions()
"""Options that drop nothing."""
