"""Creates the sentence splitters that flags select, including user functions."""

import dataclasses
import functools
import hashlib
import importlib
import json
import pathlib
from collections.abc import Callable
from typing import Any

from seg_tf import files
from seg_tf.text.punkt import SentenceSplitter, Splitter
from seg_tf.text.punkt_parameters import PunktParameters

FUNCTION_FORMAT = "sentence_function"
FUNCTION_PREFIX = "function:"
_MAX_BYTES = 2**28

# Help texts of the flags that select parameters.
PARAMETERS_HELP = (
    "Punkt parameters: english (built in), universal (no abbreviations; also for "
    "scripts without spaces), a JSON file, or a language's folder of NLTK's punkt_tab. "
    "Or function:MODULE:NAME, a Python function from a paragraph to a list of its "
    "sentences, which exported models do not support."
)
FUNCTION_HELP = (
    "MODULE:NAME of the Python function that a file of sentence parameters, such as "
    "a checkpoint's, may use. Such a function runs only if this flag names it as well."
)


class SentenceFunctionError(ValueError):
    """Raised if a sentence function fails on `paragraph` or changes its text."""

    def __init__(self, message: str, paragraph: str):
        super().__init__(message, paragraph)
        self.paragraph = paragraph

    def __str__(self) -> str:
        return self.args[0]


@dataclasses.dataclass(frozen=True)
class SentenceFunction:
    """The name `module:function` of a function that splits paragraphs into sentences.

    `named_by` is the file that names the function, or None if the user named it. A
    function named only by a file is never imported, because it could run any code.
    """

    function: str
    named_by: str | None = dataclasses.field(default=None, compare=False)

    @property
    def name(self) -> str:
        return f"{FUNCTION_PREFIX}{self.function}"

    @functools.cached_property
    def checksum(self) -> str:
        """SHA-256 of the name. It does not depend on the code of the function."""
        return hashlib.sha256(self.name.encode()).hexdigest()

    def to_bytes(self) -> bytes:
        """Serializes the name as JSON for `read_parameters`."""
        content = {
            "format": FUNCTION_FORMAT,
            "format_version": 1,
            "function": self.function,
        }
        return (json.dumps(content, indent=0, ensure_ascii=False) + "\n").encode()


class FunctionSplitter(Splitter):
    """Splits paragraphs with a user function.

    Raises a ValueError if only a file names the function, or if it cannot be imported.
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
        super().__init__(parameters)
        self._function: Callable[[str], Any] = load_function(
            parameters.function, "sentence_parameters"
        )

    def spans(self, paragraph: str) -> list[tuple[int, int]]:
        function = self.parameters.function

        def error(message: str) -> SentenceFunctionError:
            return SentenceFunctionError(
                f"{function}, the function that splits sentences, {message}", paragraph
            )

        try:
            answer = self._function(paragraph)
            if isinstance(answer, str):
                raise TypeError(f"expected a list of strings, found {answer!r}")
            sentences = list(filter(None, map(str.strip, answer)))
        except Exception as fault:  # The function may raise anything.
            raise error(f"failed: {type(fault).__name__}: {fault}") from fault
        spans, end = [], 0
        for sentence in sentences:
            start = paragraph.find(sentence, end)
            if start < 0 or paragraph[end:start].strip():
                raise error(
                    f"returned {sentence!r}, expected what follows at character {end}: "
                    f"{paragraph[end : end + 40].strip()!r}"
                )
            end = start + len(sentence)
            spans.append((start, end))
        if rest := paragraph[end:].strip():
            raise error(f"left out what follows: {rest[:40]!r}")
        return spans


SentenceParameters = PunktParameters | SentenceFunction


def make_splitter(parameters: SentenceParameters) -> Splitter:
    """Returns the `FunctionSplitter` or `SentenceSplitter` for these parameters."""
    if isinstance(parameters, SentenceFunction):
        return FunctionSplitter(parameters)
    return SentenceSplitter(parameters)


def load_parameters(
    name_or_path: SentenceParameters | str, sentence_function: str | None = None
) -> SentenceParameters:
    """Loads the sentence parameters that a flag names. See `PARAMETERS_HELP`.

    A name is "english", "universal", "function:MODULE:NAME", or a path. Parameters are
    returned unchanged. See `read_parameters` for `sentence_function` and errors.
    """
    if not isinstance(name_or_path, str):
        return name_or_path
    if name_or_path == "english":
        return PunktParameters.english()
    if name_or_path == "universal":
        return PunktParameters.universal()
    if name_or_path.startswith(FUNCTION_PREFIX):
        return SentenceFunction(name_or_path.removeprefix(FUNCTION_PREFIX))
    path = pathlib.Path(name_or_path)
    if path.is_dir():
        return PunktParameters.from_punkt_tab(path)
    return read_parameters(path, sentence_function)


def read_parameters(
    path: pathlib.Path, sentence_function: str | None = None
) -> SentenceParameters:
    """Reads a JSON file of sentence parameters.

    `sentence_function` is the only function that the file may name. If it is None,
    `make_splitter` will reject a function that the file names. Raises a `ValueError` if
    the file is missing or invalid, or names another function.
    """
    if not path.is_file():
        raise ValueError(
            "`sentence_parameters` must be 'english', 'universal', a JSON file of "
            "Punkt parameters, a `punkt_tab` folder of one language, or 'function:' "
            f"and a Python function. Received: {str(path)!r}"
        )
    values = files.read_json(path, _MAX_BYTES)
    if not isinstance(values, dict) or values.get("format") != FUNCTION_FORMAT:
        return PunktParameters.from_json(values, str(path))
    function = values.get("function")
    if not isinstance(function, str) or sentence_function not in (None, function):
        raise ValueError(
            f"`sentence_function` must be the function that {path} names, "
            f"{function!r}. Received: {sentence_function!r}"
        )
    return SentenceFunction(function, None if sentence_function else str(path))


def load_function(name: str, argument: str) -> Callable[[str], object]:
    """Imports a user function, given its name as `module:function`.

    If that fails, raises a ValueError whose message names `argument`.
    """
    module_name, _, function_name = name.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except Exception as error:  # The module may raise anything.
        raise ValueError(
            f"`{argument}` must be a function, as `module:function`, whose module is "
            "in the current folder or in PYTHONPATH. "
            f"Received: {name!r} ({type(error).__name__}: {error})"
        ) from error
    if not callable(function):
        raise ValueError(
            f"`{argument}` must name a function. Received: {name!r}, which is a "
            f"{type(function).__name__}"
        )
    return function
