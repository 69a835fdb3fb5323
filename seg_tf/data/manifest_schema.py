"""The form of a manifest: its types, and a check of JSON values against them.

A manifest may have been edited by hand, cut off by a copy, or written by another
version of the project. Whatever reads records relies on this check.
"""

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

from seg_tf.data import record_schema
from seg_tf.text import encoding

_MAX_DEPTH = 20
_SPECIAL_TOKENS = {encoding.WORD_PIECES: ("pad", "unk", "cls", "sep", "mask")}
_SPECIAL_TOKENS_OF_WORDS = ("unk", "eos")


class SchemaError(ValueError):
    """An entry of a manifest is not as it must be; the message names it."""


class Rule(NamedTuple):
    """A rule for values of a type, in words and as a predicate."""

    words: str
    is_valid: Callable[[Any], object]


def _between(least: int, most: int) -> Rule:
    return Rule(
        f"an integer from {least} to {most}", range(least, most + 1).__contains__
    )


def one_of(*names: str) -> Rule:
    """Allows only some strings."""
    return Rule(f"one of {', '.join(names)}", names.__contains__)


def _is_file_name(value: str) -> bool:
    is_name = value.isprintable() and value.strip(". ") and len(value) <= 255
    return bool(is_name) and not {"/", "\\"} & {*value}


Count = Annotated[int, _between(0, (1 << 63) - 1)]
WindowLength = Annotated[int, _between(3, 65_535)]
FileName = Annotated[
    str,
    Rule("the name of a file of this folder, without separators", _is_file_name),
]
Sha256 = Annotated[
    str, Rule("64 hexadecimal digits", re.compile("[0-9a-f]{64}").fullmatch)
]


class VocabularyEntry(TypedDict):
    """The vocabulary beside the shards, and how text is changed before look-ups."""

    file: FileName
    size: Annotated[int, _between(1, 1 << 31)]
    sha256: Sha256
    lower_case: bool
    strip_accents: NotRequired[bool]
    split_ideographs: NotRequired[bool]
    special_ids: Mapping[str, Count]
    tokenizer: Annotated[str, one_of(*encoding.TOKENIZERS)]


class Splitter(TypedDict):
    """The sentence splitter."""

    name: str
    parameters_sha256: str


class Source(TypedDict):
    """An input file."""

    file: str
    bytes: Count
    sha256: Sha256


class NamedFiles(TypedDict):
    """A number of files, and the names of the first ones."""

    count: Count
    first: tuple[str, ...]


class BrokenFiles(NamedFiles):
    """Files that could not be read to their end."""

    bytes: Count
    of_bytes: Count


class TextSize(TypedDict):
    """The size of some text."""

    documents: Count
    paragraphs: Count
    characters: Count


class DroppedText(TypedDict):
    """An example of dropped text."""

    document_id: Count
    source: str
    location: str
    why: str
    text: str


class Dropped(TextSize):
    """The text that a cleaning step dropped."""

    examples: tuple[DroppedText, ...]


class Cleaning(TypedDict):
    """Text before cleaning, dropped by each step, and left."""

    before: TextSize
    steps: Mapping[str, Dropped]
    after: TextSize


