"""Wikitext to paragraphs: what survives, what goes, and what is tidied up after it."""

import hypothesis
import pytest
from hypothesis import strategies

from data_pipelines.readers import wiki_markup
from data_pipelines.readers.streams import DocumentError


@pytest.mark.parametrize(
    "markup, expected",
    [
        ("a\nb\n\nc", ["a b", "c"]),
        ("[[A]] [[B|c]] [[D#E|f]] [[:Category:G]] [[H]]s", ["A c f Category:G Hs"]),
        ("a [http://x.org b c] [http://y.org] d", ["a b c d"]),
        ("'''B''' and ''i'' and '''''bi'''''", ["B and i and bi"]),
        # One of these bold marks is an apostrophe and italics.
        ("l'''amour'' est", ["l'amour est"]),
        ("'''a''' b'''s c", ["a bs c"]),
        ("* a\n** b\n# c\n: d\n; e : f", ["a", "b", "c", "d", "e", "f"]),
        ("a &amp; b &nbsp;&#8211; c &lt;ref&gt; d", ["a & b – c <ref> d"]),
        ("<nowiki>[[a]] ''b''</nowiki> c", ["[[a]] ''b'' c"]),
        ("a<ref name=x>b {{c}}</ref>. d<ref name=y/>.", ["a. d."]),
        ("{|\n! a !! b\n|-\n| c || d\n|}\ne", ["e"]),
        ("a\n{{Infobox\n| b = {{c|d}}\n}}\ne", ["a", "e"]),
        ("[[File:A.jpg|thumb|b [[c]] d]]e [[Bild:F.png|g]]", ["e"]),
        ("a [[de:B]] [[simple:C]]\n[[Category:D]]", ["a"]),
        ("<gallery>\nA.jpg|b\n</gallery>\nc", ["c"]),
        ("a <math>b</math> <code>c</code> d", ["a d"]),
        ("a<br />b <small>c</small> <div>d</div> m<sup>2</sup>", ["a b c", "d", "m2"]),
        ("a <!-- b\n\n c --> d\n<!-- e -->\nf", ["a d f"]),
        ("{{{1|a}}} b {{{2}}}", ["a b"]),
        (
            "A ({{IPAc-en|x}}) b (c, {{x}}) d ({{x}}; e) f() g ( ).",
            ["A b (c) d (e) f() g ( )."],
        ),
        ("a {{x}}, b {{y}}. c, {{z}}, d", ["a, b. c, d"]),
        ("a {{convert|5|km|mi}} {{lang|fr|mot}}.", ["a mot."]),
        ("a {{quote|b\n\nc|d}} e", ["a", "b", "c", "e"]),
        ("a {{quote|quote=b}} {{Quote|text=c}} {{cquote}}", ["a", "b", "c"]),
        ("{{lang|2=mot|1=fr}} {{lang|fr|x|2=mot}} {{lang|2=mot}}", ["mot mot mot"]),
        # Words do not run together where something was left out.
        ("computers{{mdashb}}and word{{unknown}}word", ["computers — and word word"]),
        ("a<ref>b</ref>c d__NOTOC__e h<ref/>{{x}}i", ["a c de h i"]),
        (
            "One.<p>Two.<li>item<li>other<div>x",
            ["One.", "Two.", "item", "other", "x"],
        ),
        ("P(A\n|B) is the\nmore", ["P(A |B) is the more"]),
        # Prefixes of two or three letters, as languages have.
        ("[[doi:10.1/2|the paper]] [[rfc:1|RFC]] [[fr:A]].", ["the paper RFC."]),
        ("<nowiki>a &amp; &#39;&#39;b</nowiki>", ["a & ''b"]),
        ("see [{{fullurl:x}} the page] now", ["see the page now"]),
        ("a\n* \n* {{x}}\n* b", ["a", "b"]),
    ],
)
def test_markup_becomes_text(markup, expected):
    assert wiki_markup.to_paragraphs(markup) == expected


