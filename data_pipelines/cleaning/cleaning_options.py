"""Options of the cleaning steps. Their descriptions are the help texts of the flags."""

import dataclasses
import pathlib
from typing import Annotated, Any

from seg_tf import files
from seg_tf.config.base import Count, Range, Whole, check_choice, check_ranges

EXACT, NEAR = "exact", "near"
_Threshold = Annotated[float, Range("lie between 0.1 and 0.95", 0.1, 0.95)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CleaningOptions:
    """Cleaning steps to apply to a corpus before building records. Default: none.

    Each field has a flag of the same name. Words are separated by whitespace.

    Attributes:
        min_line_words: drop lines (paragraphs) with fewer words. C4 keeps lines of at
            least 5 words.
        min_document_words: drop documents with fewer words, not counting dropped lines.
        language: drop documents in languages other than these, given as codes such as
            en or en,de. Needs --language_function.
        language_function: language detector, as module:function. The function maps a
            text to a code or to a sequence that begins with a code.
        evaluation_texts: file of evaluation texts, one per line (from seg-tf
            evaluation-texts). Drop documents that share consecutive words with one.
        evaluation_words: number of consecutive words that count as a copy of an
            evaluation text. The default follows GPT-3 (Brown et al., 2020, appendix C).
        duplicates: drop documents that repeat an earlier one. exact: the same words;
            near: also nearly the same (MinHash of word 5-grams), for up to a million
            documents and --engine=local only. Reads the corpus twice.
        duplicate_threshold: with --duplicates=near, minimum fraction of shared 5-grams
            for a duplicate.
    """

    min_line_words: Whole = 0
    min_document_words: Whole = 0
    language: str | None = None
    language_function: str | None = None
    evaluation_texts: str | None = None
    evaluation_words: Count = 13
    duplicates: str | None = None
    duplicate_threshold: _Threshold = 0.8

    def __post_init__(self):
        check_ranges(self)
        if self.duplicates is not None:
            check_choice("duplicates", self.duplicates, (EXACT, NEAR))
        for name, rule, is_met in (
            (
                "language_function",
                "and `language` must be given together: no way to detect a language is "
                "built in",
                (self.language is None) == (self.language_function is None),
            ),
            (
                "evaluation_words",
                "must be given only with `evaluation_texts`",
                self.evaluation_texts is not None or self.evaluation_words == 13,
            ),
            (
                "duplicate_threshold",
                "must be given only with duplicates='near'",
                self.duplicates == NEAR or self.duplicate_threshold == 0.8,
            ),
        ):
            if not is_met:
                raise ValueError(
                    f"`{name}` {rule}. Received: {name}={getattr(self, name)!r}"
                )

    def described(self) -> dict[str, Any]:
        """Returns non-default options, with a file checksum as `evaluation_texts`."""
        described = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }
        if self.evaluation_texts is not None:
            path = pathlib.Path(self.evaluation_texts).expanduser()
            described["evaluation_texts"] = f"sha256 {files.checksum(path)}"
        return described


NO_CLEANING = CleaningOptions()
"""Options that drop nothing."""
