"""JSON lines: one object a line, its text in a field (C4, The Pile and the like)."""

import dataclasses
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from data_pipelines.readers import base, streams
from data_pipelines.readers.streams import DocumentError

_SHOWN_CHARACTERS = 40
_MISSING = object()
_JSON_TYPES = {
    **{type(None): "null", bool: "a boolean", int: "a number", float: "a number"},
    **{str: "a string", list: "an array", dict: "an object"},
}


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
    is_first = True
    for line in streams.lines(stream, reader.max_document_bytes):
        data, location = line.data, f"line {line.number}"
        if data.isspace() and not line.is_long:
            continue
        if is_first:
            _check_is_json_lines(data, location)
            is_first = False
        try:
            if line.is_long:
                raise streams.too_long(reader.max_document_bytes)
            text = streams.decode(data, line.number, line.offset, reader.encoding)
            text, title = _text_and_title(_parse(text), *fields)
            if b"\\u" in data:
                _check_escapes(text + title)
        except DocumentError as error:
            yield base.reject(error, source, location)
        else:
            paragraphs = to_paragraphs(text, title)
            yield base.to_document(paragraphs, source, location, title)


def _check_is_json_lines(line: bytes, location: str) -> None:
    """Rejects a file at once if every line would be malformed."""
    begin = line.strip()
    if begin.startswith(b"[") or begin == b"{":
        kind = "array" if begin.startswith(b"[") else "object over several lines"
        raise DocumentError(
            "not_json_lines",
            f"Expected one JSON object a line, found a JSON {kind}. Convert it with "
            "`jq -c` (`jq -c '.[]'` for an array).",
            location,
        )


def _parse(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        found = line[error.pos : error.pos + _SHOWN_CHARACTERS].strip()
        raise DocumentError(
            "malformed_json",
            f"Expected a JSON object; at column {error.colno}: {error.msg}, found "
            f"{repr(found) if found else 'the end of the line'}.",
        ) from error
    except (ValueError, RecursionError) as error:
        # A number with thousands of digits, or brackets nested without end.
        raise DocumentError(
            "malformed_json", f"Expected a JSON object: {error}."
        ) from error
    if not isinstance(record, dict):
        raise DocumentError(
            "not_an_object",
            f"Expected a JSON object, found {_JSON_TYPES[type(record)]}: "
            f"{line.strip()[:_SHOWN_CHARACTERS]!r}.",
        )
    return record


def _text_and_title(
    record: dict[str, Any], text_field: str, title_field: str
) -> tuple[str, str]:
    text = _field(record, text_field)
    if text is _MISSING:
        raise DocumentError(
            "missing_text_field",
            f"Expected a field {text_field!r}, found only {sorted(_names(record))}. "
            "The option `text_field` names another.",
        )
    parts = text if isinstance(text, list) else [text]
    for part in parts:
        if not isinstance(part, str):
            inside = " in an array" if isinstance(text, list) else ""
            raise DocumentError(
                "text_not_a_string",
                f"Expected a string, or an array of strings, in the field "
                f"{text_field!r}, found {_JSON_TYPES[type(part)]}{inside}.",
            )
    title = _field(record, title_field)
    title = title if isinstance(title, str) else ""
    return streams.unify_line_ends("\n".join(parts)), " ".join(title.split())


def _field(record: dict[str, Any], name: str) -> Any:
    """The value of a field, or of `outer.inner` in a nested object; or `_MISSING`."""
    if name in record:
        return record[name]
    position = name.find(".")
    while position >= 0:
        inner = record.get(name[:position])
        if isinstance(inner, dict):
            value = _field(inner, name[position + 1 :])
            if value is not _MISSING:
                return value
        position = name.find(".", position + 1)
    return _MISSING


def _names(record: dict[str, Any]) -> Iterator[str]:
    """The names of the fields and of those of nested objects, one level deep."""
    for name, value in record.items():
        yield name
        if isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in value)


def _check_escapes(text: str) -> None:
    r"""Rejects what escapes can smuggle past `streams.decode`."""
    if "\0" in text:
        raise DocumentError("nul_byte", "Expected text, found the escape \\u0000.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DocumentError(
            "lone_surrogate",
            f"Expected text, found the escape \\u{ord(text[error.start]):04x}, half "
            "of a surrogate pair.",
        ) from error
