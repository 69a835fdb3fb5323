"""The cleaning steps. Each drops documents, or lines of them, by one rule."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from data_pipelines import BuildError
from data_pipelines.cleaning import evaluation_texts
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from data_pipelines.cleaning.drop_counts import DropCounter
from data_pipelines.cleaning.evaluation_texts import EvaluationTexts
from data_pipelines.readers import Document
from seg_tf.text.splitters import load_function


class Step:
    """Base class of rules. `name` is the step's name in counts."""

    name: ClassVar[str]

    def apply(
        self, document_id: int, document: Document, counter: DropCounter
    ) -> Document | None:
        """Returns the document, maybe shortened, or None; counts what it drops."""
        why = self.reason(document_id, document)
        if why is None:
            return document
        counter.drop(self.name, document_id, document, document.paragraphs, why)
        return None

    def reason(self, document_id: int, document: Document) -> str | None:
        """Why the document is dropped; None if it stays."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class ShortLines(Step):
    """Drops lines with fewer than `min_words` words."""

    min_words: int
    name = "short_lines"

    def apply(
        self, document_id: int, document: Document, counter: DropCounter
    ) -> Document | None:
        long, short = [], []
        for line in document.paragraphs:
            (long if len(line.split()) >= self.min_words else short).append(line)
        if short:
            counter.drop(self.name, document_id, document, short)
        return dataclasses.replace(document, paragraphs=tuple(long)) if long else None


@dataclasses.dataclass(frozen=True)
class ShortDocuments(Step):
    """Drops documents with fewer than `min_words` words."""

    min_words: int
    name = "short_documents"

    def reason(self, document_id: int, document: Document) -> str | None:
        num_words = sum(len(text.split()) for text in document.paragraphs)
        return f"{num_words} words" if num_words < self.min_words else None


class OtherLanguages(Step):
    """Drops documents in other languages than `options.languages`."""

    name = "language"

    def __init__(self, options: CleaningOptions):
        self._options = options
        self._function_name = options.language_function
        self._function = load_function(options.language_function, "language_function")

    def reason(self, document_id: int, document: Document) -> str | None:
        place = f"{document.source}, {document.location}"
        answer = None
        try:
            answer = self._function("\n".join(document.paragraphs))
            code, confidence = answer, None
            if not isinstance(answer, str):
                code, confidence = str(answer[0]), float(answer[1])
        except Exception as error:
            raise BuildError(
                f"{place}: `language_function` must return a language code, or (code, "
                f"confidence). Received: {answer!r} from {self._function_name}, "
                f"{type(error).__name__}: {error}"
            ) from error
        # Some libraries give logarithms. Without a limit, any number will do.
        limit = self._options.min_language_confidence
        if limit and confidence is not None and not 0 <= confidence <= 1:
            raise BuildError(
                f"{place}: `min_language_confidence` needs confidences between 0 and "
                f"1. Received: {confidence} from {self._function_name}"
            )
        is_certain = not limit or confidence is None or confidence >= limit
        if code in self._options.languages and is_certain:
            return None
        return (
            code if confidence is None else f"{code} with confidence {confidence:.2f}"
        )


@dataclasses.dataclass(frozen=True)
class EvaluationCopies(Step):
    """Drops documents that have a run of words of an evaluation text."""

    texts: EvaluationTexts
    name = "evaluation_texts"

    def reason(self, document_id: int, document: Document) -> str | None:
        return self.texts.find("\n".join(document.paragraphs))


@dataclasses.dataclass(frozen=True)
class Duplicates(Step):
    """Drops documents that repeat an earlier one, by their numbers."""

    duplicate_of: Mapping[int, int]
    name = "duplicates"

    def reason(self, document_id: int, document: Document) -> str | None:
        if document_id not in self.duplicate_of:
            return None
        return f"repeats document {self.duplicate_of[document_id]}"


def steps_of_documents(options: CleaningOptions) -> list[Step]:
    """The steps that look at one document at a time, in their order."""
    steps: list[Step] = []
    if options.min_line_words:
        steps.append(ShortLines(options.min_line_words))
    if options.min_document_words:
        steps.append(ShortDocuments(options.min_document_words))
    if options.language is not None:
        steps.append(OtherLanguages(options))
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
