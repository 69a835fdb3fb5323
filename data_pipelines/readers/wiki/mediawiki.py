"""MediaWiki dumps: the XML of `pages-articles`, plain or bzip2, multistream too."""

import dataclasses
import functools
import importlib
import io
import os
import re
from collections.abc import Iterator, Mapping

from data_pipelines.readers import base
from data_pipelines.readers.errors import DocumentError
from data_pipelines.readers.io.passed_over import PassedOver
from data_pipelines.readers.wiki import mediawiki_pages, wiki_markup
from seg_tf import file_listing

# `…-pages-articles1.xml-p1p41242.bz2` is one of several parts.
_DUMP_NAME = re.compile(
    r"\.xml(?:-p\d+p\d+[^.]*)?(?:\.(?:bz2|gz|zst))?$", re.IGNORECASE
)
_REDIRECT = re.compile(r"\s*#redirect\b[^\[\n]*\[\[([^\]|\n]*)", re.IGNORECASE)
# Numbers of namespaces, and their names in every wiki beside its own.
_SHARED_NAMESPACES = {6: "File", 14: "Category"}


@dataclasses.dataclass(frozen=True)
class Reader(base.FileReader):
    """Reads the articles of a dump as readers see them, less what is no prose.

    The title comes first; paragraphs, headings and items of lists are paragraphs.
    Templates, tables, references, files, galleries, formulas and code are left out,
    save templates that show plain text (`templates`), and so are headings with nothing
    under them. Of several revisions of a page the last is taken. Redirects and pages of
    other namespaces are rejected with separate reasons, so documents and rejections
    together are the pages.

    Args:
        namespaces: numbers of the namespaces to read, joined by `+`: `0+118`.
        drop_title: whether to leave out the title, which is the first paragraph
            otherwise.
        templates: name of a module that adds to `templates.TEXTS`.
    """

    namespaces: str = "0"
    drop_title: bool = False
    templates: str = ""

    def __post_init__(self):
        if not re.fullmatch(r"-?\d+(?:\+-?\d+)*", self.namespaces):
            raise ValueError(
                "`namespaces` must be numbers joined by `+`, such as 0 or 0+118. "
                f"Received: {self.namespaces!r}"
            )
        try:
            importlib.import_module(self.templates or __name__)
        except ImportError as error:
            raise ValueError(
                "`templates` must name a module that can be imported. "
                f"Received: {self.templates!r}, {error}"
            ) from error

    def files(
        self, input_path: str | os.PathLike[str], passed_over: PassedOver | None = None
    ) -> list[file_listing.Path]:
        files = super().files(input_path, passed_over)
        # A folder holds indices, checksums and tables beside the dump.
        dumps = [path for path in files if _DUMP_NAME.search(path.name)]
        if dumps and passed_over is not None:
            for path in files:
                if not _DUMP_NAME.search(path.name):
                    name = self.source_name(path, input_path)
                    passed_over.add(file_listing.OTHER_NAME, name)
        return dumps or files

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.UnparsedDocument | base.RejectedDocument]:
        wanted = {int(number) for number in self.namespaces.split("+")}
        for page in mediawiki_pages.read_pages(stream, self.max_document_bytes):
            if isinstance(page, DocumentError):
                yield base.reject(page, source)
                continue
            location = f"page id={page.id}"
            reason = _why_not(page, wanted)
            if reason is not None:
                yield base.RejectedDocument(source, location, *reason)
                continue
            markup = _in_english(page.text, page.namespaces)
            yield base.UnparsedDocument(markup, source, location, page.title)

    def parse(
        self, item: base.UnparsedDocument
    ) -> base.Document | base.RejectedDocument:
        try:
            paragraphs = wiki_markup.to_paragraphs(item.markup)
        except DocumentError as error:
            return base.reject(error, item.source, item.location)
        if paragraphs and item.title and not self.drop_title:
            paragraphs.insert(0, item.title)
        return base.document_or_rejection(
            paragraphs, item.source, item.location, item.title
        )


def _why_not(page: mediawiki_pages.Page, wanted: set[int]) -> tuple[str, str] | None:
    """Reason and message of a page that is left out."""
    namespace = _namespace(page)
    if namespace not in wanted:
        return (
            "other_namespace",
            f"Expected a page of namespace {' or '.join(map(str, sorted(wanted)))}, "
            f"found {page.title!r} of {namespace}.",
        )
    target = page.redirect
    if target is None and (match := _REDIRECT.match(page.text)):
        target = match[1]
    if target is not None:
        return (
            "redirect",
            f"Expected an article, found {page.title!r}, a redirect to {target!r}.",
        )
    if page.model != "wikitext":
        return (
            "not_wikitext",
            f"Expected wikitext, found {page.title!r} of the model {page.model!r}.",
        )
    return None


def _namespace(page: mediawiki_pages.Page) -> int:
    if page.namespace is not None:
        return page.namespace
    prefix, separator, _ = page.title.partition(":")
    numbers = {name: number for number, name in page.namespaces.items() if name}
    return numbers.get(prefix, 0) if separator else 0


def _in_english(text: str, namespaces: Mapping[int, str]) -> str:
    """`[[Datei:…` as `[[File:…`, so that markup is parsed without its wiki."""
    for number, english in _SHARED_NAMESPACES.items():
        own = namespaces.get(number, english)
        if own and own != english:
            text = _link_start(own).sub(f"[[{english}:", text)
    return text


@functools.cache
def _link_start(namespace: str) -> re.Pattern[str]:
    name = re.escape(namespace).replace(r"\ ", "[ _]")
    return re.compile(rf"\[\[\s*{name}\s*:", re.IGNORECASE)
