"""Which pages are refused before they are parsed, and that sound ones never are."""

import pytest

from data_pipelines import readers
from data_pipelines.readers import wiki_markup
from tests.sample_data import sample_data


@pytest.mark.parametrize(
    "sound",
    [
        # Ends with `|}`, and is no table.
        "A claim.{{cite web|title=x|url=|}} ",
        "{{a|{{b|{{c|}}}}}} ",
        "{{a|{{{b|}}}}} ",
        "{{Infobox\n|a=b\n|}}\n",
        # Tables at the end of templates.
        "\n{{a|\n{|\n|b\n|}}}\n",
        "\n:{|\n|b\n|}\n",
        # `{|` in the middle of a line begins no table.
        "in a set {|x| < y} ",
        "<http://a.org/b> and <someone@a.org> ",
        "[[File:a.png|thumb|see [http://a.org b]]] [http://a.org [[b]]] ",
        "a<br>b<ref name=c/> <div>d</div>\n",
    ],
)
def test_sound_markup_costs_nothing(sound):
    assert wiki_markup.characters_read(sound * 400) == 0


def test_page_with_many_citations_is_read():
    paragraphs = [f"Claim {n}.{{{{cite web|title=x|url=|}}}}" for n in range(400)]
    paragraphs[7] += " word" * 100_000
    found = wiki_markup.to_paragraphs("\n\n".join(paragraphs))
    assert len(found) == 400
    assert found[-1] == "Claim 399."


def test_each_opening_costs_the_rest_of_the_page():
    markup = "abc <div> {{d [[e]] {{f|g}}"
    assert wiki_markup.characters_read(markup) == (
        len(markup) - markup.index("<div>") + len(markup) - markup.index("{{d")
    )


def test_pages_of_the_sample_dump_are_far_below_the_limit():
    (path,) = sample_data("mediawiki_dump").glob("*.bz2")
    costs = [
        wiki_markup.characters_read(item.markup)
        for item in readers.get_reader("mediawiki").read_unparsed(path)
        if isinstance(item, readers.UnparsedDocument)
    ]
    assert len(costs) > 100
    assert max(costs) < wiki_markup.MAX_CHARACTERS_READ / 50
