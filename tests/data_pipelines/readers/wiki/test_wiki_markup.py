"""Wikitext to paragraphs: what survives, what goes, and what is tidied up after it."""

import hypothesis
import pytest
from hypothesis import strategies

from data_pipelines.readers.errors import DocumentError
from data_pipelines.readers.wiki import wiki_markup


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
        ("a\n----\nb", ["a", "b"]),
        ("a &amp; b &nbsp;&#8211; c &lt;ref&gt; d", ["a & b – c <ref> d"]),
        ("a&#39;&#39;b&#39;&#39;", ["a''b''"]),
        ("<nowiki>[[a]] ''b''</nowiki> c", ["[[a]] ''b'' c"]),
        ("a<ref name=x>b {{c}}</ref>. d<ref name=y/>.", ["a. d."]),
        ("a\n<ref>b</ref>\nc", ["a c"]),
        ("{|\n! a !! b\n|-\n| c || d\n|}\ne", ["e"]),
        ("a\n{{Infobox\n| b = {{c|d}}\n}}\ne", ["a", "e"]),
        ("[[File:A.jpg|thumb|b [[c]] d]]e [[Bild:F.png|g]]", ["e"]),
        ("a [[de:B]] [[simple:C]]\n[[Category:D]]", ["a"]),
        ("[[wikt:a|b]] c", ["b c"]),
        ("<gallery>\nA.jpg|b\n</gallery>\nc", ["c"]),
        ("a <math>b</math> <code>c</code> d", ["a d"]),
        ("__TOC__\na __NOINDEX__ b", ["a b"]),
        ("a<br />b <small>c</small> <div>d</div> m<sup>2</sup>", ["a b c", "d", "m2"]),
        ("a <!-- b\n\n c --> d\n<!-- e -->\nf", ["a d f"]),
        ("a <!-- never closed\n\nb", ["a"]),
        ("{{{1|a}}} b {{{2}}}", ["a b"]),
        (
            "A ({{IPAc-en|x}}) b (c, {{x}}) d ({{x}}; e) f() g ( ).",
            ["A b (c) d (e) f() g ( )."],
        ),
        ("a {{x}}, b {{y}}. c, {{z}}, d", ["a, b. c, d"]),
        (
            "{{convert|5|km|mi}} {{convert|5|to|7|sqmi}} {{lang|fr|mot}}.",
            ["5 km 5 to 7 sq mi mot."],
        ),
        (
            "{{As of|2012|5}}, {{as of|2011|lc=y}} {{frac|3|1|2}} {{c.|900}}",
            ["As of May 2012, as of 2011 3 1/2 c. 900"],
        ),
        ("a {{quote|b\n\nc|d}} e", ["a", "b", "c", "e"]),
        ("{{quote|1=A = b, so it goes.}}", ["A = b, so it goes."]),
        ("{{lang|2=mot|1=fr}} {{lang|fr|x|2=mot}} {{lang|2=mot}}", ["mot mot mot"]),
        # Words do not run together where something was left out.
        ("computers{{mdashb}}and word{{unknown}}word", ["computers — and word word"]),
        ("a<ref>b</ref>c d__NOTOC__e f</small>g h<ref/>{{x}}i", ["ac de fg h i"]),
        (
            "One.<p>Two.<li>item<li>other<div>x",
            ["One.", "Two.", "item", "other", "x"],
        ),
        ("x<blockquote>y", ["x", "y"]),
        ("a<td>b<br>c", ["a", "b c"]),
        # Lines that begin with a bar are prose, but for those of an open table.
        ("P(A\n|B) is the\nmore", ["P(A |B) is the more"]),
        ("a\n{|\n| b\n! c !! d\ne\n\n|f| is g", ["a e", "|f| is g"]),
        ("{{a\n| b = c\n== D ==\n|e| is f", ["D", "|e| is f"]),
        ("a\n{{b\n* c\n| d = e\nf", ["a", "c", "f"]),
        # Prefixes of two or three letters that are no languages.
        (
            "[[doi:10.1/2|the paper]] [[rfc:1|RFC]] [[hdl:2]] [[fr:A|b]].",
            ["the paper RFC."],
        ),
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
        ("convert|6|ft|4|in|cm|0", "6 ft 4 in"),
        ("convert|5|lb|3|oz|kg", "5 lb 3 oz"),
        ("convert|6|ft|2|m", "6 ft"),
        ("convert|60|and(-)|80|kg", "60 and 80 kg"),
        ("convert|60|or(-)|80|kg", "60 or 80 kg"),
        ("convert|60|to(-)|80|kg", "60–80 kg"),
        ("convert|5+1/2|in|cm", "5 1/2 in"),
        ("convert|-5.5|°C", "-5.5 °C"),
        ("convert|1,000|km2", "1,000 km²"),
        # Not understood: a hole beats a false number.
        ("convert|2.3|Moilbbl/d", "2.3 million barrels per day"),
        ("convert|5|PD/sqmi", None),
        ("convert|5|C-change", None),
        ("convert|3|e6acre", "3 million acre"),
        ("convert|3|e6x", None),
        ("convert|3|e5acre", None),
        ("convert|3|about|4|km", None),
        ("convert|3|to|x|km", None),
        ("convert|3|ft|x|in", None),
        ("convert|many|km", None),
        ("val|1.2|e=5|u=kg", "1.2×10^5 kg"),
        ("val|1.2|0.3|e=5", "(1.2 ± 0.3)×10^5"),
        ("val|1.00794|(7)", "1.00794(7)"),
        ("val|1|2|3", None),
        ("circa|100|200", "c. 100 – c. 200"),
        ("circa|100", "c. 100"),
        ("langx|fr|mot", "mot"),
        ("nihongo|'''Aikido'''|合気道|Aikidō|lead=yes", "Aikido (合気道, Aikidō)"),
        ("nihongo|Aikido||", "Aikido"),
        ("angbr|aa", "⟨aa⟩"),
        ("IPA|/ɑː/", "/ɑː/"),
        ("flag|Georgia (U.S. state)|name=Georgia", "Georgia (U.S. state)"),
        ("vr|ai", "ai"),
        ("Music|flat", "♭"),
        ("nobold|a", "a"),
        ("sic|teh", "teh"),
        ("formatnum:1234567.25", "1,234,567.25"),
        ("formatnum:{{inflation|us|800}}", None),
        ("chem|CH|3|COOH", "CH3COOH"),
        ("chem2|H2O", "H2O"),
        ("HMS|Ajax|22|6", "HMS Ajax"),
        ("gaps|1|000", "1000"),
        ("US$|2 billion", "US$2 billion"),
        ("US$|", None),
        ("bibleref|Matthew|12:25|KJV", "Matthew 12:25"),
        ("bibleref|Matthew||KJV", "Matthew"),
        ("nq|افغانستان", "افغانستان"),
        ("no such template|a", None),
    ],
)
def test_templates_of_a_sentence(template, expected):
    found = wiki_markup.to_paragraphs(f"It is {{{{{template}}}}} here.")
    assert found == [f"It is {expected} here." if expected else "It is here."]


