"""MediaWiki dumps: the XML of `pages-articles`, read a page at a time."""

import contextlib
import dataclasses
import importlib
import io
import itertools
import os
import re
from collections.abc import Iterator
from xml.etree import ElementTree

from data_pipelines.readers import base, streams, wiki_markup
from data_pipelines.readers.streams import DocumentError
from seg_tf import file_listing

_CHUNK_BYTES = 1 << 16
# In text and attributes `<` is escaped, so these occur nowhere else.
_PAGE, _PAGE_END, _REVISION = b"<page>", b"</page>", b"<revision>"
_MARKS = re.compile(rb"(</page>)|(?=<page>|<revision>)")
_DUMP, _DUMP_END = b"<mediawiki", b"</mediawiki>"
_HEAD = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<mediawiki\b", re.DOTALL)
_ID = re.compile(rb"<id>\s*(\d+)\s*</id>")
# `…-pages-articles1.xml-p1p41242.bz2` is one of several parts.
_DUMP_NAME = re.compile(
    r"\.xml(?:-p\d+p\d+[^.]*)?(?:\.(?:bz2|gz|xz|zst))?$", re.IGNORECASE
)
_REDIRECT = re.compile(r"\s*#redirect\b[^\[\n]*\[\[([^\]|\n]*)", re.IGNORECASE)
# Their names in every wiki, in addition to its own.
_SHARED_NAMESPACES = {6: "File", 14: "Category"}


