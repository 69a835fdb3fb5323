"""The form of a manifest: types, ranges and names, checked before anything uses it.

A manifest is edited by hand, cut off by a copy, or of another version of the project.
Whatever reads records relies on what is checked here.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from data_pipelines.records import record_schema
from seg_tf.text import encoding

# Reports a value that is not as it must be; its first argument is the entry's name.
Check = Callable[[str, Any], None]

_LARGEST = (1 << 63) - 1
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_DEPTH = 20
_SPECIAL_TOKENS = {encoding.WORD_PIECES: ("pad", "unk", "cls", "sep", "mask")}
_SPECIAL_TOKENS_OF_WORDS = ("unk", "eos")
_SPLITS = ("train", "validation")
_COUNTED_BY_CLEANING = ("documents", "paragraphs", "characters")


class SchemaError(ValueError):
    """An entry of a manifest is not as it must be; the message names it."""


def check(values: Mapping[str, Any], manifest_class: type, shard_class: type) -> None:
    """Checks the entries of a manifest, without `schema_version` and `counts`.

    Args:
        values: what the JSON file holds.
        manifest_class: dataclass whose fields the entries are; those that
            have a default may be left out.
        shard_class: likewise of a shard's entries.

    Raises:
        SchemaError: at the first entry that is missing, unknown, of another type, out
            of its range, or contradicts another one.
    """
    shard = _entries(shard_class, _shard_checks(shard_class))
    _entries(
        manifest_class,
        {
            "kind": _one_of("documents", "windows"),
            "vocabulary": _vocabulary,
            "sentence_splitter": _object({"name": _text, "parameters_sha256": _text}),
            "options": _plain_object,
            "number_widths": _object_of(_one_of("uint16", "uint32")),
            "window_length": _optional(_integer(3, 65_535)),
            "sources": _list_of(
                _object({"file": _text, "bytes": _count, "sha256": _sha256})
            ),
            "rejected": _object_of(_count),
            "splits": _object(dict.fromkeys(_SPLITS, _list_of(shard))),
            "cleaning": _optional(_cleaning),
            "passed_over": _optional(_object_of(_object(_NAMED_FILES))),
            "broken_files": _optional(
                _object({**_NAMED_FILES, "bytes": _count, "of_bytes": _count})
            ),
        },
    )("", values)
    _check_kind(values)
    _check_names(values["splits"])


def check_version(values: Any, version: int) -> None:
    """Checks that a JSON file holds an object with a schema version.

    Raises:
        SchemaError: if it does not, or has another version.
    """
    if not isinstance(values, dict):
        _fail("manifest", "an object", values)
    _equal("schema_version", values.get("schema_version"), version)


def check_counts(counts: Any, expected: Mapping[str, Any]) -> None:
    """Checks the totals that a manifest has for people against its shards.

    Raises:
        SchemaError: if one is another.
    """
    _plain_object("counts", counts)
    for name, value in expected.items():
        found = counts.get(name, value)
        if isinstance(value, Mapping):
            _plain_object(f"counts.{name}", found)
            for inner, total in value.items():
                _equal(f"counts.{name}.{inner}", found.get(inner, total), total)
        else:
            _equal(f"counts.{name}", found, value)


# --- Entries that depend on one another -----------------------------------------


def _check_kind(values: Mapping[str, Any]) -> None:
    is_windows, length = values["kind"] == "windows", values["window_length"]
    vocabulary, options = values["vocabulary"], values["options"]
    if is_windows != (length is not None):
        _fail("window_length", "an integer for windows, null for documents", length)
    if is_windows:
        _equal("options.window_length", options.get("window_length", length), length)
        _equal("vocabulary.tokenizer", vocabulary["tokenizer"], encoding.WORD_PIECES)
    if "cut_sentences" in options:
        _boolean("options.cut_sentences", options["cut_sentences"])
    # Of every length that windows may have, those of this length.
    longest = length - 2 if is_windows else None
    widths = record_schema.number_widths(vocabulary["size"], longest)
    for name in sorted(widths.keys() | values["number_widths"].keys()):
        found = values["number_widths"].get(name)
        _equal(f"number_widths.{name}", found, widths.get(name))


def _check_names(splits: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    seen = set()
    for split, shards in splits.items():
        for number, shard in enumerate(shards):
            where = f"splits.{split}[{number}].file"
            if not shard["file"].endswith(".tfrecord"):
                _fail(where, "the name of a .tfrecord file", shard["file"])
            if shard["file"] in seen:
                _fail(where, "a shard that is listed once", shard["file"])
            seen.add(shard["file"])


def _vocabulary(where: str, value: Any) -> None:
    tokenizer = _one_of(*encoding.TOKENIZERS)
    _object(
        {
            "file": _file_name,
            "size": _integer(1, 1 << 31),
            "sha256": _sha256,
            "lower_case": _boolean,
            "special_ids": _object_of(_count),
            "tokenizer": tokenizer,
        },
        {"strip_accents": _boolean, "split_ideographs": _boolean},
    )(where, value)
    names = _SPECIAL_TOKENS.get(value["tokenizer"], _SPECIAL_TOKENS_OF_WORDS)
    below = _integer(0, value["size"] - 1)
    _object(dict.fromkeys(names, below))(f"{where}.special_ids", value["special_ids"])


def _cleaning(where: str, value: Any) -> None:
    counts = dict.fromkeys(_COUNTED_BY_CLEANING, _count)
    example = _object(
        {"document_id": _count}
        | dict.fromkeys(("source", "location", "why", "text"), _text)
    )
    step = _object({**counts, "examples": _list_of(example)})
    _object(
        {"before": _object(counts), "steps": _object_of(step), "after": _object(counts)}
    )(where, value)


# --- Kinds of entries -----------------------------------------------------------


def _fail(where: str, expected: str, found: Any) -> None:
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
        _fail(where, _shown(expected), found)


def _integer(least: int, most: int) -> Check:
    def check_integer(where: str, value: Any) -> None:
        # A boolean is an integer to Python.
        if type(value) is not int or not least <= value <= most:
            _fail(where, f"an integer from {least} to {most}", value)

    return check_integer


_count = _integer(0, _LARGEST)


def _text(where: str, value: Any) -> None:
    if not isinstance(value, str):
        _fail(where, "a string", value)


def _boolean(where: str, value: Any) -> None:
    if not isinstance(value, bool):
        _fail(where, "true or false", value)


def _sha256(where: str, value: Any) -> None:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        _fail(where, "64 hexadecimal digits", value)


def _file_name(where: str, value: Any) -> None:
    is_name = isinstance(value, str) and value.isprintable() and value.strip(". ")
    if not is_name or "/" in value or "\\" in value or len(value) > 255:
        _fail(where, "the name of a file of this folder, without separators", value)


def _one_of(*names: str) -> Check:
    def check_name(where: str, value: Any) -> None:
        if not isinstance(value, str) or value not in names:
            _fail(where, f"one of {', '.join(names)}", value)

    return check_name


def _optional(of: Check) -> Check:
    def check_optional(where: str, value: Any) -> None:
        if value is not None:
            of(where, value)

    return check_optional


def _list_of(of: Check) -> Check:
    def check_list(where: str, value: Any) -> None:
        if not isinstance(value, list):
            _fail(where, "a list", value)
        for number, item in enumerate(value):
            of(f"{where}[{number}]", item)

    return check_list


_NAMED_FILES = {"count": _count, "first": _list_of(_text)}


def _object_of(of: Check) -> Check:
    def check_object(where: str, value: Any) -> None:
        for name, item in _items(where, value):
            of(f"{where}.{name}", item)

    return check_object


def _object(
    required: Mapping[str, Check], optional: Mapping[str, Check] | None = None
) -> Check:
    checks = {**required, **(optional or {})}

    def check_object(where: str, value: Any) -> None:
        prefix = f"{where}." if where else ""
        for name, item in _items(where, value):
            if name not in checks:
                raise SchemaError(
                    f"`{prefix}{_plain_name(name)}` is an entry that this version of "
                    "the project does not know; a newer one may have written it"
                )
            checks[name](f"{prefix}{name}", item)
        for name in required:
            if name not in value:
                raise SchemaError(f"`{prefix}{name}` is missing")

    return check_object


def _items(where: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        _fail(where or "manifest", "an object", value)
    yield from value.items()


def _plain_object(where: str, value: Any, depth: int = 0) -> None:
    """Whatever JSON holds, in an object, and not nested without end."""
    for _, item in _items(where, value):
        _check_depth(where, item, depth + 1)


def _check_depth(where: str, value: Any, depth: int) -> None:
    if depth > _MAX_DEPTH:
        _fail(where, f"nested at most {_MAX_DEPTH} times", value)
    inner = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        for item in inner:
            _check_depth(where, item, depth + 1)


def _plain_name(name: str) -> str:
    return name if name.isprintable() and len(name) <= 80 else _shown(name)


def _entries(of_class: type, checks: Mapping[str, Check]) -> Check:
    """An object whose entries are the fields of a dataclass."""
    required, optional = {}, {}
    for field in dataclasses.fields(of_class):
        has_default = field.default is not dataclasses.MISSING
        entries = optional if has_default else required
        entries[field.name] = checks.get(field.name, _anything)
    return _object(required, optional)


def _shard_checks(shard_class: type) -> dict[str, Check]:
    """Numbers of a shard are counts, whichever there are."""
    checks: dict[str, Check] = {"file": _file_name, "sha256": _sha256}
    for field in dataclasses.fields(shard_class):
        if field.type is int:
            checks[field.name] = _count
        elif field.type == int | None:
            checks[field.name] = _optional(_count)
    return checks


def _anything(where: str, value: Any) -> None:
    _check_depth(where, value, 0)
