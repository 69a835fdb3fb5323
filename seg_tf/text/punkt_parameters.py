"""The tables that tell Punkt a language, and where they are read from."""

import dataclasses
import functools
import hashlib
import importlib.resources
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

_FORMAT = "punkt_parameters"
_FORMAT_VERSION = 1
_ENGLISH = "english_punkt.json"

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
    def from_json(cls, values: Any, source: str) -> "PunktParameters":
        """Makes parameters of the content of a file of `to_bytes`.

        Args:
            values: what the JSON holds.
            source: the file, for errors.

        Raises:
            ValueError: if it has another format, or a table is malformed.
        """
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
            return cls(
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


@functools.cache
def _built_in_english() -> PunktParameters:
    source = importlib.resources.files("seg_tf.text") / "data" / _ENGLISH
    return PunktParameters.from_json(json.loads(source.read_bytes()), _ENGLISH)


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
