"""Converts rows with named fields to documents, and reads JSON lines as such rows."""

import dataclasses
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from data_pipelines.readers import base, streams
from data_pipelines.readers.streams import DocumentError

_SHOWN_CHARACTERS = 40
_MISSING = object()
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


def _find(row: Mapping[str, Any], name: str) -> Any:
    """Returns a field's value, or `_MISSING`. `outer.inner` names a nested field."""
    if name in row:
        return row[name]
    outer, _, inner = name.partition(".")
    fields = row.get(outer, _MISSING) if inner else _MISSING
    return _find(fields, inner) if isinstance(fields, dict) else fields and _MISSING


def find_text(row: Mapping[str, Any], text_field: str) -> Any:
    """Returns the value of the text field. Raises DocumentError if it is missing."""
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
    """Returns the text and the title of a row. A missing title is "".

    Raises DocumentError if the text is missing, invalid or larger than `max_bytes`.
    """
    text = _to_text(find_text(row, text_field), text_field)
    title = _find(row, title_field)
    title = _to_text(title, title_field) if isinstance(title, str | bytes) else ""
    if len(text) > max_bytes or len(text.encode()) > max_bytes:
        raise streams.too_long(max_bytes)
    return text, " ".join(title.split())


def _to_text(value: Any, field: str) -> str:
    """Converts a field's value, a string or a list of paragraphs, to text."""
    parts = value if isinstance(value, list) else [value]
    for part in parts:
        if not isinstance(part, str | bytes):
            raise DocumentError(
                "text_not_a_string",
                f"Expected a string, or a list of strings, in the field {field!r}, "
                f"found {str(part)[:_SHOWN_CHARACTERS]}.",
            )
    text = "\n".join(
        # Only columns of tables have bytes.
        streams.decode(part, has_encoding=False) if isinstance(part, bytes) else part
        for part in parts
    )
    # A NUL character or half of a surrogate pair.
    if match := _NO_TEXT.search(text):
        escape = f"\\u{ord(match[0]):04x}"
        raise DocumentError(
            "no_character", f"Expected text, found the escape {escape}."
        )
    return streams.unify_line_ends(text)


@dataclasses.dataclass(frozen=True)
class JsonLinesReader(base.TextReader):
    """JSON lines with one object per line, its text in a field (C4, The Pile, …).

    Line ends in a text separate paragraphs. A text may also be a list of paragraphs.
    Dots in `text_field` select a field of a nested object, as in
    `content.text`, unless there is a field with that exact name.

    Args:
        text_field: str. Name of the text field.
        title_field: str. Name of the title field, if there is one.
        encoding: str. See `base.TextReader`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson")

    text_field: str = "text"
    title_field: str = "title"

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        max_bytes, is_first = self.max_document_bytes, True
        for line in streams.lines(stream, max_bytes):
            data, location = line.data, f"line {line.number}"
            if data.isspace():
                continue
            begin = data.strip()
            if is_first and (begin.startswith(b"[") or begin == b"{"):
                raise DocumentError(
                    "not_json_lines",
                    "Expected one JSON object a line, found JSON over several lines or "
                    "an array. Convert it with `jq -c` (`jq -c '.[]'` for an array).",
                    location,
                )
            is_first = False
            try:
                row = _parse(streams.decode(data, line.number))
                paragraphs, title = self.read_row(row)
            except DocumentError as error:
                yield base.reject(error, source, location)
            else:
                yield base.to_document(paragraphs, source, location, title)

    def read_row(self, row: Mapping[str, Any]) -> tuple[list[str], str]:
        """Returns paragraphs and title. Raises DocumentError if the text is invalid."""
        fields = (self.text_field, self.title_field, self.max_document_bytes)
        text, title = text_and_title(row, *fields)
        return self.to_paragraphs(text, title), title

    def to_paragraphs(self, text: str, title: str) -> list[str]:
        """Splits a text into paragraphs. Subclasses may use the title."""
        del title
        return streams.split_lines(text)


def _parse(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    # A number with thousands of digits, or deeply nested brackets.
    except (ValueError, RecursionError) as error:
        raise DocumentError(
            "malformed_json", f"Expected a JSON object, found: {error}."
        ) from error
    if not isinstance(record, dict):
        raise DocumentError(
            "not_an_object",
            f"Expected a JSON object, found {line.strip()[:_SHOWN_CHARACTERS]!r}.",
        )
    return record
