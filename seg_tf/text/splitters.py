"""Splitters of paragraphs into sentences: how flags name them, and users' functions."""

import dataclasses
import functools
import hashlib
import importlib
import importlib.util
import itertools
import json
import pathlib
import types
import zipfile
from collections.abc import Callable
from typing import Any, Self

from seg_tf import files
from seg_tf.text.punkt import SentenceSplitter, Splitter
from seg_tf.text.punkt_parameters import PunktParameters

FUNCTION_FORMAT = "sentence_function"
FUNCTION_PREFIX = "function:"
_NLTK_PREFIX = "nltk:"
_MAX_BYTES = 2**28

# Help of the flags that name parameters.
PARAMETERS_HELP = (
    "Punkt parameters: english (built in), universal (no abbreviations; also for "
    "scripts without spaces), a JSON file, a punkt_tab folder, or nltk:LANGUAGE for an "
    "installed punkt_tab. Or function:MODULE:NAME, a Python function from a paragraph "
    "to a list of its sentences, which an exported model cannot hold."
)
FUNCTION_HELP = (
    "MODULE:NAME of the Python function that a file of sentence parameters, such as a "
    "checkpoint's, may name. Such a function runs only if this flag names it too."
)

# Patterns that, if all of a line match, identify a folder that somebody else may have
# written.
_MARKS = {
    "a checkpoint": ("state.json", "encoder.weights.h5"),
    "records": ("manifest.json", "sentence_parameters.json"),
    "a run": ("checkpoints/update-*",),
}


class SentenceFunctionError(ValueError):
    """A sentence function failed, or did not return the sentences of `paragraph`."""

    def __init__(self, message: str, paragraph: str):
        super().__init__(message, paragraph)
        self.paragraph = paragraph

    def __str__(self) -> str:
        return self.args[0]


@dataclasses.dataclass(frozen=True)
class SentenceFunction:
    """A function from a paragraph to its sentences, `module:function`, by name.

    `named_by` is the file that names the function, if nothing else does. Such a
    function is never imported, because the author of the file could run any code.
    """

    function: str
    named_by: str | None = dataclasses.field(default=None, compare=False)

    @property
    def name(self) -> str:
        return f"{FUNCTION_PREFIX}{self.function}"

    @functools.cached_property
    def checksum(self) -> str:
        """SHA-256 of the name; nothing is known about what the function does."""
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
    def from_json(cls, values: dict[str, Any], source: str) -> Self:
        """Parses the content of such a file; a ValueError if it names no function."""
        function = values.get("function")
        if values.get("format_version") != 1 or not isinstance(function, str):
            raise ValueError(
                f'{source} must have "format_version" 1 and name a "function". '
                f"Received: {values}"
            )
        return cls(function, source)


