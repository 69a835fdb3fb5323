"""The sentence splitter gives NLTK's answers, whatever the text and the tables."""

import collections
import dataclasses
import functools
import json
import re
import sys
import unicodedata

import hypothesis
import pytest
import regex
from hypothesis import strategies
from nltk.tokenize import punkt as nltk_punkt

from seg_tf.text import punkt
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.punkt_parameters import Orthography, PunktParameters
from tests.sample_data import sample_data


def nltk_splitter(parameters):
    """NLTK's splitter with the same tables."""
    theirs = nltk_punkt.PunktParameters()
    theirs.abbrev_types = set(parameters.abbreviation_types)
    theirs.collocations = set(parameters.collocations)
    theirs.sent_starters = set(parameters.sentence_starters)
    theirs.ortho_context = collections.defaultdict(int, parameters.orthographic_context)
    return nltk_punkt.PunktSentenceTokenizer(theirs)


pytestmark = pytest.mark.slow

# A table in which every heuristic has something to say, for words that are short.
SMALL = PunktParameters(
    name="small",
    abbreviation_types=frozenset({"mr", "e.g", "u.s", "dept", "s", "12", ". . "}),
    collocations=frozenset(
        {
            ("j", "bach"),
            ("##number##", "km"),
            ("dept", "he"),
            ("dog", "the"),
            (".", "the"),
            ("?", "the"),
            ("mr", '"'),
            ("owl", '"'),
        }
    ),
    sentence_starters=frozenset({"she", "the", "bach"}),
    orthographic_context={
        "the": Orthography.UPPER_FIRST | Orthography.LOWER_INSIDE,
        "he": Orthography.UPPER_FIRST | Orthography.LOWER_UNSURE,
        "she": Orthography.UPPER_INSIDE | Orthography.LOWER_INSIDE,
        "house": Orthography.UPPER_INSIDE | Orthography.LOWER_INSIDE,
        "bach": Orthography.UPPER_FIRST | Orthography.UPPER_INSIDE,
        "iphone": Orthography.LOWER_FIRST,
        "km": Orthography.LOWER_FIRST | Orthography.UPPER_UNSURE,
        "i": Orthography.UPPER_FIRST,
    },
)


@functools.cache
def both(name):
    """Our splitter and NLTK's with the same tables."""
    if name == "punkt_tab":
        parameters = PunktParameters.from_punkt_tab(sample_data("punkt", "english_tab"))
    else:
        parameters = {
            "english": PunktParameters.english,
            "small": lambda: SMALL,
            "empty": PunktParameters,
        }[name]()
    return SentenceSplitter(parameters), nltk_splitter(parameters)


tables = pytest.mark.parametrize("table", ["empty", "small", "english", "punkt_tab"])


def assert_same_as_nltk(table, text):
    ours, theirs = both(table)
    expected = [sentence.strip() for sentence in theirs.tokenize(text)]
    assert ours.split(text) == expected, repr(text)


# A bar ends a sentence before a space, a broken bar without one.
DECISIONS = """
A dog.|A cat.
Why?|So!|Yes.
a cat.|it slept
Was 3.5 m.
See Mr. Brown go.
A non-U.S. dog.
In the U.S.|He ran.
In the U.S.|She ran.
In the U.S. House.
In the U.S. she ran.
Dept. He ran.
A dog. The cat.
Why?|The cat.
An owl." He
Well... no.
Well...|He ran.
By J. Brown.
By J.|House.
By J.|He ran.
By J. he ran.
By J. Bach.
The S. He.
By J.|iphone.
By J. km.
At 5.|Brown.
At 5. he ran.
At 5.|iphone.
At 1,5. km.
At 12. Brown.
At 5. , he
"A cat."|It ran.
(A cat.)|It ran.
“A cat?”|It ran.
A cat. )|It ran.
A cat.|"It" ran.
"A cat."¦--It
"A cat.¦"x It
(A cat.)
So?)Mr.|Who
No!!!|I ran.
No!!¦!
Mr.|Who?)|ran
a .|.|.¦".|I
""".strip().split("\n")


@pytest.mark.parametrize("sentences", DECISIONS)
def test_decisions(sentences):
    text = sentences.replace("|", " ").replace("¦", "")
    expected = re.split("[|¦]", sentences)
    assert SentenceSplitter(SMALL).split(text) == expected
    assert_same_as_nltk("small", text)


UNUSUAL = [
    "",
    " \t ",
    "...?!",
    "  A cat. A dog.  ",
    ' .". With',
    "Mr.\nBrown. He\tran.\r\nShe ran.\vNo.\fYes.",
    "Mr.\u00a0Brown. He ran.\u3000She ran. No.",
    "Mr. \u2009 Brown. \u2009 He ran.",
    "No.\u00a0.\u00a0. He ran. . . . No",
    "A dog.\n\x1c\nHe ran.",
    "A dog. \x1f He ran. \x1d",
    "\u0301. He ran. _. He ran. \u24d0. Bach.",
    "\u0130. \u01c5. \u01c5a. He ran.",
    "At -.5,0-1. he; at \u0665. he; at 1e5. he.",
    "A, dog,. He,) ran,; no,-- yes.",
    "A co-op. A wi-fi--U.S. He. a-U.S. the",
]


