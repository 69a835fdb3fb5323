"""Options of the cleaning steps, and their flags."""

import dataclasses
import pathlib
from typing import Any

from absl import flags

from seg_tf import files

EXACT, NEAR = "exact", "near"
_DEFAULT_THRESHOLD = 0.8
_DEFAULT_WORDS = 13


@dataclasses.dataclass(frozen=True, kw_only=True)
class CleaningOptions:
    """Cleaning steps applied to a corpus before records are made; by default none.

    Words are separated by white space.

    SLM's authors left sentences of too few words out of Wikipedia and BookCorpus,
    without saying how many are too few (Lee et al., 2020, appendix, under table 7). C4
    was made with lines of at least 5 words (Raffel et al., 2020, section 2.2).

    Attributes:
        min_line_words: lines (paragraphs) with fewer words are dropped.
        min_document_words: documents with fewer words are dropped; words of lines that
            were dropped do not count.
        language: code of the language to keep, or several, comma-separated.
        language_function: detects the language of a text, as `module:function`.
        min_language_confidence: documents whose language is less certain are dropped,
            where the function says how certain it is.
        evaluation_texts: a file with a text of an evaluation set a line; documents with
            a run of words of one of them are dropped.
        evaluation_words: length of such a run. None is 13, as GPT-3's authors took
            (Brown et al., 2020, appendix C).
        duplicates: `"exact"` drops documents with the words of an earlier one;
            `"near"` also those that nearly repeat one.
        duplicate_threshold: least similarity of near duplicates, as the share of
            word 5-grams that two documents have in common. None is 0.8.
    """

    min_line_words: int = 0
    min_document_words: int = 0
    language: str | None = None
    language_function: str | None = None
    min_language_confidence: float = 0.0
    evaluation_texts: str | None = None
    evaluation_words: int | None = None
    duplicates: str | None = None
    duplicate_threshold: float | None = None

    def __post_init__(self):
        for name in ("min_line_words", "min_document_words"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"`{name}` must not be negative. Received: {getattr(self, name)}"
                )
        self._check_language()
        self._check_evaluation()
        self._check_duplicates()

    def _check_language(self) -> None:
        if (self.language is None) != (self.language_function is None):
            raise ValueError(
                "`language` and `language_function` must be given together: no way to "
                "find a text's language is built in. Received: "
                f"language={self.language!r}, "
                f"language_function={self.language_function!r}"
            )
        if self.language is not None and not all(self.languages):
            raise ValueError(
                "`language` must be a code, or codes with commas between them. "
                f"Received: {self.language!r}"
            )
        if not 0 <= self.min_language_confidence <= 1:
            raise ValueError(
                "`min_language_confidence` must lie between 0 and 1. "
                f"Received: {self.min_language_confidence}"
            )
        if self.min_language_confidence and self.language is None:
            raise ValueError(
                "`min_language_confidence` must be given with `language`. Received: "
                f"min_language_confidence={self.min_language_confidence}, language=None"
            )

    def _check_evaluation(self) -> None:
        if self.evaluation_texts is None:
            if self.evaluation_words is not None:
                raise ValueError(
                    "`evaluation_words` must be given with `evaluation_texts`. "
                    f"Received: evaluation_words={self.evaluation_words}, "
                    "evaluation_texts=None"
                )
            return
        if self.evaluation_words is None:
            object.__setattr__(self, "evaluation_words", _DEFAULT_WORDS)
        if self.evaluation_words < 1:
            raise ValueError(
                "`evaluation_words` must be at least 1. "
                f"Received: {self.evaluation_words}"
            )

    def _check_duplicates(self) -> None:
        if self.duplicates not in (None, EXACT, NEAR):
            raise ValueError(
                f"`duplicates` must be {EXACT!r} or {NEAR!r}. "
                f"Received: {self.duplicates!r}"
            )
        if self.duplicates != NEAR:
            if self.duplicate_threshold is not None:
                raise ValueError(
                    f"`duplicate_threshold` must be given with duplicates={NEAR!r} "
                    f"alone. Received: duplicate_threshold={self.duplicate_threshold}, "
                    f"duplicates={self.duplicates!r}"
                )
            return
        if self.duplicate_threshold is None:
            object.__setattr__(self, "duplicate_threshold", _DEFAULT_THRESHOLD)
        if not 0.1 <= self.duplicate_threshold <= 0.95:
            raise ValueError(
                "`duplicate_threshold` must lie between 0.1 and 0.95 (of documents "
                "that are the same, duplicates='exact' is enough). "
                f"Received: {self.duplicate_threshold}"
            )

    @property
    def languages(self) -> tuple[str, ...]:
        """The codes of `language`."""
        names = (self.language or "").split(",") if self.language is not None else []
        return tuple(name.strip() for name in names)

    def described(self) -> dict[str, Any]:
        """The options of the steps that are on, as a manifest names them.

        Of a file its content counts, not its place.

        Raises:
            OSError: if the evaluation texts cannot be read.
        """
        found = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }
        if self.evaluation_texts is not None:
            path = pathlib.Path(self.evaluation_texts).expanduser()
            found["evaluation_texts"] = f"sha256 {files.checksum(path)}"
        return found

    @property
    def is_on(self) -> bool:
        """True if any step is on."""
        return self != NO_CLEANING


NO_CLEANING = CleaningOptions()
"""Drops nothing."""


def define_flags() -> None:
    """Defines the flags of the cleaning steps."""
    flags.DEFINE_integer(
        "min_line_words",
        0,
        "Drop lines (paragraphs) with fewer words. The SLM paper (appendix) drops "
        "sentences without enough words and gives no number; C4 has lines of 5 words "
        "or more.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "min_document_words",
        0,
        "Drop documents with fewer words, those of dropped lines not counted.",
        lower_bound=0,
    )
    flags.DEFINE_string(
        "language",
        None,
        "Drop documents of other languages than this code, or these: en or en,de. "
        "Needs --language_function.",
    )
    flags.DEFINE_string(
        "language_function",
        None,
        "Language detector, as module:function: a function from a text to a "
        "code, or to (code, confidence).",
    )
    flags.DEFINE_float(
        "min_language_confidence",
        0.0,
        "Drop documents whose language is less certain.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_string(
        "evaluation_texts",
        None,
        "Drop documents that have a run of words of a text of evaluation sets: a file "
        "with a text a line (seg_tf.commands.evaluation_texts).",
    )
    flags.DEFINE_integer(
        "evaluation_words",
        None,
        f"Words of such a run. Default: {_DEFAULT_WORDS}.",
        lower_bound=1,
    )
    flags.DEFINE_enum(
        "duplicates",
        None,
        [EXACT, NEAR],
        "Drop documents that repeat an earlier one. exact: the same words; near: also "
        "nearly the same (MinHash of word 5-grams), for up to a million documents and "
        "--engine=local only. Reads the corpus twice.",
    )
    flags.DEFINE_float(
        "duplicate_threshold",
        None,
        "With --duplicates=near: share of 5-grams in common that makes a duplicate. "
        f"Default: {_DEFAULT_THRESHOLD}.",
        lower_bound=0.1,
        upper_bound=0.95,
    )


def options_from_flags() -> CleaningOptions:
    """The options that the flags describe."""
    names = [field.name for field in dataclasses.fields(CleaningOptions)]
    return CleaningOptions(**{name: flags.FLAGS[name].value for name in names})
