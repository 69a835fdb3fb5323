"""The tables that tell Punkt a language, and where they are read from."""

import dataclasses
import functools
import hashlib
import importlib.resources
import json
import pathlib
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

_FORMAT = "punkt_parameters"
_FORMAT_VERSION = 1
_ENGLISH = "english_punkt.json"
_NLTK_PREFIX = "nltk:"

# Marks of Unicode's property Sentence_Terminal that end a sentence wherever they stand:
# of Chinese and Japanese, Indic scripts, Arabic and Urdu, Ethiopic, Burmese, Khmer and
# Armenian. Not the full-width full stop, which stands in numbers, nor the ellipsis.
UNIVERSAL_TERMINATORS = "。｡！？।॥؟۔።፧။។։"


class Orthography:
    """Contexts and first letters in which a word type was seen: flags of an int.

    The values are those of NLTK's files. First means at the start of a sentence,
    inside elsewhere, unsure where the place was not clear.
    """

    UPPER_FIRST = 2
    UPPER_INSIDE = 4
    UPPER_UNSURE = 8
    LOWER_FIRST = 16
    LOWER_INSIDE = 32
    LOWER_UNSURE = 64
    UPPER = UPPER_FIRST | UPPER_INSIDE | UPPER_UNSURE
    LOWER = LOWER_FIRST | LOWER_INSIDE | LOWER_UNSURE


@dataclasses.dataclass(frozen=True, kw_only=True)
class PunktParameters:
    """Punkt's parameters of a language. Word types are in lower case.

    Attributes:
        abbreviation_types: words that are written with a period, without it.
        collocations: pairs of words that belong together although the first has
            a period, here left off: ("##number##", "km").
        sentence_starters: words that often begin a sentence.
        orthographic_context: word type to flags of `Orthography`. Types that are
            not in it count as never seen.
        terminators: characters that end a sentence wherever they stand, without white
            space after them.
        name: short name of the table, for manifests.
        provenance: where the table comes from; free-form, not compared.
    """

    abbreviation_types: frozenset[str] = frozenset()
    collocations: frozenset[tuple[str, str]] = frozenset()
    sentence_starters: frozenset[str] = frozenset()
    orthographic_context: Mapping[str, int] = dataclasses.field(
        default_factory=dict, hash=False
    )
    terminators: str = ""
    name: str = dataclasses.field(default="unnamed", compare=False)
    provenance: Mapping[str, Any] = dataclasses.field(
        default_factory=dict, compare=False, repr=False
    )

    @functools.cached_property
    def checksum(self) -> str:
        """SHA-256 of the tables in a canonical form, whatever they came from."""
        tables = json.dumps(_tables(self), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(tables.encode("ascii")).hexdigest()

    def reduced(self) -> "PunktParameters":
        """The same decisions from fewer entries of `orthographic_context`.

        Decisions ask of a capitalised word whether it was ever seen small and
        ever seen capitalised inside a sentence, and of a small one whether it
        was seen to start a sentence so and never capitalised. A type that was
        never seen small answers like one that is not in the table, and of the
        flags of the others three combinations can be told apart.
        """
        context = {}
        for word, seen in self.orthographic_context.items():
            if seen & Orthography.UPPER_INSIDE and seen & Orthography.LOWER:
                context[word] = Orthography.UPPER_INSIDE | Orthography.LOWER_INSIDE
            elif seen & Orthography.LOWER_FIRST and not seen & Orthography.UPPER:
                context[word] = Orthography.LOWER_FIRST
            elif seen & Orthography.LOWER:
                context[word] = Orthography.UPPER_FIRST | Orthography.LOWER_INSIDE
        return dataclasses.replace(self, orthographic_context=context)

    def to_bytes(self) -> bytes:
        """The tables and their provenance as sorted JSON, one entry a line."""
        content = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "name": self.name,
            "provenance": dict(self.provenance),
            **_tables(self),
        }
        return (json.dumps(content, indent=0, ensure_ascii=False) + "\n").encode()

    def save(self, path: str | pathlib.Path) -> None:
        """Writes `to_bytes`."""
        pathlib.Path(path).write_bytes(self.to_bytes())

    @classmethod
    def english(cls) -> "PunktParameters":
        """The built-in English table."""
        return _built_in_english()

    @classmethod
    def universal(cls) -> "PunktParameters":
        """No words of any language; sentences end at the marks of many scripts."""
        return cls(terminators=UNIVERSAL_TERMINATORS, name="universal")

    @classmethod
    def from_file(cls, path: str | pathlib.Path) -> "PunktParameters":
        """Reads what `save` wrote.

        Raises:
            ValueError: if the file is missing or has another format.
        """
        path = pathlib.Path(path)
        if not path.is_file():
            raise ValueError(
                f"`path` must be a JSON file of Punkt parameters. Received: {path}, "
                "which is not a file"
            )
        return _from_json(path.read_bytes(), str(path))

    @classmethod
    def from_punkt_tab(cls, folder: Any, name: str | None = None) -> "PunktParameters":
        """Reads one language's folder of NLTK's `punkt_tab` data.

        Args:
            folder: path of the folder, or a `zipfile.Path` inside `punkt_tab.zip`.
            name: name of the table. By default it is made of the folder's name.

        Raises:
            ValueError: if one of the four files is missing or has a malformed
                line; the message names the file and the line.
        """
        if isinstance(folder, str):
            folder = pathlib.Path(folder)
        context = _read_lines(folder, "ortho_context.tab", _parse_context)
        return cls(
            abbreviation_types=frozenset(
                _read_lines(folder, "abbrev_types.txt", _parse_word)
            ),
            collocations=frozenset(_read_lines(folder, "collocations.tab", _pair)),
            sentence_starters=frozenset(
                _read_lines(folder, "sent_starters.txt", _parse_word)
            ),
            orthographic_context=dict(context),
            name=name or f"punkt-tab-{folder.name}",
            provenance={"source": f"punkt_tab folder {folder.name}"},
        )


