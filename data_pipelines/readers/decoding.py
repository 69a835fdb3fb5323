"""From bytes to text without surprises: encoding, line ends, entities."""

import html
import html.entities
import re

from data_pipelines.readers.errors import DocumentError

_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*);")


def decode_utf8(data: bytes, first_line: int = 1, first_offset: int = 0) -> str:
    r"""Decodes a document's bytes, and unifies its line ends to `\n`.

    Args:
        data: the bytes of a document.
        first_line: number of the document's first line in the file.
        first_offset: number of bytes before the document in the file.

    Raises:
        DocumentError: if `data` is not UTF-8 or contains a NUL byte, which no text
            does, but binary files and UTF-16 do.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        place = _place(data, error.start, first_line, first_offset)
        raise DocumentError(
            "not_utf8",
            f"Expected UTF-8, found byte 0x{data[error.start]:02X} ({error.reason}) "
            f"at {place}.",
        ) from error
    nul = data.find(b"\0")
    if nul >= 0:
        place = _place(data, nul, first_line, first_offset)
        raise DocumentError(
            "nul_byte", f"Expected text, found a NUL byte (0x00) at {place}."
        )
    return unify_line_ends(text)


def unify_line_ends(text: str) -> str:
    r"""Writes the line ends `\r\n` and `\r` as `\n`."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def split_lines(text: str) -> list[str]:
    r"""The lines that have text in them, stripped. `\n` alone separates them."""
    return [stripped for line in text.split("\n") if (stripped := line.strip())]


def unescape_entities(text: str) -> str:
    """Replaces entities such as `&amp;` and `&#8211;` by their characters.

    Unlike `html.unescape` it leaves alone what lacks the semicolon: `&copy=1` in
    an address, `AT&T`, are text.
    """
    if "&" not in text:
        return text
    return _ENTITY.sub(_unescape_entity, text)


def _unescape_entity(match: re.Match[str]) -> str:
    entity = match[0]
    if entity[1] != "#" and entity[1:] not in html.entities.html5:
        return entity
    return unify_line_ends(html.unescape(entity))


def _place(data: bytes, index: int, first_line: int, first_offset: int) -> str:
    line = first_line + data.count(b"\n", 0, index)
    column = index - data.rfind(b"\n", 0, index)
    return f"line {line}, byte {column} of the line (offset {first_offset + index})"