@dataclasses.dataclass(frozen=True)
class MediaWikiReader(base.FileReader):
    """MediaWiki dumps: the XML of `pages-articles`, compressed or not, multistream too.

    The title comes first; paragraphs, headings and list items are paragraphs.
    Templates, tables, references, files, galleries, formulas and code are left out,
    except templates that show plain text (`templates`), and so are headings of empty
    sections. The last revision of a page is read. Redirects and pages of other
    namespaces are rejected with separate reasons, so documents and rejections together
    are the pages.

    Args:
        namespaces: numbers of the namespaces to read, joined by `+`: `0+118`.
        drop_title: whether to leave out the title, the first paragraph otherwise.
        templates: name of a module that adds to `wiki_markup.TEMPLATES`.
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
        self,
        input_path: str | os.PathLike[str],
        passed_over: base.PassedOver | None = None,
    ) -> list[file_listing.Path]:
        files = super().files(input_path, passed_over)
        # A folder contains indices, checksums and tables as well as the dump.
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
        namespaces: dict[int, str] = {}
        for element in _pages(stream, self.max_document_bytes):
            if isinstance(element, DocumentError):
                yield base.reject(element, source)
            elif element.tag == "page":
                yield self._read_page(element, namespaces, source)
            else:
                for child in element.iter():
                    if child.tag.rpartition("}")[2] == "namespace":
                        with contextlib.suppress(ValueError):
                            number = int(child.get("key", "0"))
                            namespaces[number] = (child.text or "").strip()

    def _read_page(
        self, page: ElementTree.Element, namespaces: dict[int, str], source: str
    ) -> base.UnparsedDocument | base.RejectedDocument:
        title = " ".join((page.findtext("title") or "").split())
        location = f"page id={(page.findtext('id') or '').strip()}"
        revision = page.find("revision[last()]")
        text = model = None
        if revision is not None:
            text, model = revision.findtext("text"), revision.findtext("model")
        text = text or ""

        def leave_out(reason: str, expected: str, kind: str) -> base.RejectedDocument:
            message = f"Expected {expected}, found {title!r}{kind}."
            return base.RejectedDocument(source, location, reason, message)

        namespace = _namespace(page.findtext("ns"), title, namespaces)
        if namespace not in map(int, self.namespaces.split("+")):
            expected = f"a page of namespace {self.namespaces.replace('+', ' or ')}"
            return leave_out("other_namespace", expected, f" of {namespace}")
        redirect, match = page.find("redirect"), _REDIRECT.match(text)
        if redirect is not None or match:
            target = match[1] if redirect is None else redirect.get("title", "")
            return leave_out("redirect", "an article", f", a redirect to {target!r}")
        if model not in (None, "wikitext"):
            return leave_out("not_wikitext", "wikitext", f" of the model {model!r}")
        # Makes the markup independent of the wiki: `[[Datei:…` becomes `[[File:…`.
        for number, english in _SHARED_NAMESPACES.items():
            name = namespaces.get(number) or english
            if name != english:
                name = re.escape(name).replace(r"\ ", "[ _]")
                text = re.sub(rf"(?i)\[\[\s*{name}\s*:", f"[[{english}:", text)
        return base.UnparsedDocument(text, source, location, title)

    def parse(
        self, item: base.UnparsedDocument
    ) -> base.Document | base.RejectedDocument:
        try:
            paragraphs = wiki_markup.to_paragraphs(item.markup)
        except DocumentError as error:
            return base.reject(error, item.source, item.location)
        if paragraphs and item.title and not self.drop_title:
            paragraphs.insert(0, item.title)
        return base.to_document(paragraphs, item.source, item.location, item.title)


def _namespace(number: str | None, title: str, namespaces: dict[int, str]) -> int:
    """The namespace of a page; dumps before 2012 have no numbers, only names."""
    try:
        return int(number or "")
    except ValueError:
        prefix, separator, _ = title.partition(":")
        numbers = {name: number for number, name in namespaces.items() if name}
        return numbers.get(prefix, 0) if separator else 0


def _pages(
    stream: io.BufferedReader, max_bytes: int
) -> Iterator[ElementTree.Element | DocumentError]:
    """Yields the head of a dump and its pages, holding one of them in memory.

    A part of a dump may begin with a page, without the head. Damage to a page, or
    between two pages, does not affect the next page. A DocumentError is raised if the
    file is no dump or is cut off, or what is between two pages is too long.
    """
    part, needs_end, after = _Part(is_page=False), None, "in its head"
    offset, line = 0, 1
    for piece in itertools.chain(_pieces(stream), [b""]):
        begins_page = piece.startswith(_PAGE)
        if needs_end is None and (
            begins_page or not piece or part.num_bytes > _CHUNK_BYTES
        ):
            needs_end = not (begins_page and not part.data.strip())
            if needs_end:
                _check_is_dump(part.data)
        if begins_page or not piece:
            has_end = part.data.rstrip().endswith(_DUMP_END) or not needs_end
            if not piece and (part.is_page or not has_end):
                mark = _PAGE_END if part.is_page else _DUMP_END
                raise DocumentError(
                    "damaged_xml",
                    f"Expected {mark.decode()}, found the end of the file in line "
                    f"{line}. What precedes was read.",
                    f"offset {offset} of the text, {after}",
                )
            yield from part.parse(offset, line, after, max_bytes)
            part = _Part(is_page=True)
        part.add(piece, max_bytes)
        offset, line = offset + len(piece), line + piece.count(b"\n")
        if part.is_long and not part.is_page:
            raise streams.too_long(max_bytes, after)
        if part.is_page and piece == _PAGE_END:
            yield from part.parse(offset, line, after, max_bytes)
            part, after = _Part(is_page=False), f"after {part.page_id}"


def _check_is_dump(head: bytes) -> None:
    excerpt = repr(head.strip()[:40].decode("utf-8", "replace"))
    if b"<!DOCTYPE" in head:  # It may declare entities that expand to gigabytes.
        excerpt = "a document type (<!DOCTYPE)"
    elif _HEAD.match(head):
        return
    raise DocumentError(
        "not_mediawiki",
        f"Expected a MediaWiki dump, which begins with {_DUMP.decode()}>, found "
        f"{excerpt}.",
    )


def _pieces(stream: io.BufferedReader) -> Iterator[bytes]:
    """Splits a dump before `<page>` and `<revision>`, and around `</page>`."""
    rest = b""
    # Not `read`, which would lose what precedes damage in a compressed file.
    while chunk := stream.read1(_CHUNK_BYTES):
        *pieces, rest = filter(None, _MARKS.split(rest + chunk))
        yield from pieces
        if len(rest) > 2 * len(_REVISION):  # Its end may be the beginning of a mark.
            yield rest[: 1 - len(_REVISION)]
            rest = rest[1 - len(_REVISION) :]
    if rest:
        yield rest


class _Part:
    """A page, or what is between two pages, as far as it is read."""

    def __init__(self, is_page: bool):
        self.is_page, self.is_long, self.num_bytes = is_page, False, 0
        self._pieces: list[bytes] = []
        self._num_head_pieces: int | None = None

    @property
    def data(self) -> bytes:
        """The XML; earlier revisions of a page are left out."""
        return b"".join(self._pieces)

    @property
    def page_id(self) -> str:
        """The place of a page, as far as its number is known."""
        match = _ID.search(self.data.partition(_REVISION)[0])
        return f"page id={match[1].decode()}" if match else "a page"

    def add(self, piece: bytes, max_bytes: int) -> None:
        """Appends a piece, unless the part becomes longer than `max_bytes`."""
        if self.is_page and piece.startswith(_REVISION):
            if self._num_head_pieces is None:
                self._num_head_pieces = len(self._pieces)
            else:
                del self._pieces[self._num_head_pieces :]
                self.is_long = False
            self.num_bytes = sum(map(len, self._pieces))
        self.num_bytes += len(piece)
        if self.num_bytes <= max_bytes:
            self._pieces.append(piece)
        else:
            self.is_long = True

    def parse(
        self, offset: int, line: int, after: str, max_bytes: int
    ) -> Iterator[ElementTree.Element | DocumentError]:
        """Yields the part, or why it is lost; nothing for white space.

        The offset and line are those of its end; `after` says what precedes it.
        """
        data = self.data
        if self.is_long:
            yield streams.too_long(max_bytes, self.page_id)
        if self.is_long or not data.strip():
            return
        begin = end = b""
        if not self.is_page:
            begin = b"" if _DUMP in data else _DUMP + b">"
            end = b"" if data.rstrip().endswith(_DUMP_END) else _DUMP_END
        try:
            yield ElementTree.fromstring(begin + data + end)
        except ElementTree.ParseError as error:
            lines = (begin + data).split(b"\n")
            number, column = error.position
            # Counted from the end, because earlier revisions are left out.
            rest = b"\n".join(lines[number - 1 :])[column:]
            offset, line = offset - len(rest), line - rest.count(b"\n")
            reason, kind, location = "damaged_xml", "a MediaWiki dump", ""
            if self.is_page:
                reason, kind, location = "damaged_page", "a page", self.page_id
            if location in ("", "a page"):
                place = location or f"offset {offset} of the text"
                location = f"{place}, {after}"
            yield DocumentError(
                reason,
                f"Expected the XML of {kind}, found in line {line}, offset {offset} of "
                f"the text: {str(error).partition(':')[0]}. The next page is read.",
                location,
            )
