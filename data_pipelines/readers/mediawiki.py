"""Reads MediaWiki dumps (`pages-articles` XML files), one page at a time."""

import dataclasses
import io
import re
from collections.abc import Iterator
from typing import ClassVar
from xml.etree import ElementTree

from data_pipelines.readers import base, streams, wiki_markup
from data_pipelines.readers.streams import DocumentError

_CHUNK_BYTES = 1 << 16
# English namespace names, which every wiki accepts in addition to the local names.
_SHARED_NAMESPACES = {"6": "File", "14": "Category"}


@dataclasses.dataclass(frozen=True)
class MediaWikiReader(base.FileReader):
    """MediaWiki dumps (`pages-articles` XML), compressed or not, including multistream.

    Each page yields its title, then its paragraphs, headings and list items in order.
    Templates, tables, references, files, galleries, formulas, code and headings of
    empty sections are left out, except templates that show plain text
    (`wiki_markup.TEMPLATES`). Only the last revision of a page is read. Redirects and
    pages of other namespaces are rejected with separate reasons, so documents and
    rejections add up to the number of pages.

    Args:
        namespaces: str. Numbers of the namespaces to read, joined by `+`: `0+118`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".xml",)

    namespaces: str = "0"

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.UnparsedDocument | base.RejectedDocument]:
        local_names: dict[str, str] = {}
        for element in _elements(stream, self.max_document_bytes):
            if element.tag.endswith("siteinfo"):
                for namespace in element.iter():
                    english = _SHARED_NAMESPACES.get(namespace.get("key", ""))
                    if english and namespace.text:
                        name = re.escape(namespace.text).replace(r"\ ", "[ _]")
                        local_names[rf"(?i)\[\[\s*{name}\s*:"] = f"[[{english}:"
            else:
                yield self._read_page(element, local_names, source)

    def _read_page(
        self, page: ElementTree.Element, local_names: dict[str, str], source: str
    ) -> base.UnparsedDocument | base.RejectedDocument:
        title = " ".join(page.findtext("{*}title", "").split())
        location = f"page id={page.findtext('{*}id', '').strip()}"
        text = page.findtext("{*}revision/{*}text", "")
        namespace = page.findtext("{*}ns", "0").strip()
        model = page.findtext("{*}revision/{*}model", "wikitext")
        redirect = page.find("{*}redirect")
        for reason, description in {
            "other_namespace": namespace not in self.namespaces.split("+")
            and f"in namespace {namespace}",
            "redirect": redirect is not None
            and f"a redirect to {redirect.get('title')}",
            "not_wikitext": model != "wikitext" and f"with the content model {model}",
        }.items():
            if description:
                message = f"Expected an article in wikitext, found {title!r}, "
                return base.RejectedDocument(
                    source, location, reason, f"{message}{description}."
                )
        if len(text.encode()) > self.max_document_bytes:
            error = streams.too_long(self.max_document_bytes)
            return base.reject(error, source, location)
        # Use English namespaces in the markup: `[[Datei:…` becomes `[[File:…`.
        for pattern, english in local_names.items():
            text = re.sub(pattern, english, text)
        return base.UnparsedDocument(text, source, location, title)

    def parse(
        self, item: base.UnparsedDocument
    ) -> base.Document | base.RejectedDocument:
        try:
            paragraphs = wiki_markup.to_paragraphs(item.markup)
        except DocumentError as error:
            return base.reject(error, item.source, item.location)
        if paragraphs and item.title:
            paragraphs.insert(0, item.title)
        return base.to_document(paragraphs, item.source, item.location, item.title)


def _elements(
    stream: io.BufferedReader, max_bytes: int
) -> Iterator[ElementTree.Element]:
    """Yields `siteinfo` and the pages of a dump, with one page in memory at a time.

    Keeps only last revisions. Raises DocumentError for damaged XML or too long pages.
    """
    parser = ElementTree.XMLPullParser(("start", "end"))
    path: list[ElementTree.Element] = []  # The open elements.
    num_bytes, place = 0, "in its head"
    while chunk := stream.read1(_CHUNK_BYTES):
        parser.feed(chunk)
        num_bytes += len(chunk)
        try:
            for event, element in parser.read_events():
                name = element.tag.rpartition("}")[2]
                if event == "end":
                    path.pop()
                    if len(path) == 1 and name in ("page", "siteinfo"):
                        yield element
                        place = f"after page id={element.findtext('{*}id', '').strip()}"
                        path[0].clear()
                        num_bytes = 0
                    continue
                if not path and name != "mediawiki":
                    raise DocumentError(
                        "not_mediawiki", f"Expected a MediaWiki dump, found <{name}>."
                    )
                if name == "revision":
                    for earlier in path[-1].findall("{*}revision")[:-1]:
                        path[-1].remove(earlier)
                    num_bytes = 0
                path.append(element)
        except ElementTree.ParseError as error:
            raise DocumentError(
                "damaged_xml" if path else "not_mediawiki",
                f"Expected the XML of a MediaWiki dump, found: {error}. The pages "
                "before it were read.",
                place,
            ) from error
        if num_bytes > max_bytes + _CHUNK_BYTES:
            raise streams.too_long(max_bytes, place)
    if path:
        name = path[-1].tag.rpartition("}")[2]
        raise DocumentError(
            "damaged_xml",
            f"Expected </{name}>, found the end of the file. The rest was read.",
            place,
        )