class FunctionSplitter(Splitter):
    """Splits a paragraph with a function, and checks that no text is lost.

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
        super().__init__(parameters)
        self._function: Callable[[str], Any] = load_function(
            parameters.function, "sentence_parameters"
        )

    def spans(self, paragraph: str) -> list[tuple[int, int]]:
        """Start and stop of each sentence of `paragraph`.

        Raises:
            SentenceFunctionError: if the function fails, or returns anything but the
                strings that the paragraph consists of, up to white space.
        """
        function = self.parameters.function

        def error(message: str) -> SentenceFunctionError:
            return SentenceFunctionError(
                f"{function}, the function that makes sentences, {message}", paragraph
            )

        try:
            answer = self._function(paragraph)
            sentences = [answer] if isinstance(answer, str) else list(answer)
        except Exception as fault:  # The function may raise anything.
            raise error(f"failed: {type(fault).__name__}: {fault}") from fault
        if isinstance(answer, str) or not all(isinstance(x, str) for x in sentences):
            raise error(f"must return a list of strings. Received: {answer!r}")
        spans, end = [], 0
        for sentence in filter(None, map(str.strip, sentences)):
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
    """Returns the splitter of paragraphs with these parameters.

    Raises:
        ValueError: if they name a missing function, or one that only a file names.
    """
    if isinstance(parameters, SentenceFunction):
        return FunctionSplitter(parameters)
    return SentenceSplitter(parameters)


def load_parameters(
    name_or_path: SentenceParameters | str, sentence_function: str | None = None
) -> SentenceParameters:
    """Loads the parameters that the value of a flag names (`PARAMETERS_HELP`).

    Parameters are returned unchanged. `sentence_function` is as for `read_parameters`.
    A ValueError is raised if there are no such parameters, or they cannot be read.
    """
    if not isinstance(name_or_path, str):
        return name_or_path
    if name_or_path == "english":
        return PunktParameters.english()
    if name_or_path == "universal":
        return PunktParameters.universal()
    if name_or_path.startswith(_NLTK_PREFIX):
        return _from_nltk_data(name_or_path.removeprefix(_NLTK_PREFIX))
    if name_or_path.startswith(FUNCTION_PREFIX):
        return SentenceFunction(name_or_path.removeprefix(FUNCTION_PREFIX))
    path = pathlib.Path(name_or_path)
    if path.is_dir():
        return PunktParameters.from_punkt_tab(path)
    if path.is_file():
        return read_parameters(path, sentence_function)
    raise ValueError(
        "`sentence_parameters` must be 'english', 'universal', a JSON file of Punkt "
        "parameters, a `punkt_tab` folder of one language, 'nltk:' and a language, or "
        f"'function:' and a Python function. Received: {name_or_path!r}"
    )


def read_parameters(
    path: pathlib.Path, sentence_function: str | None = None
) -> SentenceParameters:
    """Reads a JSON file of sentence parameters.

    Args:
        path: the file.
        sentence_function: `module:function`, the function that the file may name. A
            function that only the file names is read, but `make_splitter` refuses it.

    Raises:
        ValueError: if the file is missing or invalid, or names another function.
    """
    if not path.is_file():
        raise ValueError(
            f"`path` must be a JSON file of sentence parameters. Received: {path}, "
            "which is not a file"
        )
    values = files.read_json(path, _MAX_BYTES)
    if isinstance(values, dict) and values.get("format") == FUNCTION_FORMAT:
        named = SentenceFunction.from_json(values, str(path))
        if sentence_function not in (None, named.function):
            raise ValueError(
                "`sentence_function` must be the function that the file names. "
                f"Received: {sentence_function!r}, but {path} names {named.function!r}"
            )
        return SentenceFunction(named.function) if sentence_function else named
    return PunktParameters.from_json(values, str(path))


def _from_nltk_data(language: str) -> PunktParameters:
    """Loads the `punkt_tab` parameters of `language` from NLTK's data path."""
    try:
        import nltk.data
    except ImportError as error:
        raise ValueError(
            f"'nltk:{language}' needs the package nltk: install it, or give the "
            "path of a `punkt_tab` folder"
        ) from error
    try:
        place = nltk.data.find(f"tokenizers/punkt_tab/{language}/")
    except LookupError as error:
        raise ValueError(
            f"'nltk:{language}' is not installed: NLTK finds no "
            f"tokenizers/punkt_tab/{language} in {nltk.data.path}. Download it with "
            "`python -m nltk.downloader punkt_tab`"
        ) from error
    if isinstance(place, nltk.data.ZipFilePathPointer):
        folder = zipfile.Path(place.zipfile.filename, at=place.entry)
    else:
        folder = pathlib.Path(str(place))
    return PunktParameters.from_punkt_tab(folder, name=f"punkt-tab-{language}")


# === Users' functions ===


def load_function(name: str, argument: str) -> Callable[[str], object]:
    """Imports the user's function `name`, `module:function`.

    Modules below the folder of a checkpoint, a run or records are never imported: such
    folders may come from other people. `argument` is what names the function, for
    errors.

    Raises:
        ValueError: if there is no such function.
    """
    module_name, separator, function_name = name.partition(":")
    if not (separator and module_name and function_name):
        raise ValueError(
            f"`{argument}` must have the form `module:function`. Received: {name!r}"
        )
    try:
        module = _import(module_name)
    except Exception as error:  # The module may raise anything.
        if isinstance(error, ImportError):
            reason = (
                f" ({error}). Its folder has to be the current one or in PYTHONPATH"
            )
        else:
            reason = f", whose import fails: {type(error).__name__}: {error}"
        raise ValueError(
            f"`{argument}` must name a module that can be imported. "
            f"Received: {name!r}{reason}"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        reason = "is missing" if function is None else "is no function"
        raise ValueError(
            f"`{argument}` must name a function of its module. "
            f"Received: {name!r}; {function_name} {reason} in {module_name}"
        )
    return function


def _import(module_name: str) -> types.ModuleType:
    """Imports a module; the folder of each package is checked before its code runs."""
    parts = module_name.split(".")
    for end in range(1, len(parts) + 1):
        spec = importlib.util.find_spec(".".join(parts[:end]))
        if spec is None:
            break  # The import says what is missing.
        places = [*(spec.submodule_search_locations or ())]
        if spec.has_location and spec.origin:
            places.append(spec.origin)
        paths = {
            path
            for place in map(pathlib.Path, places)
            for path in (place.absolute(), place.resolve())
        }
        for path, (kind, patterns) in itertools.product(paths, _MARKS.items()):
            for folder in (path, *path.parents):
                if all(any(folder.glob(pattern)) for pattern in patterns):
                    raise ImportError(
                        f"{path} is in {folder}, the folder of {kind}, from which no "
                        "code is imported"
                    )
    return importlib.import_module(module_name)
