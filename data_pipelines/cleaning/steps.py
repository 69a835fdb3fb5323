"""The cleaning steps, each of which drops documents, or lines of them, by one rule."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from data_pipelines import BuildError
from data_pipelines.cleaning import evaluation_texts, language
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from data_pipelines.cleaning.drop_counts import DropCounter
from data_pipelines.cleaning.evaluation_texts import EvaluationTexts
from data_pipelines.readers import Document
from seg_tf.text.splitters import load_function


class Step(Protocol):
    """One rule.

    Attributes:
        name: what counts call it.
    """

    name: str

    def apply(
        self, document_id: int, document: Document, counter: DropCounter
    ) -> Document | None:
        """Returns the document without what it drops, or None; counts what it drops."""


def num_words(text: str) -> int:
    """Number of words, which white space separates."""
    return len(text.split())


@dataclasses.dataclass(frozen=True)
class ShortLines:
    """Drops lines with fewer than `min_words` words."""

    min_words: int
    name = "short_lines"

    def apply(
        self, document_id: int, document: Document, counter: DropCounter
    ) -> Document | None:
        dropped = [
            line for line in document.paragraphs if num_words(line) < self.min_words
        ]
        if not dropped:
            return document
        counter.drop_lines(self.name, document_id, document, dropped)
        kept = tuple(
            line for line in document.paragraphs if num_words(line) >= self.min_words
        )
        return dataclasses.replace(document, paragraphs=kept) if kept else None


@dataclasses.dataclass(frozen=True)
class ShortDocuments:
    """Drops documents with fewer than `min_words` words."""

    min_words: int
    name = "short_documents"

    def apply(
        self, document_id: int, document: Document, counter: DropCounter
    ) -> Document | None:
        found = sum(map(num_words, document.paragraphs))
        if found >= self.min_words:
            return document
        counter.drop_document(self.name, document_id, document, f"{found} words")
        return None


class OtherLanguages:
    """Drops documents that are not of one of some languages.

    Args:
        languages: codes to keep.
        function_name: `module:function`, from a text to a code or (code, confidence).
        min_confidence: documents whose code is less certain are dropped.

    Raises:
        ValueError: if there is no such function.
    """

    name = "language"

    def __init__(
        self, languages: Sequence[str], function_name: str, min_confidence: float
    ):
        self._languages = languages
        self._function_name = function_name
        self._function = load_function(function_name, "language_function")
        self._min_confidence = min_confidence

    def apply(
        self, document_id: int, document: Document, counter: DropCounter
    ) -> Document | None:
        place = f"{document.source}, {document.location}"
        try:
            answer = self._function("\n".join(document.paragraphs))
        except Exception as error:
            raise BuildError(
                f"{place}: {self._function_name}, the `language_function`, failed: "
                f"{type(error).__name__}: {error}"
            ) from error
        try:
            code, confidence = language.code_and_confidence(self._function_name, answer)
        except ValueError as error:
            raise BuildError(f"{place}: {error}") from error
        if code in self._languages and self._is_certain(confidence, place):
            return document
        sure = "" if confidence is None else f" with confidence {confidence:.2f}"
        counter.drop_document(self.name, document_id, document, f"{code}{sure}")
        return None

    def _is_certain(self, confidence: float | None, place: str) -> bool:
        # Some libraries give logarithms. Where nobody asks, any number will do.
        if confidence is None or not self._min_confidence:
            return True
        if not 0 <= confidence <= 1:
            raise BuildError(
                f"{place}: `min_language_confidence` needs confidences between 0 and "
                f"1. Received: {confidence} from {self._function_name}"
            )
        return confidence >= self._min_confidence


@dataclasses.dataclass(frozen=True)
class EvaluationCopies:
    """Drops documents that have a run of words of an evaluation text."""

    texts: EvaluationTexts
    name = "evaluation_texts"

    def apply(
        self, document_id: int, document: Document, counter: DropCounter
    ) -> Document | None:
        found = self.texts.find("\n".join(document.paragraphs))
        if found is None:
            return document
        counter.drop_document(self.name, document_id, document, found)
        return None


@dataclasses.dataclass(frozen=True)
class Duplicates:
    """Drops documents that were found to repeat an earlier one.

    Attributes:
        duplicate_of: number of a document to drop -> of the one that it repeats.
    """

    duplicate_of: Mapping[int, int]
    name = "duplicates"

    def apply(
        self, document_id: int, document: Document, counter: DropCounter
    ) -> Document | None:
        earlier = self.duplicate_of.get(document_id)
        if earlier is None:
            return document
        why = f"repeats document {earlier}"
        counter.drop_document(self.name, document_id, document, why)
        return None


def steps_of_documents(options: CleaningOptions) -> list[Step]:
    """The steps that look at one document at a time, in their order.

    Raises:
        ValueError: if there is no such language function, or the evaluation texts
            cannot be used.
        OSError: if the evaluation texts cannot be read.
    """
    steps: list[Step] = []
    if options.min_line_words:
        steps.append(ShortLines(options.min_line_words))
    if options.min_document_words:
        steps.append(ShortDocuments(options.min_document_words))
    if options.language is not None:
        steps.append(
            OtherLanguages(
                options.languages,
                options.language_function,
                options.min_language_confidence,
            )
        )
    if options.evaluation_texts is not None:
        steps.append(EvaluationCopies(evaluation_texts.load(options)))
    return steps


def clean(
    documents: Iterable[tuple[int, Document]],
    steps: Sequence[Step],
    counter: DropCounter,
) -> Iterator[tuple[int, Document]]:
    """Yields numbered documents as the steps leave them."""
    for document_id, document in documents:
        counter.see(document)
        for step in steps:
            document = step.apply(document_id, document, counter)
            if document is None:
                break
        else:
            yield document_id, document
