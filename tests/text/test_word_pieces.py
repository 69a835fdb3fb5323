"""Word-piece ids equal those of Hugging Face's tokenizers, whatever the text."""

import functools
import gzip
import itertools
import json
import unicodedata

import hypothesis
import numpy as np
import pytest
import tokenizers
from hypothesis import strategies

from seg_tf.text.normalization import CASED, UNCASED, exact_tokenizer
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from seg_tf.text.word_pieces import (
    WORD_BREAKS,
    FastTokenizer,
    PieceOffsets,
    WordPieces,
    differing_characters,
)
from tests.sample_data import released_vocabulary, sample_data
from tests.text import twelve_scripts
from tests.text.twelve_scripts import ALL_NORMALIZATIONS, PAIRED_NORMALIZATIONS
from tools.find_differing_characters import find_differing_characters as find_differing

pytestmark = pytest.mark.slow

BOTH_CASES = pytest.mark.parametrize(
    "normalization", [UNCASED, CASED], ids=["lower case", "cased"]
)

# Characters that make every kind of trouble, for texts and for the vocabulary.
TROUBLE = (
    "aAbB1 \t\n\r.,[]#'-_\x00\x01\x0b\x0c\x11\x1c\x7f\x80\x85\xa0\xad"
    "éÉe\u0301ßẞςΣσİıſ…½²™\ufb01\u1e9e\u00b4\u0345\u1fb3\u01c5"
    "\u200b\u200c\u200d\u2028\u2029\u202e\ufeff\ufffd\ufffc\uffff\ue000\u0378"
    "中\u3007\uf900\U00020000\U0002ebf0\U0002f800かガ\u3099한한\u302e\u1b44गुक़ไทย"
    "\U0001d165\U0001d16d\U0001d15e😀\U0001f468\u200d\U0001f469\ufe0f\U0010ffff"
)


def oracle(vocabulary, normalization):
    """Put together here, from its parts, without special tokens."""
    oracle = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            {token: index for index, token in enumerate(vocabulary.tokens)},
            unk_token="[UNK]",
            max_input_chars_per_word=100,
        )
    )
    oracle.normalizer = tokenizers.normalizers.BertNormalizer(
        lowercase=normalization.lower_case,
        strip_accents=normalization.strip_accents,
        handle_chinese_chars=normalization.split_ideographs,
    )
    oracle.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return oracle


def oracle_rows(oracle, texts):
    return [row.ids for row in oracle.encode_batch(texts, add_special_tokens=False)]


def rows(encoded):
    ids, lengths = encoded
    assert ids.dtype == np.int32
    assert lengths.dtype == np.int64
    assert lengths.sum() == len(ids)
    ends = np.cumsum(lengths)
    return [row.tolist() for row in np.split(ids, ends)[:-1]]


def differing(pieces, oracle, texts):
    pairs = zip(rows(pieces.encode(texts)), oracle_rows(oracle, texts), strict=True)
    return [
        (ascii(text), ours, theirs)
        for text, (ours, theirs) in zip(texts, pairs, strict=True)
        if ours != theirs
    ]


def character_vocabulary(characters):
    """Every character in every form that normalisation may give it, as a piece."""
    forms = {
        form for c in characters for form in (c, c.lower(), c.upper(), c.casefold())
    }
    forms |= {unicodedata.normalize("NFD", form) for form in forms}
    forms |= {unicodedata.normalize("NFKD", form) for form in forms}
    single = sorted({c for c in "".join(forms) if not c.isspace()})
    return Vocabulary([*SPECIAL_TOKENS, *single, *("##" + c for c in single)])


@pytest.fixture(scope="module", params=ALL_NORMALIZATIONS, ids=str)
def trouble(request):
    vocabulary = character_vocabulary(TROUBLE)
    return WordPieces(vocabulary, request.param), oracle(vocabulary, request.param)


@pytest.fixture(scope="module")
def released():
    """The released vocabulary is uncased; ids under both rules have to agree."""
    vocabulary = released_vocabulary()
    return [
        (WordPieces(vocabulary, normalization), oracle(vocabulary, normalization))
        for normalization in (UNCASED, CASED)
    ]


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(
    texts=strategies.lists(
        strategies.text(
            strategies.one_of(
                strategies.sampled_from(TROUBLE),
                strategies.characters(exclude_categories=["Cs"]),
            ),
            max_size=30,
        ),
        max_size=20,
    )
)
def test_any_text(trouble, texts):
    assert differing(*trouble, texts) == []


@pytest.mark.parametrize("normalization", PAIRED_NORMALIZATIONS, ids=str)
def test_twelve_scripts(normalization):
    vocabulary = twelve_scripts.vocabulary()
    pieces = WordPieces(vocabulary, normalization)
    texts = twelve_scripts.texts(600)
    assert differing(pieces, oracle(vocabulary, normalization), texts) == []
    # What is compared is neither all unknown nor the same for all settings.
    ids = pieces.encode(texts)[0]
    assert np.mean(ids == vocabulary.unk_id) < 0.01
    for other in ALL_NORMALIZATIONS:
        if other != normalization:
            assert not np.array_equal(
                ids, WordPieces(vocabulary, other).encode(texts)[0]
            )


def test_all_pairs_of_troublesome_characters(trouble):
    texts = [f"a{x}{y}b" for x, y in itertools.product(TROUBLE, repeat=2)]
    assert differing(*trouble, texts) == []


