"""The pages of a MediaWiki XML dump, one at a time, as they stand in it."""

import io
import xml.parsers.expat
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from data_pipelines.readers.errors import DocumentError

_CHUNK_BYTES = 1 << 16
_ROOT = "mediawiki"
_NAMESPACE_PATH = (_ROOT, "siteinfo", "namespaces", "namespace")
_PAGE_PATH = (_ROOT, "page")
# Where a page's fields stand; a contributor has an `<id>` as well.
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


def read_pages(stream: io.BufferedReader) -> Iterator[Page]:
    """Yields the pages of a dump, holding about one in memory.

    Raises:
        DocumentError: at damage, after the pages that precede it; or if the file is
            no dump.
    """
    handler = _Handler()
    parser = xml.parsers.expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.CharacterDataHandler = handler.text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    while True:
        # Not `read`: that would lose what precedes damage in a compressed file.
        chunk = stream.read1(_CHUNK_BYTES)
        error = None
        try:
            parser.Parse(chunk, not chunk)
        except xml.parsers.expat.ExpatError as found:
            error = found
        yield from handler.take_pages()
        if error is not None:
            raise _damaged(error, parser.ErrorByteIndex, handler) from error
        if not chunk:
            return


class _Handler:
    """Gathers pages from what the XML parser reports."""

    def __init__(self):
        self.last_id = ""
        self.num_pages = 0
        self._path: list[str] = []
        self._namespaces: dict[int, str] = {}
        self._namespace_key = 0
        self._page: dict[str, str] = {}
        self._redirect: str | None = None
        self._characters: list[str] | None = None
        self._pages: list[Page] = []

    def take_pages(self) -> list[Page]:
        pages, self._pages = self._pages, []
        return pages

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._path and name != _ROOT:
            raise DocumentError(
                "not_mediawiki",
                f"Expected a MediaWiki dump, which begins with <{_ROOT}>, found "
                f"<{name[:40]}>.",
            )
        self._path.append(name)
        path = tuple(self._path)
        self._characters = None
        if path == _PAGE_PATH:
            self._page, self._redirect = {}, None
        elif path == (*_PAGE_PATH, "redirect"):
            self._redirect = attributes.get("title", "")
        elif path == _NAMESPACE_PATH:
            self._namespace_key = _to_int(attributes.get("key", "")) or 0
            self._characters = []
        elif path in _FIELDS:
            self._characters = []

    def text(self, characters: str) -> None:
        if self._characters is not None:
            self._characters.append(characters)

    def end(self, name: str) -> None:
        path = tuple(self._path)
        self._path.pop()
        text = "".join(self._characters or ())
        if path in _FIELDS:
            self._page[_FIELDS[path]] = text
        elif path == _NAMESPACE_PATH:
            self._namespaces[self._namespace_key] = text.strip()
        elif path == _PAGE_PATH:
            self._add_page()
        self._characters = None

    def _add_page(self) -> None:
        fields = self._page
        self.last_id = fields.get("id", "").strip()
        self.num_pages += 1
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
    error: xml.parsers.expat.ExpatError, offset: int, handler: _Handler
) -> DocumentError:
    message = xml.parsers.expat.ErrorString(error.code)
    after = f"after page id={handler.last_id}" if handler.num_pages else "in its head"
    return DocumentError(
        "damaged_xml",
        f"Expected the XML of a MediaWiki dump, found in line {error.lineno}: "
        f"{message}. What precedes was read: {handler.num_pages} pages.",
        f"offset {offset} of the text, {after}",
    )
