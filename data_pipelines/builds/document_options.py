"""Options of a document build."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from data_pipelines.cleaning.cleaning_options import NO_CLEANING, CleaningOptions
from seg_tf.text import encoding
from seg_tf.text.normalization import Normalization
from seg_tf.text.splitters import SentenceParameters


@dataclasses.dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """Settings that determine the records of a document build.

    Attributes:
        format: name of a reader.
        reader_options: options of that reader.
        input: file, folder or glob, or another input that the format accepts, or
            several with commas.
        vocab_file: a file with a token a line.
        tokenizer: one of `seg_tf.text.encoding.TOKENIZERS`.
        lower_case: whether text is lower-cased. What is None follows the vocabulary
            (`seg_tf.text.normalization.choose`).
        strip_accents: whether text is stripped of accents.
        split_ideographs: whether each Chinese character is a word.
        sentence_parameters: those of the splitter, or what `load_parameters` takes.
        validation_input: file, folder or glob of the validation split, where the
            corpus comes with one; all of `input` is the training split then.
        validation_fraction: every `1 / validation_fraction`-th document of `input` is
            held out; 0 holds out none. None is 0.01, or nothing where there is a
            `validation_input`.
        slice_megabytes: text of one slice, which becomes a shard of each split, in
            millions of characters.
        strict: whether a rejected document stops the build.
        max_rejected_share: the share of the corpus that may be lost, see
            `data_pipelines.builds.losses`; a build that loses more ends with an error.
        cleaning: the cleaning steps.
    """

    format: str
    input: str
    vocab_file: str
    reader_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tokenizer: str = encoding.WORD_PIECES
    lower_case: bool | None = None
    strip_accents: bool | None = None
    split_ideographs: bool | None = None
    sentence_parameters: SentenceParameters | str = "english"
    validation_input: str | None = None
    validation_fraction: float | None = None
    slice_megabytes: float = 8.0
    strict: bool = False
    max_rejected_share: float = 0.05
    cleaning: CleaningOptions = NO_CLEANING

    def __post_init__(self):
        encoding.check_tokenizer(self.tokenizer)
        self._check_validation()
        if self.slice_megabytes <= 0:
            raise ValueError(
                f"`slice_megabytes` must be positive. Received: {self.slice_megabytes}"
            )
        if not 0 <= self.max_rejected_share <= 1:
            raise ValueError(
                "`max_rejected_share` must lie between 0 and 1. Received: "
                f"{self.max_rejected_share}"
            )

    def _check_validation(self) -> None:
        if self.validation_input is not None:
            if self.validation_fraction is not None:
                raise ValueError(
                    "`validation_fraction` must not be given with `validation_input`, "
                    "which is the whole validation split. Received: "
                    f"validation_fraction={self.validation_fraction}, "
                    f"validation_input={self.validation_input!r}"
                )
            return
        if self.validation_fraction is None:
            object.__setattr__(self, "validation_fraction", 0.01)
        if not 0 <= self.validation_fraction <= 0.5:
            raise ValueError(
                "`validation_fraction` must lie between 0 and 0.5. "
                f"Received: {self.validation_fraction}"
            )

    @property
    def normalization(self) -> Normalization:
        """Changes to text before words are looked up, once the vocabulary is known."""
        return Normalization(self.lower_case, self.strip_accents, self.split_ideographs)

    @property
    def slice_characters(self) -> int:
        """Characters that end a slice."""
        return int(self.slice_megabytes * 1e6)

    def split_of(self, document_id: int, source: str) -> str:
        """The split of a document: what its source is for, or every N-th is held out.

        With a `validation_input`, names of sources begin with their split
        (`list_sources`). Otherwise the second document is the first to be held out, so
        even a corpus of two documents has one to validate on.
        """
        if self.validation_input is not None:
            return source.partition("/")[0]
        if not self.validation_fraction:
            return "train"
        every = round(1 / self.validation_fraction)
        return "validation" if document_id % every == 1 else "train"