def test_templates_that_follow_what_they_belong_to():
    markup = "5.98{{e|24}} kg; the ''Ajax''{{'s}} crew, ''b''{{'}}s"
    assert wiki_markup.to_paragraphs(markup) == ["5.98×10^24 kg; the Ajax's crew, b's"]
    markup = """He said "any 'just knowing{{' "}} or {{" '}}that' too"."""
    expected = """He said "any 'just knowing'" or "'that' too"."""
    assert wiki_markup.to_paragraphs(markup) == [expected]


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


@pytest.mark.parametrize(
    "opening",
    [
        *("<div>", "<b a=", '<div a="', "<ref>a\n", "<math>", "[http://a ", "{{a|b=c "),
        *("{{{a|", "[[a|{{b|", "{|\n", "{| a=\n|-\n", "<b>[[{{"),
    ],
)
def test_what_would_take_minutes_is_refused_at_once(opening):
    with pytest.raises(DocumentError, match="never closed") as error:
        wiki_markup.to_paragraphs(opening * 20_000)
    assert error.value.reason == "unclosed_markup"


@pytest.mark.parametrize(
    "markup", ["{{" * 20_000, "{{a|" * 200 + "x" + "}}" * 200, "<b>" * 50 + "</b>" * 50]
)
def test_deep_nesting_is_no_error_of_python(markup):
    try:
        last = wiki_markup.to_paragraphs(f"{markup}\n\nThe rest.")[-1]
    except DocumentError as error:
        last = error.reason
    assert last in ("The rest.", "unclosed_markup", "unparsable_markup")


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
