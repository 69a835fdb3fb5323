"""Ways from text to ids by name, whole words, and sentences of whole words."""

import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest

from seg_tf.text import encoding
from seg_tf.text.encoding import Words
from seg_tf.text.normalization import CASED, UNCASED, word_splitter
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary, WordVocabulary
from seg_tf.text.word_pieces import WordPieces
from tests.text.twelve_scripts import ALL_NORMALIZATIONS


@pytest.fixture
def paths(tmp_path):
    pieces, words = tmp_path / "pieces.txt", tmp_path / "words.txt"
    pieces.write_bytes(Vocabulary([*SPECIAL_TOKENS, "a", "##b"]).to_bytes())
    words.write_bytes(WordVocabulary(["<eos>", "<unk>", "ab", "AB", "AB."]).to_bytes())
    return {"word_pieces": pieces, "words": words, "whitespace": words}


@pytest.mark.parametrize(
    ("tokenizer", "normalization", "kind", "decoded"),
    [
        ("word_pieces", UNCASED, WordPieces, "ab [UNK]"),
        ("words", UNCASED, Words, "ab <unk>"),
        ("words", CASED, Words, "AB <unk>"),
        ("whitespace", CASED, Words, "AB."),
    ],
)
def test_each_tokenizer_has_its_vocabulary(
    paths, tokenizer, normalization, kind, decoded
):
    vocabulary = encoding.read_vocabulary(tokenizer, paths[tokenizer])
    encoder = encoding.text_encoder(tokenizer, vocabulary, normalization)
    assert isinstance(encoder, kind)
    assert encoder.decode(encoder.encode(["AB."])[0]) == decoded


def test_punkt_cuts_words_of_tokenised_text_and_we_do_not():
    text = "It is 4 @.@ 5 m . He ran ! (so) It was U.S.@.@x then . End"
    assert "@.@" not in " ".join(SentenceSplitter().split(text)).split()
    sentences = encoding.sentence_splitter("whitespace", SentenceSplitter())(text)
    assert [word for one in sentences for word in one.split()] == text.split()
    assert sentences[0] == "It is 4 @.@ 5 m ."


def test_tensorflow_waits_until_pieces_are_encoded():
    """Parent processes of a build never need it."""
    code = (
        "import sys; from seg_tf.text import encoding, splitters; "
        "sys.exit('tensorflow' in sys.modules)"
    )
    root = pathlib.Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root).returncode == 0


# Words, marks, ideographs, accents, controls and spaces of all kinds.
PARTS = [
    *("the", "The", "dog", "don't", "x,y", "U.S.", "(a)", "1,300", "été", "ÉTÉ"),
    *("中文", "e\u0301", "\u0301", "ΟΔΟΣ", "\u200b", "\x00a", "\udc80", "\ufffd"),
    *("<unk>", "<eos>", "@-@", " ", "  ", "\t", "\xa0", "\u3000", "\u2028", "\x85"),
]

WORDS = """<eos> the , <unk> dog don ' don't < eos unk > 中 中文 ete été a ( (a)
@-@ x y x,y The"""
VOCABULARY = WordVocabulary(WORDS.split())


def random_texts(count):
    generator = random.Random(0)
    for _ in range(count):
        parts = generator.choices(PARTS, k=generator.randint(0, 12))
        yield "".join(part + generator.choice(["", " "]) for part in parts)


def naive_ids(words):
    """An id for each word; <eos> cannot be said in text."""
    ids = VOCABULARY.ids
    return [3 if word == "<eos>" else ids.get(word, 3) for word in words]


def split_rows(encoded):
    ids, lengths = encoded
    return [row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])]


@pytest.mark.parametrize("normalization", ALL_NORMALIZATIONS, ids=str)
def test_words_are_those_that_pieces_are_cut_from(normalization):
    texts = list(random_texts(400))
    split = word_splitter(normalization)
    found = split_rows(Words(VOCABULARY, "words", normalization).encode(texts))
    assert found == [naive_ids(split(text)) for text in texts]
    assert len({tuple(row) for row in found}) > 200


@pytest.mark.parametrize(
    ("splitting", "text", "expected"),
    [
        ("whitespace", "the <eos> dog <unk>", "the <unk> dog <unk>"),
        ("words", "the <eos> dog <unk>", "the < eos > dog < unk >"),
        ("words", "don't", "don ' <unk>"),
        ("whitespace", "don't", "don't"),
    ],
)
def test_marks_in_text_are_text(splitting, text, expected):
    words = Words(VOCABULARY, splitting)
    ids, _ = words.encode([text])
    assert words.decode(ids) == expected
    assert VOCABULARY.eos_id not in ids