# What the flags that name parameters say of their values.
PARAMETERS_HELP = (
    "Punkt parameters: english (built in), universal (no abbreviations; also for "
    "scripts without spaces), a JSON file, a punkt_tab folder, or nltk:LANGUAGE for an "
    "installed punkt_tab."
)


def load_parameters(name_or_path: PunktParameters | str) -> PunktParameters:
    """The parameters that the value of a flag names.

    Args:
        name_or_path: `english`, the built-in table; `universal`, which knows no words
            but marks that end a sentence without a space; the path of a JSON file that
            `seg_tf.commands.train_punkt` wrote; the path of a `punkt_tab` folder of
            one language; or `nltk:english`, that language of the `punkt_tab`
            data which NLTK finds on this machine. Parameters are returned as they are.

    Raises:
        ValueError: if it is none of these or cannot be read.
    """
    if isinstance(name_or_path, PunktParameters):
        return name_or_path
    if name_or_path == "english":
        return PunktParameters.english()
    if name_or_path == "universal":
        return PunktParameters.universal()
    if name_or_path.startswith(_NLTK_PREFIX):
        return _from_nltk_data(name_or_path.removeprefix(_NLTK_PREFIX))
    path = pathlib.Path(name_or_path)
    if path.is_dir():
        return PunktParameters.from_punkt_tab(path)
    if path.is_file():
        return PunktParameters.from_file(path)
    raise ValueError(
        "`sentence_parameters` must be 'english', 'universal', a JSON file of Punkt "
        "parameters, a `punkt_tab` folder of one language, or 'nltk:' and a language. "
        "Received: "
        f"{name_or_path!r}"
    )


@functools.cache
def _built_in_english() -> PunktParameters:
    source = importlib.resources.files("seg_tf.text") / "data" / _ENGLISH
    return _from_json(source.read_bytes(), _ENGLISH)