@tables
@pytest.mark.parametrize("text", UNUSUAL)
def test_unusual_text_equals_nltk(table, text):
    assert_same_as_nltk(table, text)


# Pieces from which random text is made that Punkt has something to say about.
_WORDS_AND_MARKS = (
    "Mr dog The the J A U.S e.g s He he It I Bach house House km iPhone 12 12,5 1 dept "
    "She co Inc a.m No \u00e9 \u0130 \u01c5 \u24d0 \u0301 _ \u00b2 . . . . ? ! "
    "... .. -- - , ; : # \" ' ) ( [ { } \u201c \u201d \u2019 \u00bb \u00ab * "
    "@ ##number## \u200d \u0665"
)

_SPACES = "      \n\t\r\v\u00a0\u3000\x1c\u0085\u2028"
_PIECES = (*_WORDS_AND_MARKS.split(), ". . .", *_SPACES)

_texts = strategies.lists(
    strategies.one_of(
        strategies.sampled_from(_PIECES),
        strategies.sampled_from([piece + ". " for piece in _PIECES[:30]]),
        # Letters that a newer Unicode added are letters to NLTK only.
        strategies.characters(exclude_categories=("Cs", "Cn")),
    ),
    max_size=40,
).map("".join)


@tables
@hypothesis.given(text=_texts)
@hypothesis.settings(max_examples=300, deadline=None)
def test_random_text_equals_nltk(table, text):
    assert_same_as_nltk(table, text)


@tables
@pytest.mark.parametrize(
    ("parts", "num_bytes"),
    [
        pytest.param(("enwiki_wikiextractor_2015", "text", "AA", "wiki_07"), 400_000),
        pytest.param(("classic_books_md", "Thomas Hardy"), 200_000, id="book"),
        pytest.param(("wikitext-2",), 100_000, id="wikitext"),
        pytest.param(("gutenberg",), 100_000, id="gutenberg"),
    ],
)
def test_real_text_equals_nltk(table, parts, num_bytes):
    path = sample_data(*parts)
    if path.is_dir():
        path = min(p for p in path.rglob("*") if p.suffix in (".md", ".txt", ".tokens"))
    text = path.read_bytes()[:num_bytes].decode("utf-8", errors="replace")
    for paragraph in filter(str.strip, text.split("\n")):
        assert_same_as_nltk(table, paragraph)


def _parts(text, terminators):
    """What is cut after a terminator and the marks after it, character by character."""
    parts, part, ended = [], "", False
    for character in text:
        closes = character in terminators or character in "!?.)'\"”’]}»」』）】》〉］｣"
        if ended and not closes:
            parts, part, ended = [*parts, part], "", False
        part += character
        ended = ended or character in terminators
    return [*parts, part]


@hypothesis.given(
    strategies.lists(
        strategies.sampled_from(
            [*"。！？।؟」”)\"'.!? \u3000“", "他来了", "हाँ", "Mr. ", "No. ", "a"]
        )
    ).map("".join)
)
def test_text_is_cut_after_terminators(text):
    table = dataclasses.replace(SMALL, terminators="。！？।؟")
    without = SentenceSplitter(SMALL)
    assert SentenceSplitter(table).split(text) == [
        sentence
        for part in _parts(text, "。！？।؟")
        for sentence in without.split(part)
    ]


ALL_CHARACTERS = "".join(map(chr, range(sys.maxunicode + 1)))


def test_white_space_is_that_of_nltks_regular_expressions():
    spaces = regex.findall(r"\s", ALL_CHARACTERS)
    assert sorted(punkt.WHITE_SPACE) == spaces


def test_letters_are_those_of_nltks_regular_expressions():
    # Characters that only one of the two Unicode versions knows may differ.
    known = [c for c in ALL_CHARACTERS if unicodedata.category(c) != "Cn"]
    letters = [c for c in known if punkt.is_letter(c)]
    assert letters == regex.findall(r"[^\W\d]", "".join(known))


@pytest.mark.parametrize(
    "paragraph, sentences",
    [
        ("Well . . . he said.", ["Well . . .", "he said."]),
        ("… ! Yes. No . ", ["… ! Yes.", "No ."]),
        ("1. Go. 2. Stay. ?", ["1.", "Go.", "2.", "Stay. ?"]),
        ("他来了。 。", ["他来了。 。"]),
        ("。 !", ["。 !"]),
    ],
)
def test_sentences_of_marks_only_are_joined(paragraph, sentences):
    universal = PunktParameters.universal()
    assert SentenceSplitter(universal).split(paragraph) == sentences
    plain = SentenceSplitter(dataclasses.replace(universal, joins_pieces=False))
    assert len(plain.split(paragraph)) > len(sentences)
    read = PunktParameters.from_json(json.loads(universal.to_bytes()), "")
    assert read.joins_pieces
    assert read.checksum == universal.checksum != plain.parameters.checksum
