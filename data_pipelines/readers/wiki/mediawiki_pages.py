"""Reads the pages of a MediaWiki XML dump, one at a time, unchanged."""

import io
import xml.parsers.expat
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from data_pipelines.readers.errors import DocumentError, too_long

_CHUNK_BYTES = 1 << 16
_ROOT = "mediawiki"
_NAMESPACE_PATH = (_ROOT, "siteinfo", "namespaces", "namespace")
_ROOT_TAG, _ROOT_END, _PAGE_TAG = b"<mediawiki>", b"</mediawiki>", b"<page>"
_PAGE_PATH = (_ROOT, "page")
# Paths of a page's fields; a contributor has an `<id>` as well.
_FIELDS = {
    (*_PAGE_PATH, "title"): "title",
    (*_PAGE_PATH, "ns"): "namespace",
    (*_PAGE_PATH, "id"): "id",
    (*_PAGE_PATH, "revision", "model"): "model",
    (*_PAGE_PATH, "revision", "text"): "text",
}


class Page(NamedTuple):
    """A page; of several revisions the last.

    Attributes:
        id: its number in the wiki.
        title: with the namespace's name in front.
        namespace: number of the namespace; None in dumps before 2012.
        redirect: title of the page it sends readers to; None if it has text.
        model: what the text is, "wikitext" nearly always.
        text: the markup.
        namespaces: the wiki's name of each namespace.
    """

    id: str
    title: str
    namespace: int | None
    redirect: str | None
    model: str
    text: str
    namespaces: Mapping[int, str]


def read_pages(
    stream: io.BufferedReader, max_bytes: int
) -> Iterator[Page | DocumentError]:
    """Yields the pages of a dump, holding about one in memory.

    A page whose XML is damaged, or a field of which is longer than `max_bytes`
    characters, is an error instead, and the next one is read. A part of a dump may
    begin with a page, without the dump's head.

    Raises:
        DocumentError: at damage outside of pages or at the end of a file that was cut
            off, after the pages that precede it; at a tag or comment longer than
            `max_bytes`; or if the file is no dump.
    """
    handler = _Handler(max_bytes)
    parser = _new_parser(handler)
    # Bytes and lines of the text before the parser's first, and before the chunk.
    parser_start = parser_lines = start = lines = 0
    error, is_part, tail = None, False, b""
    while True:
        # Not `read`: that would lose what precedes damage in a compressed file.
        chunk = stream.read1(_CHUNK_BYTES)
        if not start and chunk.lstrip().startswith(_PAGE_TAG):
            is_part = True
            parser.Parse(_ROOT_TAG)
            parser_start = -len(_ROOT_TAG)
        end, end_lines = start + len(chunk), lines + chunk.count(b"\n")
        is_last = not chunk
        if is_last and is_part and handler.is_between_pages:
            parser.Parse(_ROOT_END)
        if error is not None:
            # What the last chunk ended in may be the beginning of the tag.
            start, chunk = start - len(tail), tail + chunk
            lines -= tail.count(b"\n")
        while True:
            if error is None:
                try:
                    parser.Parse(chunk, is_last)
                except xml.parsers.expat.ExpatError as found:
                    error = found
                yield from handler.take_pages()
                if error is None:
                    # Text is reported piece by piece, but a tag when it is complete.
                    if end - parser_start - parser.CurrentByteIndex > max_bytes:
                        raise too_long(max_bytes, handler.after_page)
                    break
                offset = parser_start + parser.ErrorByteIndex
                line = parser_lines + error.lineno
                if is_last or not handler.is_in_page:
                    raise _damaged(error, offset, line, handler) from error
                yield _damaged_page(error, offset, line, handler)
                next_page = chunk.find(_PAGE_TAG, max(0, offset - start))
            else:
                next_page = chunk.find(_PAGE_TAG)
            if next_page < 0:
                tail = chunk[1 - len(_PAGE_TAG) :]
                break
            parser_lines = lines + chunk.count(b"\n", 0, next_page)
            start, chunk = start + next_page, chunk[next_page:]
            lines = parser_lines
            parser_start = start - len(_ROOT_TAG)
            error = None
            handler.leave_page()
            parser = _new_parser(handler)
            parser.Parse(_ROOT_TAG)
        if is_last:
            return
        start, lines = end, end_lines


def _new_parser(handler: "_Handler") -> xml.parsers.expat.XMLParserType:
    parser = xml.parsers.expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.CharacterDataHandler = handler.text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    return parser


