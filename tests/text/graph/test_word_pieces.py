"""Word pieces in the graph: those of the exact tokenizer, and where they stand."""

import functools
import random

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.text.graph.flat import FlatTexts
from seg_tf.text.graph.word_pieces import GraphWordPieces
from seg_tf.text.normalization import CASED, UNCASED
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from seg_tf.text.word_pieces import PieceOffsets, WordPieces
from tests.text import twelve_scripts
from tests.text.test_word_pieces import oracle, oracle_rows

pytestmark = pytest.mark.slow
LETTERS = "abcdeinortsuABCDEß中한éıΣσςаб"

VOCABULARY = Vocabulary(
    [
        *SPECIAL_TOKENS,
        "[unused0]",
        "##",
        *dict.fromkeys(LETTERS + "한.,!?[]-'…'①f"),
        *("##" + letter for letter in dict.fromkeys(LETTERS + "ᅡᆫ\u0307f")),
        *("sep", "mask", "abc", "##cde", "tion", "##in", "a.b", "x"),
    ]
)

# All of the characters of the languages that texts are mostly in, and of the rest some.
CODE_POINTS = [
    *range(0x3100),
    *range(0x3100, 0x11000, 7),
    *range(0x11000, 0x110000, 97),
]

CASES = [
    "",
    " \n\t ",
    "[SEP] and [MASK]. [unused0]",
    "a" * 100,
    "a" * 101,
    "é" * 100 + "! " + "é" * 101,
    "한" * 34,
    "a\x00b\u200dc\ufffd",
    "İstanbul ΑΣ Σ Straße ﬁ",
    "中文a中",
    "a.b ##a abc##cde",
]


@functools.cache
def tokenizers(normalization, vocabulary=VOCABULARY):
    in_graph = GraphWordPieces(vocabulary, normalization)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def encode(texts):
        flat = FlatTexts.of(texts)
        found = in_graph.encode(
            flat.code_points,
            flat.starts,
            flat.ends,
            tf.range(tf.size(texts)),
            most_words=10**9,
        )
        base = tf.gather(flat.starts, found.spans)
        return found.ids, found.spans, found.starts - base, found.stops - base

    return in_graph, encode


@pytest.mark.parametrize("normalization", [UNCASED, CASED])
def test_ids_are_exact(normalization):
    generator = random.Random(1)
    characters = [
        chr(code_point)
        for code_point in CODE_POINTS
        if not 0xD800 <= code_point < 57344
    ]
    pool = list(LETTERS) * 300 + list(" .,'[]-") * 200 + characters
    texts = [f"a{character}b" for character in characters]
    texts += ["".join(generator.choices(pool, k=30)) for _ in range(2000)]
    texts += CASES
    ids, spans, _, _ = tokenizers(normalization)[1](texts)
    expected, lengths = WordPieces(VOCABULARY, normalization).encode(texts)
    found_lengths = np.bincount(spans.numpy(), minlength=len(texts))
    for text, found, wanted in zip(texts, found_lengths, lengths, strict=True):
        assert found == wanted, repr(text)
    np.testing.assert_array_equal(ids, expected)


@pytest.mark.parametrize("normalization", twelve_scripts.PAIRED_NORMALIZATIONS, ids=str)
def test_ids_of_twelve_scripts_are_exact(normalization):
    vocabulary, texts = twelve_scripts.vocabulary(), twelve_scripts.texts(600)
    ids, spans, _, _ = tokenizers(normalization, vocabulary)[1](texts)
    expected = oracle_rows(oracle(vocabulary, normalization), texts)
    ends = np.cumsum(np.bincount(spans, minlength=len(texts)))
    assert [row.tolist() for row in np.split(ids, ends)[:-1]] == expected


@pytest.mark.parametrize("normalization", [UNCASED, CASED])
def test_offsets_are_characters_of_the_text(normalization):
    # Offsets of marks that are combined with a letter are extended afterwards.
    texts = [*CASES, " A dog,\tabcde  İa 한中 x" + "b" * 120 + " ﬁn."]
    exact = PieceOffsets(VOCABULARY, normalization)
    ids, spans, starts, stops = (
        one.numpy() for one in tokenizers(normalization)[1](texts)
    )
    for number, text in enumerate(texts):
        of_text = spans == number
        expected = exact.encode(text)
        for found, wanted in zip((ids, starts, stops), expected, strict=True):
            np.testing.assert_array_equal(found[of_text], wanted, err_msg=repr(text))


def test_words_beyond_the_most_are_left_out():
    texts = ["a b c d", "", "a.b.c", "x"]
    flat = FlatTexts.of(tf.constant(texts))
    found = tokenizers(UNCASED)[0].encode(
        flat.code_points, flat.starts, flat.ends, tf.range(4), most_words=3
    )
    tokens = VOCABULARY.tokens_of(found.ids.numpy())
    assert tokens == ["a", "b", "c", "a", ".", "b", "x"]
    assert found.spans.numpy().tolist() == [0, 0, 0, 2, 2, 2, 3]
