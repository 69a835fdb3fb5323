"""Makers of sentences: how flags name them, and the file that keeps their tables."""

import pathlib
import zipfile

from seg_tf import files
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.punkt_parameters import PunktParameters
from seg_tf.text.sentence_function import (
    FUNCTION_FORMAT,
    FUNCTION_PREFIX,
    FunctionSplitter,
    SentenceFunction,
)

SentenceParameters = PunktParameters | SentenceFunction
Splitter = SentenceSplitter | FunctionSplitter

_NLTK_PREFIX = "nltk:"
_MAX_BYTES = 2**28

# What the flags that name parameters say of their values.
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


def load_parameters(
    name_or_path: SentenceParameters | str, sentence_function: str | None = None
) -> SentenceParameters:
    """The parameters that the value of a flag names.

    Args:
        name_or_path: `english`, the built-in table; `universal`, which knows no words
            but marks that end a sentence without a space; the path of a JSON file that
            `seg_tf.commands.train_punkt` wrote; the path of a `punkt_tab` folder of
            one language; `nltk:english`, that language of the `punkt_tab` data which
            NLTK finds on this machine; or `function:module:name`, a Python function.
            Parameters are returned as they are.
        sentence_function: as for `read_parameters`.

    Raises:
        ValueError: if it is none of these or cannot be read.
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
    """Reads the JSON file that `to_bytes` of parameters makes.

    Args:
        path: the file.
        sentence_function: `module:function`, the function that the file may name. One
            that only the file names can be read but not run: `make_splitter` refuses
            it.

    Raises:
        ValueError: if the file is missing, is none, or names another function than
            `sentence_function`.
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


def make_splitter(parameters: SentenceParameters) -> Splitter:
    """The splitter of paragraphs with these parameters.

    Raises:
        ValueError: if they name a function that does not exist, or that only a file
            names.
    """
    if isinstance(parameters, SentenceFunction):
        return FunctionSplitter(parameters)
    return SentenceSplitter(parameters)


def _from_nltk_data(language: str) -> PunktParameters:
    """The `punkt_tab` parameters of `language` that NLTK's data path holds."""
    try:
        import nltk.data
    except ImportError as error:
        raise ValueError(
            f"'nltk:{language}' needs the package nltk: install it, or give the "
            "path of a `punkt_tab` folder"
        ) from error
    try:
        found = nltk.data.find(f"tokenizers/punkt_tab/{language}/")
    except LookupError as error:
        raise ValueError(
            f"'nltk:{language}' is not installed: NLTK finds no "
            f"tokenizers/punkt_tab/{language} in {nltk.data.path}. Download it with "
            "`python -m nltk.downloader punkt_tab`"
        ) from error
    if isinstance(found, nltk.data.ZipFilePathPointer):
        folder = zipfile.Path(found.zipfile.filename, at=found.entry)
    else:
        folder = pathlib.Path(str(found))
    return PunktParameters.from_punkt_tab(folder, name=f"punkt-tab-{language}")
