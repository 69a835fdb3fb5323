"""JSON lines: one object a line, its text in a field (C4, The Pile and the like)."""

import dataclasses
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from data_pipelines.readers import base
from data_pipelines.readers.errors import DocumentError, too_long
from data_pipelines.readers.io import byte_streams, decoding

_SHOWN_CHARACTERS = 40
_MISSING = object()


@dataclasses.dataclass(frozen=True)
class Reader(base.TextReader):
    """Reads JSON lines. Line ends in the text separate its paragraphs.

    A field of an object in the object is named with dots, `content.text`; a field whose
    own name is that comes first. The text may be a list of strings, its paragraphs.

    Args:
        text_field: name of the field that holds the text.
        title_field: name of the field that holds the title, where there is one.
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
            text_field=self.text_field,
            title_field=self.title_field,
            to_paragraphs=_to_paragraphs,
            encoding=self.encoding,
            max_bytes=self.max_document_bytes,
        )


def read_json_lines(
    stream: io.BufferedReader,
    source: str,
    *,
    text_field: str,
    title_field: str,
    to_paragraphs: Callable[[str, str], Sequence[str]],
    encoding: str,
    max_bytes: int,
) -> Iterator[base.Document | base.RejectedDocument]:
    r"""Reads a document a line.

    Args:
        stream: the file's bytes.
        source: the file's name.
        text_field: name of the field that holds the text.
        title_field: name of the field that holds the title, where there is one.
        to_paragraphs: makes paragraphs of a text (with `\n` line ends) and a title.
        encoding: the reader's option.
        max_bytes: the longest line; a longer one is passed over and rejected.

    Raises:
        DocumentError: if the file is JSON, but not an object a line.
    """
    offset, is_first = stream.tell(), True
    for number, line in enumerate(byte_streams.lines(stream, max_bytes), start=1):
        location = f"line {number}"
        if isinstance(line, byte_streams.LongLine):
            if is_first:
                _check_is_json_lines(line.begin, number)
                is_first = False
            yield base.reject(too_long(max_bytes), source, location)
            offset += line.num_bytes
            continue
        if line.isspace():
            offset += len(line)
            continue
        if is_first:
            _check_is_json_lines(line, number)
            is_first = False
        try:
            record = _parse(decoding.decode_utf8(line, number, offset, encoding))
            text, title = _text_and_title(record, text_field, title_field)
            if b"\\u" in line:
                _check_escapes(text + title)
        except DocumentError as error:
            yield base.reject(error, source, location)
        else:
            paragraphs = to_paragraphs(text, title)
            yield base.document_or_rejection(paragraphs, source, location, title)
        offset += len(line)


def _to_paragraphs(text: str, title: str) -> list[str]:
    del title  # It is no part of the text.
    return decoding.split_lines(text)


def _check_is_json_lines(line: bytes, number: int) -> None:
    """Gives up at once on a file whose every line would be malformed."""
    found = line.strip()
    if found.startswith(b"[") or found == b"{":
        kind = "array" if found.startswith(b"[") else "object over several lines"
        raise DocumentError(
            "not_json_lines",
            f"Expected one JSON object a line, found a JSON {kind}. Convert it with "
            "`jq -c` (`jq -c '.[]'` for an array).",
            f"line {number}",
        )


def _parse(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        found = repr(line[error.pos : error.pos + _SHOWN_CHARACTERS].strip())
        raise DocumentError(
            "malformed_json",
            f"Expected a JSON object; at column {error.colno}: {error.msg}, found "
            f"{found if found != repr('') else 'the end of the line'}.",
        ) from error
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits, or brackets in brackets without end.
        raise DocumentError(
            "malformed_json", f"Expected a JSON object: {error}."
        ) from error
    if not isinstance(record, dict):
        raise DocumentError(
            "not_an_object",
            f"Expected a JSON object, found {_json_type(record)}: "
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
                f"{text_field!r}, found {_json_type(part)}{inside}.",
            )
    title = _field(record, title_field)
    title = title if isinstance(title, str) else ""
    return decoding.unify_line_ends("\n".join(parts)), " ".join(title.split())


def _field(record: dict[str, Any], name: str) -> Any:
    """The value of a field, `outer.inner` in an object too, or `_MISSING`."""
    if name in record:
        return record[name]
    position = name.find(".")
    while position >= 0:
        inner = record.get(name[:position])
        if isinstance(inner, dict):
            found = _field(inner, name[position + 1 :])
            if found is not _MISSING:
                return found
        position = name.find(".", position + 1)
    return _MISSING


def _names(record: dict[str, Any], depth: int = 2) -> Iterator[str]:
    """Names of the fields, and of those of objects in them, as options have them."""
    for name, value in record.items():
        yield name
        if isinstance(value, dict) and depth > 1:
            yield from (f"{name}.{inner}" for inner in _names(value, depth - 1))


def _check_escapes(text: str) -> None:
    """Rejects what escapes can smuggle past the decoding of the bytes."""
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


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    names = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "an array",
        dict: "an object",
    }
    return names[type(value)]