class _Handler:
    """Gathers pages from what the XML parser reports."""

    def __init__(self, max_characters: int):
        self._max_characters = max_characters
        self._num_characters = 0
        self._too_long: set[str] = set()
        self.last_id = ""
        self.num_pages = 0
        self._path: list[str] = []
        self._namespaces: dict[int, str] = {}
        self._namespace_key = 0
        self._page: dict[str, str] = {}
        self._redirect: str | None = None
        self._characters: list[str] | None = None
        self._pages: list[Page | DocumentError] = []

    def take_pages(self) -> list[Page | DocumentError]:
        pages, self._pages = self._pages, []
        return pages

    @property
    def is_in_page(self) -> bool:
        return tuple(self._path[: len(_PAGE_PATH)]) == _PAGE_PATH

    @property
    def is_between_pages(self) -> bool:
        return self._path == [_ROOT]

    @property
    def page_id(self) -> str:
        """The number of the page that is being read, as far as it is known."""
        return self._page.get("id", "").strip()

    @property
    def after_page(self) -> str:
        """The place after the last page that was read."""
        return f"after page id={self.last_id}" if self.num_pages else "in its head"

    def leave_page(self) -> None:
        """Forgets a page that is damaged."""
        self._path.clear()
        self._page, self._redirect, self._characters = {}, None, None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._path and name != _ROOT:
            raise DocumentError(
                "not_mediawiki",
                f"Expected a MediaWiki dump, which begins with <{_ROOT}>, found "
                f"<{name[:40]}>.",
            )
        self._path.append(name)
        path = tuple(self._path)
        self._characters, self._num_characters = None, 0
        if path == _PAGE_PATH:
            self._page, self._redirect = {}, None
            self._too_long.clear()
        elif path == (*_PAGE_PATH, "redirect"):
            self._redirect = attributes.get("title", "")
        elif path == _NAMESPACE_PATH:
            self._namespace_key = _to_int(attributes.get("key", "")) or 0
            self._characters = []
        elif path in _FIELDS:
            self._characters = []

    def text(self, characters: str) -> None:
        if self._characters is not None:
            self._num_characters += len(characters)
            if self._num_characters <= self._max_characters:
                self._characters.append(characters)
            else:
                self._characters.clear()

    def end(self, name: str) -> None:
        path = tuple(self._path)
        self._path.pop()
        text = "".join(self._characters or ())
        if path in _FIELDS:
            field = _FIELDS[path]
            self._page[field] = text
            # Of several revisions the last one counts.
            self._too_long.discard(field)
            if self._num_characters > self._max_characters:
                self._too_long.add(field)
        elif path == _NAMESPACE_PATH:
            self._namespaces[self._namespace_key] = text.strip()
        elif path == _PAGE_PATH:
            self._add_page()
        self._characters = None

    def _add_page(self) -> None:
        fields = self._page
        self.last_id = fields.get("id", "").strip()
        self.num_pages += 1
        if self._too_long:
            location = f"page id={self.last_id}"
            self._pages.append(too_long(self._max_characters, location))
            return
        self._pages.append(
            Page(
                self.last_id,
                " ".join(fields.get("title", "").split()),
                _to_int(fields.get("namespace", "")),
                self._redirect,
                fields.get("model", "wikitext"),
                fields.get("text", ""),
                self._namespaces,
            )
        )


def _to_int(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _refuse_doctype(*_: object) -> None:
    # Entities that expand to gigabytes are declared there; dumps have none.
    raise DocumentError(
        "not_mediawiki", "Expected a MediaWiki dump, found a document type (<!DOCTYPE)."
    )


def _damaged(
    error: xml.parsers.expat.ExpatError, offset: int, line: int, handler: _Handler
) -> DocumentError:
    message = xml.parsers.expat.ErrorString(error.code)
    return DocumentError(
        "damaged_xml",
        f"Expected the XML of a MediaWiki dump, found in line {line}: "
        f"{message}. What precedes was read: {handler.num_pages} pages.",
        f"offset {offset} of the text, {handler.after_page}",
    )


def _damaged_page(
    error: xml.parsers.expat.ExpatError, offset: int, line: int, handler: _Handler
) -> DocumentError:
    message = xml.parsers.expat.ErrorString(error.code)
    after = f", after page id={handler.last_id}" if handler.num_pages else ""
    location = f"page id={handler.page_id}" if handler.page_id else f"a page{after}"
    return DocumentError(
        "damaged_page",
        f"Expected the XML of a page, found in line {line}, offset {offset} of the "
        f"text: {message}. The next page is read.",
        location,
    )