@pytest.mark.parametrize(
    "template, expected",
    [
        ("lang-fr|mot", "mot"),
        ("lang|fr", None),
        ("not_a typo| teh ", "teh"),
        ("convert|5|km", None),
        ("As of|2019|5|lc=y", "as of May 2019"),
        ("as of|2019|5|3", "As of 3 May 2019"),
        ("as of", None),
        ("circa|1900", "c. 1900"),
        ("US$|5", "US$5"),
        ("transl|ru|slovo", "slovo"),
        ("Transl|ar|DIN|kitāb", "kitāb"),
        ("nihongo|'''Home'''|家|Ie|extra=x", "Home (家, Ie)"),
        ("formatnum:-10.5", "-10.5"),
        ("formatnum:{{#expr:2*3}}", None),
        ("uc:''a''b", "AB"),
        ("ucfirst:ghi", "Ghi"),
        ("#if:x|y", None),
    ],
)
def test_templates_of_a_sentence(template, expected):
    found = wiki_markup.to_paragraphs(f"It is {{{{{template}}}}} here.")
    assert found == [f"It is {expected} here." if expected else "It is here."]


def test_headings_with_nothing_under_them_go():
    markup = (
        "Lead.\n== A ==\n=== B ===\ntext\n=== C ===\n{{x}}\n== D ==\n=== E ===\n"
        "==== F {{anchor}} ====\n<!-- -->\n== ''G'' ==\n* item\n== H ==\n{{reflist}}\n"
    )
    assert wiki_markup.to_paragraphs(markup) == ["Lead.", "A", "B", "text", "G", "item"]


@pytest.mark.parametrize(
    "markup",
    [
        *("{{a\n| b = c\n\nd", "d [[a|b", "d <ref>", "d <div", "{|\n| a\n\nd", "'''d"),
        *("}} d ]]", "</div> d |}", "d {{{{{", "== d", "d <!--", "&#x110000; d"),
    ],
)
def test_broken_markup_loses_no_paragraph_beside_it(markup):
    paragraphs = wiki_markup.to_paragraphs(markup + "\n\nThe rest is there.\n")
    if "<!--" in markup:
        assert paragraphs == ["d"]
        return
    assert paragraphs[-1] == "The rest is there."
    assert "d" in " ".join(paragraphs)


FRAGMENTS = (
    *("{{", "}}", "[[", "]]", "{|", "|}", "|-", "||", "!", "==", "'", "''", "'''", "*"),
    *("#", ":", ";", "<ref>", "</ref>", "<b>", "</b>", "<br>", "<nowiki>", "</nowiki>"),
    *("<!--", "-->", "File:", "Category:", "a", "b", "&lt;", "&#0;", "&#xD800;", "("),
    *(")", "\x01", "\x03", "\x06", "http://a", "[", "\n", "\n\n", " "),
)


@hypothesis.given(
    strategies.lists(
        strategies.sampled_from(FRAGMENTS),
        max_size=25,
    ).map("".join)
)
@hypothesis.settings(max_examples=300, deadline=None)
def test_any_markup_gives_lines_of_text(markup):
    for paragraph in wiki_markup.to_paragraphs(markup):
        assert paragraph == " ".join(paragraph.split())
        assert any(map(str.isalnum, paragraph))
        assert not set("\x01\x02\x03\x04\x05\x06").intersection(paragraph)
        paragraph.encode()


@pytest.mark.parametrize(
    "opening", ["<div>", "<ref>a\n", "[http://a ", "{{a|b=c ", "{|\n"]
)
def test_what_would_take_minutes_is_refused_at_once(opening):
    with pytest.raises(DocumentError, match="never closed") as error:
        wiki_markup.to_paragraphs(opening * 20_000)
    assert error.value.reason == "unclosed_markup"


@pytest.mark.parametrize(
    "sound",
    [
        # Ends with `|}`, and is no table.
        "A claim.{{cite web|title=x|url=|}} ",
        "{{a|{{{b|}}}}} ",
        "\n{{a|\n{|\n|b\n|}}}\n",
        "in a set {|x| < y} ",
        "<http://a.org/b> and <someone@a.org> ",
        "[[File:a.png|thumb|see [http://a.org b]]] [http://a.org [[b]]] ",
        "a<br>b<ref name=c/> <div>d</div>\n",
    ],
)
def test_sound_markup_is_read_in_any_length(sound):
    assert wiki_markup.to_paragraphs(sound * 2000) or "{{" in sound