def _tables(parameters: PunktParameters) -> dict[str, Any]:
    """The tables as plain sorted JSON values."""
    words_with: dict[int, list[str]] = {}
    for word, seen in sorted(parameters.orthographic_context.items()):
        words_with.setdefault(seen, []).append(word)
    # Left out where there are none, so that checksums are those of before there were.
    terminators = "".join(sorted(set(parameters.terminators)))
    return ({"terminators": terminators} if terminators else {}) | {
        "abbreviation_types": sorted(parameters.abbreviation_types),
        "collocations": [list(pair) for pair in sorted(parameters.collocations)],
        "sentence_starters": sorted(parameters.sentence_starters),
        "orthographic_context": {
            str(seen): words for seen, words in sorted(words_with.items())
        },
    }


def _from_json(content: bytes, source: str) -> PunktParameters:
    try:
        values = json.loads(content)
    except ValueError as error:
        raise ValueError(f"{source} is not JSON: {error}") from error
    if not isinstance(values, dict) or values.get("format") != _FORMAT:
        raise ValueError(
            f"{source} does not hold Punkt parameters: it must be a JSON object "
            f'whose "format" is "{_FORMAT}"'
        )
    if values.get("format_version") != _FORMAT_VERSION:
        raise ValueError(
            f'{source} must have "format_version" {_FORMAT_VERSION}. Received: '
            f"{values.get('format_version')!r}"
        )
    try:
        context = {
            word: _flags(seen)
            for seen, words in values["orthographic_context"].items()
            for word in _words(words)
        }
        return PunktParameters(
            abbreviation_types=frozenset(_words(values["abbreviation_types"])),
            collocations=frozenset(_pair(pair) for pair in values["collocations"]),
            sentence_starters=frozenset(_words(values["sentence_starters"])),
            orthographic_context=context,
            terminators=_terminators(values.get("terminators", "")),
            name=values["name"],
            provenance=values.get("provenance", {}),
        )
    except KeyError as error:
        raise ValueError(f"{source} lacks the key {error}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{source} has a malformed table: {error}") from error


def _words(values: list[str]) -> list[str]:
    for value in values:
        if not isinstance(value, str) or not value:
            raise ValueError(f"a word type must be a non-empty string, not {value!r}")
    return values


def _terminators(value: str) -> str:
    if not isinstance(value, str) or any(map(str.isalnum, value)):
        raise ValueError(f"terminators must be a string of marks, not {value!r}")
    return value


def _pair(values: list[str]) -> tuple[str, str]:
    if len(values) != 2:
        raise ValueError(f"a collocation must be two word types, not {values!r}")
    first, second = _words(values)
    return first, second


def _flags(text: str) -> int:
    seen = int(text) if text.isdecimal() else -1
    if seen & ~(Orthography.UPPER | Orthography.LOWER):
        raise ValueError(
            f"orthographic flags must be a sum of 2, 4, 8, 16, 32 and 64, not {text!r}"
        )
    return seen


def _parse_word(fields: list[str]) -> str:
    (word,) = _words(fields)
    return word


def _parse_context(fields: list[str]) -> tuple[str, int]:
    word, seen = fields
    return _parse_word([word]), _flags(seen)


def _read_lines(folder: Any, file_name: str, parse: Callable) -> list:
    """The parsed lines of one of the tab-separated files of `folder`."""
    path = folder / file_name
    if not path.is_file():
        raise ValueError(
            "`folder` must hold the four files of a `punkt_tab` language. "
            f"Received: {folder}, which has no {file_name}"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error}") from error
    values = []
    lines = text.removesuffix("\n").split("\n") if text else []
    for number, line in enumerate(lines, start=1):
        try:
            values.append(parse(line.split("\t")))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}. Found: {line!r}") from (
                error
            )
    return values


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
