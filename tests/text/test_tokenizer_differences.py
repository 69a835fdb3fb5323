"""Texts on which the fast tokenizer might be wrong, and the table of characters."""

import itertools
import unicodedata

import numpy as np
import pytest

from seg_tf.text import differing_characters
from seg_tf.text.exact_tokenizer import (
    CASED,
    UNCASED,
    Normalization,
    exact_normalizer,
    exact_tokenizer,
)
from seg_tf.text.fast_tokenizer import FastTokenizer
from seg_tf.text.find_differing_characters import differing_characters as find_differing
from seg_tf.text.tokenizer_differences import (
    LONGEST_SAFE_WORD,
    WORD_BREAKS,
    TokenizerDifferences,
)
from tests.text.twelve_scripts import ALL_NORMALIZATIONS

EVERY_NORMALIZATION = pytest.mark.parametrize(
    "normalization", ALL_NORMALIZATIONS, ids=str
)


def members(ranges):
    return {
        code_point for first, last in ranges for code_point in range(first, last + 1)
    }


def code_points_to_try():
    """All that are assigned, but of the large uniform blocks only a few."""
    large_blocks = [
        (0x3400, 0x4DBF),
        (0x4E00, 0x9FFF),
        (0xAC00, 0xD7A3),
        (0xD800, 0xDFFF),
        (0xE000, 0xF8FF),
        (0x17000, 0x18CFF),
        (0x20000, 0x10FFFF),
    ]
    inside = members(large_blocks)
    for code_point in range(0x110000):
        if unicodedata.category(chr(code_point)) == "Cs":
            continue
        if code_point in inside:
            if code_point % 97 == 0:
                yield code_point
        elif unicodedata.category(chr(code_point)) != "Cn" or code_point % 7 == 0:
            yield code_point


@EVERY_NORMALIZATION
def test_the_table_is_what_trying_characters_finds(normalization):
    tried = [*code_points_to_try(), *range(0x3400 - 9, 0x3409), *range(0x9FC0, 0xA010)]
    expected = members(differing_characters.ranges(normalization)) & set(tried)
    assert set(find_differing(set(tried), normalization)) == expected


@pytest.mark.parametrize(
    ("character", "normalization", "is_in"),
    [
        ("é", UNCASED, False),
        ("я", UNCASED, False),
        ("ß", UNCASED, True),
        ("ß", CASED, False),
        ("\x00", CASED, True),
        ("\t", CASED, False),
        ("\u0080", CASED, True),
        ("\ue000", UNCASED, True),
        ("中", UNCASED, False),
        # A last sigma keeps its form where accents stay.
        ("Σ", Normalization(True, strip_accents=False), True),
        ("Σ", UNCASED, False),
        ("中", Normalization(True, split_ideographs=False), True),
        ("\U0001d165", UNCASED, True),  # only its order among other marks differs
    ],
)
def test_known_characters(character, normalization, is_in):
    table = members(differing_characters.ranges(normalization))
    assert (ord(character) in table) == is_in


def test_marks_that_trade_places_are_in_the_table():
    """Each is treated alike, but a pair of them is not."""
    stem, tone = "\U0001d165", "\U0001d16d"  # canonical classes 216 and 226
    normalize = exact_normalizer(UNCASED).normalize_str
    assert normalize(tone + stem) == stem + tone
    assert {ord(stem), ord(tone)} <= members(differing_characters.ranges(UNCASED))


@EVERY_NORMALIZATION
def test_words_end_at_every_break(normalization):
    """Both tokenizers know the word `a` on either side of it, or drop it for both."""
    tokens = ["[UNK]", "a", "##a"]
    exact = exact_tokenizer(tokens, normalization)
    safe = members(WORD_BREAKS) - members(differing_characters.ranges(normalization))
    texts = [f"a{chr(code_point)}a" for code_point in sorted(safe)]
    ids, lengths = FastTokenizer(tokens, normalization).encode_unicode(texts)
    fast_rows = np.split(ids, np.cumsum(lengths)[:-1])
    for text, fast_row in zip(texts, fast_rows, strict=True):
        assert exact.encode(text).ids in ([1, 1], [1, 0, 1]), ascii(text)
        assert fast_row.tolist() in ([1, 1], [1, 0, 1]), ascii(text)


def may_occur(*texts, normalization=UNCASED):
    return TokenizerDifferences(normalization).may_occur(texts).tolist()


@pytest.mark.parametrize("position", range(5))
def test_only_the_text_with_the_character_is_found(position):
    texts = ["", "über", "", "naïve café", "x"]
    assert may_occur(*texts) == [False] * 5
    texts[position] += "ß"
    assert may_occur(*texts) == [number == position for number in range(5)]
    texts[position] = "ß" + texts[position][:-1]
    assert may_occur(*texts) == [number == position for number in range(5)]


def test_only_the_text_with_a_long_word_is_found():
    limit = "é" * LONGEST_SAFE_WORD
    assert may_occur(limit, limit, "x " + limit + ".", limit) == [False] * 4
    for texts in itertools.permutations([limit, "é", "x " + limit + "y"]):
        assert may_occur(*texts) == ["y" in text for text in texts]


@pytest.mark.parametrize("surrogate", [0xD800, 0xDBFF, 0xDC00, 0xDFFF])
def test_surrogates_are_found(surrogate):
    assert may_occur("é", f"a{chr(surrogate)}") == [False, True]


def test_no_text_is_no_difference():
    assert may_occur() == []
    assert may_occur("", "") == [False, False]
