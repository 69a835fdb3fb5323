"""Punkt's tables for a language, with their file formats and corrections.

Corrections of tables that Punkt learned from text are listed in a TOML file:

  [abbreviations]
  titles = "mme messrs"
  two_initials = "{a..z}.{a..z}"

  [not_abbreviations]
  roman_numerals = "ii iii"

  [collocations]
  before_numbers = ["no fig", "##number##"]

  [sentence_starters]
  pronouns = "he she"

  [not_sentence_starters]
  names = "maggie"

Tables are optional, and groups may have any name. A group is a string of words
separated by spaces. A group of collocations is two such strings, whose words form all
pairs. Words are in lowercase, and abbreviations have no final period. `{a..z}` stands
for each letter from a to z, `{1..12}` for each number.
"""

import dataclasses
import functools
import hashlib
import importlib.resources
import itertools
import json
import pathlib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

_FORMAT = "punkt_parameters"
_FORMAT_VERSION = 1
_ENGLISH = "english_punkt.json"
_RANGE = re.compile(r"\{(?:([a-z])\.\.([a-z])|(\d+)\.\.(\d+))\}")

# Unicode's Sentence_Terminal marks of Chinese and Japanese, Indic scripts, Arabic and
# Urdu, Ethiopic, Burmese, Khmer and Armenian, except the full-width full stop, which
# occurs in numbers, and the ellipsis.
UNIVERSAL_TERMINATORS = "。｡！？।॥؟۔።፧။។։"


