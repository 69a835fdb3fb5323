"""Rows with named fields as documents, and JSON lines: one row a line."""

import dataclasses
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from data_pipelines.readers import base, streams
from data_pipelines.readers.streams import DocumentError

_SHOWN_CHARACTERS = 40
_MISSING = object()
_SURROGATE = re.compile("[\ud800-\udfff]")
_TYPE_NAMES = {
    **{type(None): "null", bool: "a boolean", int: "a number", float: "a number"},
    **{str: "a string", list: "an array", dict: "an object"},
}


def _find(row: Mapping[str, Any], name: str) -> Any:
    """The value of a field, or of `outer.inner` in a nested object; or `_MISSING`."""
    if name in row:
        return row[name]
    for position, character in enumerate(name):
        inner = row.get(name[:position]) if character == "." else None
        if isinstance(inner, dict):
            value = _find(inner, name[position + 1 :])
            if value is not _MISSING:
                return value
    return _MISSING


def find_text(row: Mapping[str, Any], text_field: str) -> Any:
    """The value of the field with the text; a DocumentError if there is none."""
    value = _find(row, text_field)
    if value is _MISSING:
        names = list(row)
        for name, inner in row.items():
            names += [f"{name}.{key}" for key in inner] if type(inner) is dict else []
        raise DocumentError(
            "missing_text_field",
            f"Expected a field {text_field!r}, found only {sorted(names)}. The option "
            "`text_field` names another.",
        )
    return value


def text_and_title(
    row: Mapping[str, Any], text_field: str, title_field: str, max_bytes: int
) -> tuple[str, str]:
    """The text of a row, and its title or ""; a DocumentError without a valid text."""
    text = _to_text(find_text(row, text_field), text_field)
    title = _find(row, title_field)
    title = _to_text(title, title_field) if isinstance(title, str | bytes) else ""
    if len(text) > max_bytes or len(text.encode()) > max_bytes:
        raise streams.too_long(max_bytes)
    return text, " ".join(title.split())


def _to_text(value: Any, field: str) -> str:
    """The text of a field: a string, or a list of them, its paragraphs."""
    parts = value if isinstance(value, list) else [value]
    for part in parts:
        if not isinstance(part, str | bytes):
            type_name = _TYPE_NAMES.get(type(part), type(part).__name__)
            raise DocumentError(
                "text_not_a_string",
                f"Expected a string, or an array of strings, in the field {field!r}, "
                f"found {type_name}{' in an array' if value is parts else ''}.",
            )
    text = "\n".join(
        streams.decode(part) if isinstance(part, bytes) else part for part in parts
    )
    # JSON's escapes can express both.
    if "\0" in text:
        raise DocumentError("nul_byte", "Expected text, found the escape \\u0000.")
    if match := _SURROGATE.search(text):
        raise DocumentError(
            "lone_surrogate",
            f"Expected text, found the escape \\u{ord(match[0]):04x}, half of a "
            "surrogate pair.",
        )
    return streams.unify_line_ends(text)


@dataclasses.dataclass(frozen=True)
class JsonLinesReader(base.TextReader):
    """JSON lines: one object a line, its text in a field (C4, The Pile and the like).

    Line ends in the text separate its paragraphs. Dots name a field of a nested object,
    `content.text`; a field with that very name takes precedence. The text may be a list
    of strings, its paragraphs.

    Args:
        text_field: name of the field that holds the text.
        title_field: name of the field that holds the title, if there is one.
        encoding: see `base.TextReader`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson")

    text_field: str = "text"
    title_field: str = "title"

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        return read_json_lines(
            stream,
            source,
            self,
            (self.text_field, self.title_field),
            lambda text, title: streams.split_lines(text),
        )


def read_json_lines(
    stream: io.BufferedReader,
    source: str,
    reader: base.TextReader,
    fields: tuple[str, str],
    to_paragraphs: Callable[[str, str], Sequence[str]],
) -> Iterator[base.Document | base.RejectedDocument]:
    """Reads one document per line.

    Args:
        stream: the file's bytes.
        source: the file's name.
        reader: has the encoding and the size of the largest document.
        fields: names of the fields with the text and the title.
        to_paragraphs: turns a text and its title into paragraphs.

    Raises:
        DocumentError: if the file is JSON, but not one object per line.
    """
    max_bytes, is_first = reader.max_document_bytes, True
    for line in streams.lines(stream, max_bytes):
        data, location = line.data, f"line {line.number}"
        if data.isspace() and not line.is_long:
            continue
        begin = data.strip()
        if is_first and (begin.startswith(b"[") or begin == b"{"):
            kind = "array" if begin.startswith(b"[") else "object over several lines"
            raise DocumentError(
                "not_json_lines",
                f"Expected one JSON object a line, found a JSON {kind}. Convert it "
                "with `jq -c` (`jq -c '.[]'` for an array).",
                location,
            )
        is_first = False
        try:
            if line.is_long:
                raise streams.too_long(max_bytes)
            text = streams.decode(data, line.number, line.offset, reader.encoding)
            text, title = text_and_title(_parse(text), *fields, max_bytes)
        except DocumentError as error:
            yield base.reject(error, source, location)
        else:
            paragraphs = to_paragraphs(text, title)
            yield base.to_document(paragraphs, source, location, title)


def _parse(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        excerpt = line[error.pos : error.pos + _SHOWN_CHARACTERS].strip()
        raise DocumentError(
            "malformed_json",
            f"Expected a JSON object; at column {error.colno}: {error.msg}, found "
            f"{repr(excerpt) if excerpt else 'the end of the line'}.",
        ) from error
    # A number with thousands of digits, or brackets nested without end.
    except (ValueError, RecursionError) as error:
        raise DocumentError(
            "malformed_json", f"Expected a JSON object: {error}."
        ) from error
    if not isinstance(record, dict):
        raise DocumentError(
            "not_an_object",
            f"Expected a JSON object, found {_TYPE_NAMES[type(record)]}: "
            f"{line.strip()[:_SHOWN_CHARACTERS]!r}.",
        )
    return record