@pytest.mark.parametrize("length", [25, 26, 33, 34, 100, 101, 399, 401])
@pytest.mark.parametrize(
    "character", ["a", "é", "я", "ก", "한", "😀", "\U0001d15e", "e\u0301"], ids=ascii
)
def test_the_longest_words(character, length):
    vocabulary = character_vocabulary(character + "\u0301a")
    for normalization in (UNCASED, CASED):
        pieces = WordPieces(vocabulary, normalization)
        word = character * length
        texts = [word, f"a {word}", f"{word}. a", word + "\x01", word + "\u00ad"]
        assert differing(pieces, oracle(vocabulary, normalization), texts) == []


def wikipedia_lines(number):
    folder = sample_data("enwiki_wikiextractor_2015", "text", "AA")
    return (folder / f"wiki_{number:02}").read_text(encoding="utf-8").split("\n")


def c4_lines():
    path = sample_data("c4", "c4-sample.dev800.json.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line for row in file for line in json.loads(row)["text"].split("\n")]


def book_lines():
    folder = sample_data("classic_books_md", "Abbé Prévost")
    return (folder / "Manon Lescaut.md").read_text(encoding="utf-8").split("\n")


@pytest.mark.parametrize(
    "read",
    [lambda: wikipedia_lines(37), c4_lines, book_lines],
    ids=["wiki", "c4", "books"],
)
def test_real_text(released, read):
    texts = read()
    assert sum(map(len, texts)) > 200_000
    for pieces, its_oracle in released:
        assert differing(pieces, its_oracle, texts) == []


@BOTH_CASES
@pytest.mark.parametrize("before", ["", "x", "é ", "ß "])
def test_literal_special_tokens_are_text(before, normalization):
    """On each of the three ways."""
    mask = "mask" if normalization == UNCASED else "MASK"
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "[", "]", mask, "cls", "CLS", "x"])
    ids = WordPieces(vocabulary, normalization).encode([f"{before}[MASK][PAD] [UNK]"])[
        0
    ]
    bracket, end, word = (vocabulary.id_of(token) for token in ("[", "]", mask))
    assert [bracket, word, end] in [ids[i : i + 3].tolist() for i in range(3)]
    assert vocabulary.mask_id not in ids
    assert vocabulary.pad_id not in ids


def test_decode_joins_the_pieces_of_words(released):
    pieces = released[0][0]
    ids, _ = pieces.encode(["Unaffable [MASK]s, naïve!"])
    assert pieces.decode(ids) == "unaffable [ mask ] s , naive !"
    assert pieces.decode([pieces.vocabulary.mask_id, *ids[:1]]) == "[MASK] una"
    assert pieces.decode([]) == ""


CHARACTERS = character_vocabulary(TROUBLE)


@functools.cache
def encoders(normalization):
    return tuple(kind(CHARACTERS, normalization) for kind in (PieceOffsets, WordPieces))


@pytest.mark.parametrize("normalization", PAIRED_NORMALIZATIONS, ids=str)
@hypothesis.given(text=strategies.text(strategies.sampled_from(TROUBLE + "\ud800")))
@hypothesis.settings(deadline=None, max_examples=150)
def test_pieces_are_those_of_word_pieces_and_stand_in_order(normalization, text):
    offsets, pieces = encoders(normalization)
    ids, starts, stops = offsets.encode(text)
    assert ids.dtype == np.int32
    assert ids.tolist() == pieces.encode([text])[0].tolist()
    assert (starts >= 0).all()
    assert (starts < stops).all()
    assert (stops <= len(text)).all()


def test_offsets_are_those_of_the_text_as_it_was():
    tokens = ["cafe", "##s", "a", "##b", ",", "ist", "中"]
    pieces = PieceOffsets(Vocabulary([*SPECIAL_TOKENS, *tokens]))
    text = "\ufeff Cafe\u0301s,\x00\ud83dA\u200bB İST中 CAFÉ\u0327 "
    ids, starts, stops = pieces.encode(text)
    assert [pieces.vocabulary.tokens[one] for one in ids] == [
        "cafe", "##s", ",", "a", "##b", "ist", "中", "cafe",
    ]  # fmt: skip
    assert [text[a:b] for a, b in zip(starts, stops, strict=True)] == [
        "Cafe\u0301", "s", ",", "A", "B", "İST", "中", "CAFÉ\u0327",
    ]  # fmt: skip


# There is a table for each pair of case and accents, and one for ideographs.
EVERY_TABLE = pytest.mark.parametrize("normalization", PAIRED_NORMALIZATIONS, ids=str)


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


@EVERY_TABLE
def test_the_table_is_what_trying_characters_finds(normalization):
    tried = [*code_points_to_try(), *range(0x3400 - 9, 0x3409), *range(0x9FC0, 0xA010)]
    expected = members(differing_characters(normalization)) & set(tried)
    assert set(find_differing(set(tried), normalization)) == expected


@EVERY_TABLE
def test_words_end_at_every_break(normalization):
    """Both tokenizers know the word `a` on either side of it, or drop it for both."""
    tokens = ["[UNK]", "a", "##a"]
    exact = exact_tokenizer(tokens, normalization)
    safe = members(WORD_BREAKS) - members(differing_characters(normalization))
    texts = [f"a{chr(code_point)}a" for code_point in sorted(safe)]
    fast_rows = rows(FastTokenizer(tokens, normalization).encode_unicode(texts))
    for text, fast_row in zip(texts, fast_rows, strict=True):
        assert exact.encode(text).ids in ([1, 1], [1, 0, 1]), ascii(text)
        assert fast_row in ([1, 1], [1, 0, 1]), ascii(text)
