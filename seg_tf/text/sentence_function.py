"""Sentences by a function of the user's, instead of Punkt."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable
from typing import Any

from seg_tf.text.user_functions import load_function

FUNCTION_FORMAT = "sentence_function"
FUNCTION_PREFIX = "function:"


class SentenceFunctionError(ValueError):
    """A sentence function failed, or its answer is not sentences of the paragraph.

    Attributes:
        paragraph: the paragraph that it was given.
    """

    def __init__(self, message: str, paragraph: str):
        super().__init__(message)
        self.paragraph = paragraph

    def __reduce__(self):
        return SentenceFunctionError, (str(self), self.paragraph)


@dataclasses.dataclass(frozen=True)
class SentenceFunction:
    """A function from a paragraph to its sentences, by name.

    Attributes:
        function: `module:function`.
        named_by: the file that names the function, if nobody else does. Such a function
            is never imported: whoever wrote the file could run any code.
    """

    function: str
    named_by: str | None = dataclasses.field(default=None, compare=False)

    @property
    def name(self) -> str:
        return f"{FUNCTION_PREFIX}{self.function}"

    @functools.cached_property
    def checksum(self) -> str:
        """SHA-256 of the name: what the function does is not known."""
        return hashlib.sha256(self.name.encode()).hexdigest()

    def to_bytes(self) -> bytes:
        """JSON that `read_parameters` reads."""
        content = {
            "format": FUNCTION_FORMAT,
            "format_version": 1,
            "function": self.function,
        }
        return (json.dumps(content, indent=0, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_json(cls, values: dict[str, Any], source: str) -> "SentenceFunction":
        """Reads the content of such a file.

        Raises:
            ValueError: if it names no function.
        """
        function = values.get("function")
        if values.get("format_version") != 1 or not isinstance(function, str):
            raise ValueError(
                f'{source} must have "format_version" 1 and name a "function". '
                f"Received: {values}"
            )
        return cls(function, source)


class FunctionSplitter:
    """Splits a paragraph as a function does, and takes no text away.

    Args:
        parameters: names the function.

    Raises:
        ValueError: if there is no such function, or only a file names it.
    """

    def __init__(self, parameters: SentenceFunction):
        if parameters.named_by is not None:
            raise ValueError(
                "`sentence_function` must name the function that splits text into "
                f"sentences, {parameters.function!r}: {parameters.named_by} names it, "
                "and a function that only a file names is not run. Received: "
                "sentence_function=None. If you trust it, give "
                f"--sentence_function={parameters.function}"
            )
        self.parameters = parameters
        self._function: Callable[[str], Any] = load_function(
            parameters.function, "sentence_parameters"
        )

    @property
    def name(self) -> str:
        return self.parameters.name

    @property
    def parameters_checksum(self) -> str:
        return self.parameters.checksum

    def __reduce__(self):
        return FunctionSplitter, (self.parameters,)

    def split(self, paragraph: str) -> list[str]:
        """The sentences of `paragraph`, in order, stripped, none of them empty."""
        return [paragraph[start:stop] for start, stop in self.spans(paragraph)]

    def spans(self, paragraph: str) -> list[tuple[int, int]]:
        """Start and stop of each sentence of `paragraph`.

        Raises:
            SentenceFunctionError: if the function fails, or returns anything but the
                strings of which the paragraph consists, up to white space.
        """
        spans, end = [], 0
        for sentence in filter(None, map(str.strip, self._answer(paragraph))):
            start = paragraph.find(sentence, end)
            if start < 0 or paragraph[end:start].strip():
                raise self._error(
                    f"returned {sentence!r}, expected what follows at character {end}: "
                    f"{paragraph[end : end + 40].strip()!r}",
                    paragraph,
                )
            end = start + len(sentence)
            spans.append((start, end))
        if paragraph[end:].strip():
            raise self._error(
                f"left out what follows: {paragraph[end : end + 40].strip()!r}",
                paragraph,
            )
        return spans

    def _answer(self, paragraph: str) -> list[str]:
        try:
            answer = self._function(paragraph)
            sentences = answer if isinstance(answer, str) else list(answer)
        except Exception as error:  # Whatever the function does.
            message = f"failed: {type(error).__name__}: {error}"
            raise self._error(message, paragraph) from error
        if isinstance(sentences, str) or not all(
            isinstance(sentence, str) for sentence in sentences
        ):
            raise self._error(
                f"must return a list of strings. Received: {answer!r}", paragraph
            )
        return sentences

    def _error(self, message: str, paragraph: str) -> SentenceFunctionError:
        function = self.parameters.function
        return SentenceFunctionError(
            f"{function}, the function that makes sentences, {message}", paragraph
        )