def check(where: str, value: Any, hint: Any) -> None:
    """Checks a JSON value against a type.

    Args:
        where: name of the value; empty for the whole file.
        value: the value.
        hint: bool, str, Any, `Annotated` with a `Rule`, `X | None`, a tuple or
            mapping of these, or a `TypedDict` or dataclass with such fields.

    Raises:
        SchemaError: at the first entry that is missing, unknown, of another type or
            out of its range.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        _check_depth(where, value)
    elif origin is Annotated:
        kind, rule = arguments
        # A boolean is an integer to Python.
        if type(value) is not kind or not rule.is_valid(value):
            fail(where, rule.words, value)
    elif origin is types.UnionType or origin is typing.Union:
        if value is not None:
            check(where, value, arguments[0])
    elif origin is tuple:
        if not isinstance(value, list):
            fail(where, "a list", value)
        for number, item in enumerate(value):
            check(f"{where}[{number}]", item, arguments[0])
    elif hint in (bool, str):
        if not isinstance(value, hint):
            fail(where, "true or false" if hint is bool else "a string", value)
    elif not isinstance(value, dict):
        fail(where or "manifest", "an object", value)
    elif origin is not None:  # A mapping.
        for name, item in value.items():
            check(f"{where}.{name}", item, arguments[1])
    else:
        _check_entries(where, value, hint)


def _check_entries(where: str, value: Mapping[str, Any], hint: type) -> None:
    """Checks an object against a dataclass or a `TypedDict`."""
    prefix = f"{where}." if where else ""
    hints = typing.get_type_hints(hint, include_extras=True)
    if dataclasses.is_dataclass(hint):
        required = {
            field.name
            for field in dataclasses.fields(hint)
            if field.default is dataclasses.MISSING
        }
    else:
        required = hint.__required_keys__
    for name, item in value.items():
        if name not in hints:
            raise SchemaError(
                f"`{prefix}{name if name.isprintable() else ascii(name)}` is an entry "
                "that this version of the project does not know; a newer one may have "
                "written it"
            )
        kind = hints[name]
        if typing.get_origin(kind) is NotRequired:
            (kind,) = typing.get_args(kind)
        check(f"{prefix}{name}", item, kind)
    for name in hints:
        if name in required and name not in value:
            raise SchemaError(f"`{prefix}{name}` is missing")


def check_consistency(values: Mapping[str, Any], splits: tuple[str, ...]) -> None:
    """Checks the entries of a manifest that depend on one another.

    Raises:
        SchemaError: if an entry contradicts another one.
    """
    length, vocabulary = values["window_length"], values["vocabulary"]
    is_windows = values["kind"] == "windows"
    if is_windows != (length is not None):
        fail("window_length", "an integer for windows, null for documents", length)
    if is_windows:
        _equal("vocabulary.tokenizer", vocabulary["tokenizer"], encoding.WORD_PIECES)
        options = values["options"]
        _equal("options.window_length", options.get("window_length", length), length)
        check("options.cut_sentences", options.get("cut_sentences"), bool)
    names = _SPECIAL_TOKENS.get(vocabulary["tokenizer"], _SPECIAL_TOKENS_OF_WORDS)
    an_id = Annotated[int, _between(0, vocabulary["size"] - 1)]
    ids = TypedDict("ids", dict.fromkeys(names, an_id))
    check("vocabulary.special_ids", vocabulary["special_ids"], ids)
    # Of every length that windows may have, those of this length.
    widths = record_schema.number_widths(
        vocabulary["size"], length - 2 if is_windows else None
    )
    for name in sorted(widths.keys() | values["number_widths"].keys()):
        found = values["number_widths"].get(name)
        _equal(f"number_widths.{name}", found, widths.get(name))
    seen = set()
    for split in splits:
        if split not in values["splits"]:
            raise SchemaError(f"`splits.{split}` is missing")
        for number, shard in enumerate(values["splits"][split]):
            where, file = f"splits.{split}[{number}].file", shard["file"]
            if not file.endswith(".tfrecord"):
                fail(where, "the name of a .tfrecord file", file)
            if file in seen:
                fail(where, "a shard that is listed once", file)
            seen.add(file)


def fail(where: str, expected: str, found: Any) -> typing.NoReturn:
    """Raises the error about an entry."""
    raise SchemaError(f"`{where}` must be {expected}. Found: {_shown(found)}")


def _shown(value: Any) -> str:
    """A value in a few characters; of one that holds others only how many."""
    if isinstance(value, dict):
        return f"an object of {len(value)} entries"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _equal(where: str, found: Any, expected: Any) -> None:
    if type(found) is not type(expected) or found != expected:
        fail(where, _shown(expected), found)


def _check_depth(where: str, value: Any, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        fail(where, f"nested at most {_MAX_DEPTH} times", value)
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(where, item, depth + 1)
