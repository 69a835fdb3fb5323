"""From bytes to text without surprises: encoding, line ends, entities."""

import html
import html.entities
import re

from data_pipelines.readers.errors import DocumentError
from data_pipelines.readers.io import transcoding

_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*);")


def decode_utf8(
    data: bytes,
    first_line: int = 1,
    first_offset: int = 0,
    encoding: str | None = None,
) -> str:
    r"""Decodes a document's bytes, and unifies its line ends to `\n`.

    Args:
        data: the bytes of a document.
        first_line: number of the document's first line in the file.
        first_offset: number of bytes before the document in the file.
        encoding: the reader's option, which the error names; `data` is UTF-8 in any
            case. None if the format has no such option.

    Raises:
        DocumentError: if `data` is not UTF-8 or contains a NUL byte, which no text
            does, but binary files and UTF-16 do.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_decodable(data, error, first_line, first_offset, encoding) from error
    nul = data.find(b"\0")
    if nul >= 0:
        place = _place(data, nul, first_line, first_offset)
        raise DocumentError(
            "nul_byte", f"Expected text, found a NUL byte (0x00) at {place}."
        )
    return unify_line_ends(text)


def _not_decodable(
    data: bytes,
    error: UnicodeDecodeError,
    first_line: int,
    first_offset: int,
    encoding: str | None,
) -> DocumentError:
    if encoding not in (None, transcoding.UTF_8):
        line = first_line + data.count(b"\n", 0, error.start)
        byte = transcoding.undecodable_byte(data, error.start)
        return DocumentError(
            transcoding.reason_of(encoding),
            f"Expected {encoding}, found byte 0x{byte:02X}, which it does not have "
            f"there, in line {line}.",
        )
    place = _place(data, error.start, first_line, first_offset)
    hint = ""
    if encoding:
        advice = other_encoding_hint("cp1252")
        hint = f" If it is Latin-1 or Windows-1252, {advice[0].lower()}{advice[1:]}"
    return DocumentError(
        "not_utf8",
        f"Expected UTF-8, found byte 0x{data[error.start]:02X} ({error.reason}) at "
        f"{place}.{hint}",
    )


def other_encoding_hint(encoding: str, *, has_option: bool = True) -> str:
    """A sentence for a rejection on what to do about a file in another encoding."""
    convert = f"onvert it with `iconv -f {encoding.upper()} -t UTF-8`."
    if not has_option:
        return f"C{convert}"
    return f"Read it with `--reader_options=encoding={encoding}`, or c{convert}"


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
