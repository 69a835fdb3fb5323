"""Cleaning steps, each of which drops documents, or lines of documents, by one rule."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from data_pipelines import BuildError
from data_pipelines.cleaning import evaluation_texts
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from data_pipelines.cleaning.drop_counts import DropCounter
from data_pipelines.readers import Document
from seg_tf.text.splitters import load_function


@dataclasses.dataclass(frozen=True)
class Step:
    """A rule that drops documents. `name` identifies it in counts.

    `reason` maps an id and a document to the reason to drop it, or None to keep it.
    """

    name: str
    reason: Callable[[int, Document], str | None]

    def apply(
        self, document_id: int, document: Document, counter: DropCounter
    ) -> Document | None:
        """Returns the document, or None if it is dropped. Counts dropped documents."""
        why = self.reason(document_id, document)
        if why is None:
            return document
        counter.drop(self.name, document_id, document, document.paragraphs, why)
        return None


@dataclasses.dataclass(frozen=True)
class ShortLines:
    """Drops lines with fewer than `min_words` words, then documents without lines."""

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


def other_languages(options: CleaningOptions) -> Step:
    """Returns a step that drops documents in languages not in `options.language`.

    Raises ValueError if `options.language_function` cannot be loaded. The step raises
    BuildError if that function fails or returns no language code.
    """
    name = options.language_function
    function = load_function(name, "language_function")
    languages = {code.strip() for code in str(options.language).split(",")}

    def reason(_: int, document: Document) -> str | None:
        answer = None
        try:
            answer = function("\n".join(document.paragraphs))
            code = answer if isinstance(answer, str) else str(answer[0])
        except Exception as error:
            raise BuildError(
                f"{document.source}, {document.location}: `language_function` must "
                "return a language code, or (code, confidence). Received: "
                f"{answer!r} from {name}, {type(error).__name__}: {error}"
            ) from error
        return None if code in languages else code

    return Step("language", reason)


def duplicates(duplicate_of: Mapping[int, int]) -> Step:
    """Returns a step that drops the documents whose ids are keys of `duplicate_of`."""

    def reason(document_id: int, _: Document) -> str | None:
        earlier = duplicate_of.get(document_id)
        return None if earlier is None else f"repeats document {earlier}"

    return Step("duplicates", reason)


def steps_of_documents(options: CleaningOptions) -> list[Step | ShortLines]:
    """Returns the selected steps in order, except the step that drops duplicates.

    For errors, see `other_languages` and `evaluation_texts.load`.
    """

    def few_words(_: int, document: Document) -> str | None:
        num_words = sum(len(text.split()) for text in document.paragraphs)
        return f"{num_words} words" if num_words < options.min_document_words else None

    steps: list[Step | ShortLines] = []
    if options.min_line_words:
        steps.append(ShortLines(options.min_line_words))
    if options.min_document_words:
        steps.append(Step("short_documents", few_words))
    if options.language is not None:
        steps.append(other_languages(options))
    if options.evaluation_texts is not None:
        find = evaluation_texts.load(options).find
        steps.append(
            Step("evaluation_texts", lambda _, text: find("\n".join(text.paragraphs)))
        )
    return steps


def clean(
    documents: Iterable[tuple[int, Document]],
    steps: Sequence[Step | ShortLines],
    counter: DropCounter,
) -> Iterator[tuple[int, Document]]:
    """Yields the numbered documents that the steps keep. `counter` counts the drops."""
    for document_id, document in documents:
        counter.see(document)
        for step in steps:
            document = step.apply(document_id, document, counter)
            if document is None:
                break
        else:
            yield document_id, document
