"""MediaWiki dumps: which pages are read, counted with other means, and damage."""

import bz2
import re
import tracemalloc
import xml.etree.ElementTree as ElementTree

import pytest

from data_pipelines import readers
from data_pipelines.readers import mediawiki, wiki_markup
from tests.data_pipelines.readers import helpers
from tests.sample_data import sample_data

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10">
<siteinfo><namespaces>
<namespace key="0" /><namespace key="1">Talk</namespace>
<namespace key="6">File</namespace><namespace key="14">Category</namespace>
</namespaces></siteinfo>
"""
TAIL = "</mediawiki>\n"


def page(text, id=1, title="Title", namespace="<ns>0</ns>", extra="", model="wikitext"):
    return (
        f"<page><title>{title}</title>{namespace}<id>{id}</id>{extra}<revision>"
        f"<id>9{id}</id><contributor><username>U</username><id>77</id></contributor>"
        f"<model>{model}</model>"
        f'<text xml:space="preserve">{text}</text></revision></page>\n'
    )


def read(folder, text, **options):
    return helpers.read_text(folder, "mediawiki", text, **options)


def test_pages_are_documents_or_rejections(tmp_path):
    items = read(
        tmp_path,
        HEAD
        + page("One.", 1)
        + page("#REDIRECT [[B]]", 2, extra='<redirect title="B" />')
        + page("Talk.", 3, title="Talk:A", namespace="<ns>1</ns>")
        + page("#redirect: [[C|D]]", 4)
        + page("{{Stub}}", 5)
        + page("return {}", 6, model="Scribunto")
        + page("Two &amp;amp; three.", 7, title="A &amp; B")
        + TAIL,
    )
    assert helpers.reasons(items) == [
        *("", "redirect", "other_namespace", "redirect", "empty_document"),
        *("not_wikitext", ""),
    ]
    assert [item.location for item in items] == [f"page id={n}" for n in range(1, 8)]
    assert items[0].paragraphs == ("Title", "One.")
    assert items[-1].paragraphs == ("A & B", "Two & three.")
    assert items[-1].title == "A & B"
    assert "redirect to 'B'" in items[1].message
    assert "redirect to 'C'" in items[3].message


def test_options(tmp_path):
    text = HEAD + page("One.") + page("Talk.", 3, "Talk:A", "<ns>1</ns>") + TAIL
    items = read(tmp_path, text, namespaces="1+5", drop_title="true")
    assert helpers.reasons(items) == ["other_namespace", ""]
    assert items[1].paragraphs == ("Talk.",)
    with pytest.raises(ValueError, match=r"`namespaces`.*Received: '0,1'"):
        readers.get_reader("mediawiki", namespaces="0,1")


def test_a_module_adds_templates_that_show_text(tmp_path, monkeypatch):
    monkeypatch.setattr(wiki_markup, "TEMPLATES", dict(wiki_markup.TEMPLATES))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "quantities.py").write_text(
        "from data_pipelines.readers import wiki_markup\n"
        "wiki_markup.TEMPLATES['convert'] = lambda arguments: ' '.join(arguments[:2])\n"
    )
    text = HEAD + page("A {{Convert| 5 |km|mi}} {{x|y}} {{lang|fr|mot}}.") + TAIL
    (item,) = read(tmp_path, text, drop_title="true")
    assert item.paragraphs == ("A mot.",)
    (item,) = read(tmp_path, text, drop_title="true", templates="quantities")
    assert item.paragraphs == ("A 5 km mot.",)
    with pytest.raises(ValueError, match=r"`templates`.*Received: 'no.such'"):
        readers.get_reader("mediawiki", templates="no.such")


def test_names_of_namespaces_are_those_of_the_wiki(tmp_path):
    head = HEAD.replace(">File<", ">Datei<").replace(">Category<", ">Kategorie<")
    text = "A [[datei:X.svg|thumb|b [[c]]]]d.\n[[Kategorie:E]] [[Image:F|g]] [[H]]"
    (item,) = read(tmp_path, head + page(text) + TAIL)
    assert item.paragraphs == ("Title", "A d. H")


def test_last_revision_is_taken(tmp_path):
    text = page("New.").replace(
        "<revision>", "<revision><id>3</id><text>Old.</text></revision><revision>"
    )
    (item,) = read(tmp_path, HEAD + text + TAIL)
    assert item.paragraphs == ("Title", "New.")
    assert item.location == "page id=1"


def test_truncated_dump_gives_what_precedes(tmp_path):
    data = (HEAD + "".join(page(f"Text {n}.", n) for n in range(500))).encode()
    cut = data[: data.index(b"Text 400.") + 3]
    *documents, last = helpers.read_bytes(tmp_path, "mediawiki", cut)
    assert [item.paragraphs[1] for item in documents] == [
        f"Text {n}." for n in range(400)
    ]
    assert last.reason == "damaged_xml"
    assert last.location == f"offset {len(cut)} of the text, after page id=399"
    packed = bz2.compress(data)[:-30]
    *documents, last = helpers.read_bytes(tmp_path, "mediawiki", packed)
    assert last.reason == "truncated_bzip2"


def test_damage_inside_is_named(tmp_path):
    data = HEAD + page("One.") + "</b>" + page("Two.", 2) + TAIL
    items = read(tmp_path, data)
    assert helpers.reasons(items) == ["", "damaged_xml", ""]
    line = data[: data.index("</b>")].count("\n") + 1
    assert f"in line {line}, offset " in items[1].message
    assert "mismatched tag" in items[1].message
    assert "after page id=1" in items[1].location


@pytest.mark.parametrize("damage", ["a </b> c", "a & c", "a \x0b c", "\udcff"])
@pytest.mark.parametrize("size", [3, 40_000, 65_536, 65_530])
def test_damaged_page_is_left_out_and_the_next_read(tmp_path, damage, size):
    pages = [
        page(damage if n in (3, 4, 9) else "A. " + "x" * size, n) for n in range(12)
    ]
    data = HEAD + "".join(pages) + TAIL
    items = helpers.read_bytes(
        tmp_path, "mediawiki", data.encode("utf-8", "surrogateescape")
    )
    expected = ["damaged_page" if n in (3, 4, 9) else "" for n in range(12)]
    assert helpers.reasons(items) == expected
    assert [item.location for item in items] == [f"page id={n}" for n in range(12)]
    for item, n in zip(items, range(12), strict=True):
        if n in (3, 4, 9):
            before = data[: data.index(f"<id>9{n}</id>")]
            assert f"in line {before.count(chr(10)) + 1}," in item.message


@pytest.mark.parametrize("size", [1, 2, 7, 50, 333])
def test_damage_is_the_same_wherever_chunks_end(tmp_path, monkeypatch, size):
    texts = ["One.", "a & b\n\n", "Three.\n", "</x>", "<y>", "Six.", "&", "Eight."]
    data = HEAD + "\n".join(page(text, n) for n, text in enumerate(texts)) + TAIL
    expected = read(tmp_path, data)
    assert helpers.reasons(expected).count("damaged_page") == 4
    monkeypatch.setattr(mediawiki, "_CHUNK_BYTES", size)
    assert read(tmp_path, data) == expected


def test_part_of_a_dump_may_begin_with_a_page(tmp_path):
    pages = page("One.", 1) + page("[[Category:A]]Two &amp; a.", 2)
    for data in (pages, pages + TAIL, "\n " + pages):
        items = read(tmp_path, data)
        assert [one[1] for one in helpers.paragraphs(items)] == ["One.", "Two & a."]
    *before, last = read(tmp_path, pages[:-20])
    assert helpers.reasons(before) == [""]
    assert last.reason == "damaged_xml"


@pytest.mark.parametrize(
    "text", ["<feed><page/></feed>", "<!DOCTYPE mediawiki><mediawiki></mediawiki>"]
)
def test_other_xml_is_refused(tmp_path, text):
    assert helpers.reasons(read(tmp_path, text)) == ["not_mediawiki"]


def test_multistream_is_read_whole(tmp_path):
    streams = [HEAD, page("One.", 1) + page("Two.", 2), page("Three.", 3), TAIL]
    data = b"".join(bz2.compress(stream.encode()) for stream in streams)
    items = helpers.read_bytes(tmp_path, "mediawiki", data)
    texts = [paragraphs[1] for paragraphs in helpers.paragraphs(items)]
    assert texts == ["One.", "Two.", "Three."]


def test_memory_is_bounded_by_the_page(tmp_path):
    path = tmp_path / "dump.xml"
    one = page("A sentence of a page. " * 100)
    num_pages = 10_000_000 // len(one)
    path.write_text(HEAD + one * num_pages + TAIL)
    tracemalloc.start()
    try:
        reader = readers.get_reader("mediawiki")
        count = sum(1 for _ in reader.read_unparsed(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == num_pages
    assert peak < 4_000_000


def test_sample_dump_has_the_articles_of_element_tree():
    (path,) = sample_data("mediawiki_dump").glob("*.bz2")
    reader = readers.get_reader("mediawiki")
    items = list(reader.read_unparsed(path))
    text = bz2.decompress(path.read_bytes()).decode()
    pages = re.findall(r"<page>.*?</page>", text, re.DOTALL)
    articles = [page for page in pages if "<ns>0</ns>" in page]
    redirects = [page for page in articles if "<redirect " in page]
    reasons = helpers.reasons(items)
    assert len(items) == len(pages) == 206
    assert reasons.count("redirect") == len(redirects) == 99
    assert reasons.count("other_namespace") == len(pages) - len(articles) == 1
    ns = "{http://www.mediawiki.org/xml/export-0.10/}"
    unparsed = [item for item in items if isinstance(item, readers.UnparsedDocument)]
    assert [(item.title, item.markup) for item in unparsed] == [
        (page.findtext(f"{ns}title"), page.findtext(f"{ns}revision/{ns}text"))
        for page in ElementTree.fromstring(text).iter(f"{ns}page")
        if page.findtext(f"{ns}ns") == "0" and page.find(f"{ns}redirect") is None
    ]
    costs = [wiki_markup.characters_read(item.markup) for item in unparsed]
    assert max(costs) < wiki_markup.MAX_CHARACTERS_READ / 50
    for item in unparsed[::8]:
        text = "\n".join(reader.parse(item).paragraphs)
        assert text.startswith(item.title + "\n")
        assert not re.search(
            r"\{\{|\}\}|\[\[|\]\]|''|</?(?:ref|br|div|small|nowiki)\b|^[*#:;|=]"
            r"|\(\s*[,;]|\(\s*\)|&nbsp;|__[A-Z]|\bthumb\||[\x00-\x08]",
            text,
            re.MULTILINE,
        ), item.title
        # Prose is complete: plain sentences outside of notes and comments.
        notes = r"<ref[^>/]*>.*?</ref>|<!--.*?-->"
        prose = re.sub(notes, "", item.markup, flags=re.DOTALL)
        plain = re.findall(r"(?<=[.] )[A-Z][A-Za-z, ]{60,}\.(?= [A-Z])", prose)
        num_read = sum(sentence in text for sentence in plain)
        assert num_read >= 0.9 * len(plain) - 1, item.title