class Orthography:
    """Flags of the case and context in which a word type was seen, as in NLTK.

    FIRST means at the start of a sentence, INSIDE elsewhere in it, UNSURE unknown.
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
    """Punkt's parameters for a language. Word types are in lowercase.

    Attributes:
        abbreviation_types: words that are written with a period, which is omitted here.
        collocations: pairs of words that no sentence end separates, although a period,
            omitted here, follows the first word, such as ("##number##", "km").
        sentence_starters: words that often begin a sentence.
        orthographic_context: flags of `Orthography` for each word type.
        terminators: characters that always end a sentence.
        joins_pieces: whether a sentence without letters and digits is joined to the
            previous one, or to the next one if there is none.
        name, provenance: description of the tables, ignored in comparisons.
    """

    abbreviation_types: frozenset[str] = frozenset()
    collocations: frozenset[tuple[str, str]] = frozenset()
    sentence_starters: frozenset[str] = frozenset()
    orthographic_context: Mapping[str, int] = dataclasses.field(
        default_factory=dict, hash=False
    )
    terminators: str = ""
    joins_pieces: bool = False
    name: str = dataclasses.field(default="unnamed", compare=False)
    provenance: Mapping[str, Any] = dataclasses.field(
        default_factory=dict, compare=False, repr=False
    )

    @functools.cached_property
    def checksum(self) -> str:
        """SHA-256 of the tables in a canonical form, independent of their source."""
        tables = json.dumps(_tables(self), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(tables.encode("ascii")).hexdigest()

    def reduced(self) -> Self:
        """Returns equivalent parameters with a smaller `orthographic_context`.

        Omits word types never seen in lowercase, and flags that change no decision.
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
        """Serializes the name, tables and provenance as JSON, one entry per line."""
        content = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "name": self.name,
            "provenance": dict(self.provenance),
            **_tables(self),
        }
        return (json.dumps(content, indent=0, ensure_ascii=False) + "\n").encode()

    @classmethod
    @functools.cache
    def english(cls) -> Self:
        """Returns the built-in English parameters."""
        source = importlib.resources.files("seg_tf.text") / "data" / _ENGLISH
        return cls.from_json(json.loads(source.read_bytes()), _ENGLISH)

    @classmethod
    def universal(cls) -> Self:
        """Returns parameters with empty tables and the terminators of many scripts."""
        return cls(
            terminators=UNIVERSAL_TERMINATORS, joins_pieces=True, name="universal"
        )

    @classmethod
    def from_json(cls, values: Any, source: str) -> Self:
        """Reads parameters from JSON of `source`. Raises a ValueError if invalid."""
        try:
            form = values["format"], values["format_version"]
            terminators = values.get("terminators", "")
            if form != (_FORMAT, _FORMAT_VERSION) or any(map(str.isalnum, terminators)):
                raise ValueError(
                    f'the "format" must be "{_FORMAT}", the "format_version" '
                    f'{_FORMAT_VERSION}, and "terminators" marks'
                )
            return cls(
                abbreviation_types=frozenset(_words(values["abbreviation_types"])),
                collocations=frozenset(map(_pair, values["collocations"])),
                sentence_starters=frozenset(_words(values["sentence_starters"])),
                orthographic_context={
                    word: _flags(seen)
                    for seen, words in values["orthographic_context"].items()
                    for word in _words(words)
                },
                terminators=terminators,
                joins_pieces=values.get("joins_pieces") is True,
                name=values["name"],
                provenance=values.get("provenance", {}),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{source} does not contain Punkt parameters: {error!r}"
            ) from error

    @classmethod
    def from_punkt_tab(cls, folder: str | pathlib.Path) -> Self:
        """Reads a folder of NLTK's `punkt_tab` data. Raises ValueError if malformed."""
        folder = pathlib.Path(folder)

        def read(file_name: str, parse: Callable) -> list:
            text = (folder / file_name).read_text(encoding="utf-8")
            values = []
            for line in text.removesuffix("\n").split("\n") if text else []:
                try:
                    values.append(parse(line.split("\t")))
                except ValueError as error:
                    raise ValueError(
                        f"{folder / file_name}, line {len(values) + 1}: {error}"
                    ) from error
            return values

        return cls(
            abbreviation_types=frozenset(read("abbrev_types.txt", _word)),
            collocations=frozenset(read("collocations.tab", _pair)),
            sentence_starters=frozenset(read("sent_starters.txt", _word)),
            orthographic_context=dict(
                read(
                    "ortho_context.tab",
                    lambda fields: (_word(fields[:-1]), _flags(fields[-1])),
                )
            ),
            name=f"punkt-tab-{folder.name}",
            provenance={"source": f"punkt_tab folder {folder.name}"},
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PunktCorrections:
    """Entries to add to Punkt's tables, and entries (`not_…`) to remove from them."""

    abbreviations: frozenset[str] = frozenset()
    not_abbreviations: frozenset[str] = frozenset()
    collocations: frozenset[tuple[str, str]] = frozenset()
    sentence_starters: frozenset[str] = frozenset()
    not_sentence_starters: frozenset[str] = frozenset()

    @classmethod
    def read(cls, path: pathlib.Path) -> Self:
        """Reads a TOML file (see module docstring). Raises ValueError if invalid."""
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
            return cls(**{name: _corrections(name, tables[name]) for name in tables})
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error


def _corrections(name: str, groups: Mapping[str, Any]) -> frozenset:
    """Returns the words or word pairs in all groups of a table of corrections."""
    entries: set = set()
    for group, value in groups.items():
        try:
            if name == "collocations":
                first, second = map(_listed_words, value)
                entries.update(itertools.product(first, second))
            else:
                entries.update(_listed_words(value))
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"group {group!r} of {name!r}: {error}") from error
        if "abbreviations" in name and any(word[-1:] == "." for word in entries):
            raise ValueError(
                f"abbreviations must be without their period. Received: {value!r} in "
                f"group {group!r} of {name!r}"
            )
    return frozenset(entries)


def _listed_words(value: str) -> Iterator[str]:
    """Yields the lowercase words of a string, with ranges such as `{a..z}` expanded."""
    if value != value.lower():
        raise ValueError(f"words must be in lower case. Received: {value!r}")
    words = value.split()
    while words:
        word = words.pop()
        match = _RANGE.search(word)
        if match is None:
            yield word
            continue
        first, last, low, high = match.groups()
        if first:
            parts = map(chr, range(ord(first), ord(last) + 1))
        else:
            parts = map(str, range(int(low), int(high) + 1))
        words += [word[: match.start()] + part + word[match.end() :] for part in parts]


def _tables(parameters: PunktParameters) -> dict[str, Any]:
    """Returns the tables as sorted JSON values."""
    words_with: dict[int, list[str]] = {}
    for word, seen in sorted(parameters.orthographic_context.items()):
        words_with.setdefault(seen, []).append(word)
    # Omitted if unset, so that checksums do not change.
    options: dict[str, Any] = {}
    if parameters.terminators:
        options["terminators"] = "".join(sorted(set(parameters.terminators)))
    if parameters.joins_pieces:
        options["joins_pieces"] = True
    return options | {
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


def _word(fields: list[str]) -> str:
    (word,) = _words(fields)
    return word


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
