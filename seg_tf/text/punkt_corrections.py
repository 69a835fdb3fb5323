"""Entries that a language's Punkt tables must hold, beside what a text teaches.

A text teaches the abbreviations that it is full of. The others of a language are
listed by hand, in a TOML file, and so is what the text taught wrongly:

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

Every table may be left out. Its groups have any name; a group is a string of words
between blanks, of collocations two such strings, whose words are paired each with
each. Words are in lower case, abbreviations without their period. `{a..z}` stands for
each letter from a to z, `{1..12}` for each number.
"""

import dataclasses
import itertools
import pathlib
import re
import tomllib
from collections.abc import Iterator
from typing import Any

_RANGE = re.compile(r"\{(?:([a-z])\.\.([a-z])|(\d+)\.\.(\d+))\}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PunktCorrections:
    """Entries that tables get, and entries that they must not have.

    Attributes:
        abbreviations: types that are abbreviations, without the period.
        not_abbreviations: types that are none, whatever the text says.
        collocations: pairs of types between which no sentence ends.
        sentence_starters: types that often begin a sentence.
        not_sentence_starters: types that do not, whatever the text says.
    """

    abbreviations: frozenset[str] = frozenset()
    not_abbreviations: frozenset[str] = frozenset()
    collocations: frozenset[tuple[str, str]] = frozenset()
    sentence_starters: frozenset[str] = frozenset()
    not_sentence_starters: frozenset[str] = frozenset()

    def __post_init__(self):
        for name in ("abbreviations", "sentence_starters"):
            both = getattr(self, name) & getattr(self, f"not_{name}")
            if both:
                raise ValueError(
                    f"`{name}` and `not_{name}` must not share words. Received: "
                    f"{', '.join(sorted(both))} in both"
                )

    @classmethod
    def read(cls, path: pathlib.Path) -> "PunktCorrections":
        """Reads a TOML file, as the head of this module describes it.

        Raises:
            ValueError: if it is not TOML, or has a table or a word that it must not.
        """
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
            return cls(**{name: _entries(name, tables[name]) for name in tables})
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def _entries(name: str, groups: Any) -> frozenset:
    """The words, or the pairs of words, of all groups of a table."""
    known = [field.name for field in dataclasses.fields(PunktCorrections)]
    if name not in known or not isinstance(groups, dict):
        raise ValueError(f"tables must be of {', '.join(known)}. Received: {name!r}")
    entries: set = set()
    for group, value in groups.items():
        try:
            if name == "collocations":
                first, second = value
                entries.update(itertools.product(_words(first), _words(second)))
            else:
                entries.update(_words(value))
        except (TypeError, ValueError) as error:
            raise ValueError(f"group {group!r} of {name!r}: {error}") from error
    if "abbreviations" in name:
        for word in entries:
            if word.endswith("."):
                raise ValueError(
                    "abbreviations must be without their period. "
                    f"Received: {word!r} in {name!r}"
                )
    return frozenset(entries)


def _words(value: Any) -> Iterator[str]:
    """The words of a string, ranges spelt out."""
    if not isinstance(value, str):
        raise ValueError(f"words must be a string. Received: {value!r}")
    if value != value.lower():
        raise ValueError(f"words must be in lower case. Received: {value!r}")
    for word in value.split():
        yield from _spelt_out(word)


def _spelt_out(word: str) -> Iterator[str]:
    found = _RANGE.search(word)
    if found is None:
        yield word
        return
    first, last, low, high = found.groups()
    if first:
        range_ = map(chr, range(ord(first), ord(last) + 1))
    else:
        range_ = map(str, range(int(low), int(high) + 1))
    for part in range_:
        yield from _spelt_out(word[: found.start()] + part + word[found.end() :])
