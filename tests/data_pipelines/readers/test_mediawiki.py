"""MediaWiki dumps: which pages are read, counted with other means, and damage."""

import bz2
import re
import tracemalloc
import xml.etree.ElementTree as ElementTree

import pytest

from data_pipelines import readers
from data_pipelines.readers import wiki_markup
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
        + page("#redirect: [[C|D]]", 4, extra='<redirect title="C" />')
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
    for number, reason in {
        1: "a redirect to B",
        2: "in namespace 1",
        3: "a redirect to C",
        5: "with the content model Scribunto",
    }.items():
        assert items[number].message.endswith(f", {reason}."), items[number].message


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
    for item in unparsed[::8]:
        text = "\n".join(reader.parse(item).paragraphs)
        assert text.startswith(item.title + "\n")
        assert not re.search(
            r"\{\{|\}\}|\[\[|\]\]|''|</?(?:ref|br|div|small|nowiki)\b|^[*#:;|=]"
            r"|\(\s*[,;]|\(\s*\)|&nbsp;|__[A-Z]|\bthumb\||[\x00-\x08]",
            text,
            re.MULTILINE,
        ), item.title


def test_namespaces_are_an_option(tmp_path):
    text = HEAD + page("One.") + page("Talk.", 3, "Talk:A", "<ns>1</ns>") + TAIL
    items = read(tmp_path, text, namespaces="1+5")
    assert helpers.reasons(items) == ["other_namespace", ""]
    assert items[1].paragraphs == ("Talk:A", "Talk.")


def test_a_class_of_users_adds_templates_that_show_text(tmp_path, monkeypatch):
    monkeypatch.setattr(wiki_markup, "TEMPLATES", dict(wiki_markup.TEMPLATES))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "quantities.py").write_text(
        "from data_pipelines.readers import wiki_markup\n"
        "from data_pipelines.readers.mediawiki import MediaWikiReader as Reader\n"
        "wiki_markup.TEMPLATES['convert'] = lambda arguments: ' '.join(arguments[:2])\n"
    )
    text = HEAD + page("A {{Convert| 5 |km|mi}} {{x|y}} {{lang|fr|mot}}.") + TAIL
    (item,) = helpers.read_text(tmp_path, "quantities:Reader", text)
    assert item.paragraphs == ("Title", "A 5 km mot.")


@pytest.mark.parametrize("damage", ["a </b> c", "a & c", "a \x0b c", "\udcff"])
@pytest.mark.parametrize("size", [3, 65_530])
def test_what_precedes_damage_is_read(tmp_path, damage, size):
    pages = [page("A. " + "x" * size, n) for n in range(4)]
    data = HEAD + "".join(pages) + page(damage, 9) + page("Lost.", 10) + TAIL
    data = data.encode("utf-8", "surrogateescape")
    *documents, last = helpers.read_bytes(tmp_path, "mediawiki", data)
    assert helpers.reasons(documents) == [""] * 4
    assert (last.reason, last.ends_file) == ("damaged_xml", True)
    assert last.location == "after page id=3"
    assert "line 10" in last.message


def test_truncated_dumps_give_what_precedes(tmp_path):
    data = (HEAD + "".join(page(f"Text {n}.", n) for n in range(500)) + TAIL).encode()
    cut = data[: data.index(b"Text 400.") + 3]
    for content, reason in (
        (b"<feed><page/></feed>", "not_mediawiki"),
        (cut, "damaged_xml"),
        (data[: -len(TAIL)], "damaged_xml"),
        (bz2.compress(data)[:-30], "truncated_bzip2"),
    ):
        *documents, last = helpers.read_bytes(tmp_path, "mediawiki", content)
        assert (last.reason, last.ends_file) == (reason, True)
        assert [item.paragraphs[1] for item in documents] == [
            f"Text {n}." for n in range(len(documents))
        ]
    assert (
        helpers.reasons(helpers.read_bytes(tmp_path, "mediawiki", data)) == [""] * 500
    )


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
    limit = {"max_document_megabytes": "0.1"}
    text = HEAD + page("One.") + page("x" * 150_000, 2) + page("Three.", 3) + TAIL
    assert helpers.reasons(read(tmp_path, text, **limit)) == [
        "",
        "too_long_document",
        "",
    ]
    text = HEAD + page("One.") + page("x" * 900_000, 2) + TAIL
    *_, last = read(tmp_path, text, **limit)
    assert (last.reason, last.ends_file) == ("too_long_document", True)
