"""Text to ids of whole words, against splitting whole texts word by word."""

import random

import numpy as np
import pytest

from seg_tf.text import words as words_module
from seg_tf.text.exact_tokenizer import UNCASED, word_splitter
from seg_tf.text.word_vocabulary import WordVocabulary
from seg_tf.text.words import Words
from tests.text.twelve_scripts import ALL_NORMALIZATIONS

# Words, marks, ideographs, accents, controls and spaces of all kinds.
PARTS = [
    *("the", "The", "dog", "don't", "x,y", "U.S.", "(a)", "1,300", "été", "ÉTÉ"),
    *("中文", "e\u0301", "\u0301", "ΟΔΟΣ", "\u200b", "\x00a", "\udc80", "\ufffd"),
    *("<unk>", "<eos>", "@-@", " ", "  ", "\t", "\xa0", "\u3000", "\u2028", "\x85"),
]
VOCABULARY = WordVocabulary(
    [
        *("<eos>", "the", ",", "<unk>", "dog", "don", "'", "don't", "<", "eos", "unk"),
        *(
            ">",
            "中",
            "中文",
            "ete",
            "été",
            "a",
            "(",
            "(a)",
            "@-@",
            "x",
            "y",
            "x,y",
            "The",
        ),
    ]
)


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


def test_white_space_alone_parts_words_of_tokenised_text():
    texts = list(random_texts(400))
    found = split_rows(Words(VOCABULARY, "whitespace").encode(texts))
    without_surrogates = [text.replace("\udc80", "") for text in texts]
    assert found == [naive_ids(text.split()) for text in without_surrogates]


def test_tokenised_text_keeps_its_marks_in_lower_case():
    words = Words(VOCABULARY, "whitespace", UNCASED)
    ids, _ = words.encode(["The DON'T ÉTÉ 中文 <UNK> X,Y"])
    assert words.decode(ids) == "the don't ete 中文 <unk> x,y"


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


def test_ids_and_lengths_are_flat_arrays():
    ids, lengths = Words(VOCABULARY).encode(["the dog", "", " ", "the"])
    assert (ids.tolist(), lengths.tolist()) == ([1, 4, 1], [2, 0, 0, 1])
    assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)
    ids, lengths = Words(VOCABULARY).encode([])
    assert (ids.shape, ids.dtype, lengths.shape) == ((0,), np.int32, (0,))


def test_memory_is_bounded_and_forgetting_changes_nothing(monkeypatch):
    texts = list(random_texts(200))
    expected = split_rows(Words(VOCABULARY).encode(texts))
    monkeypatch.setattr(words_module, "_MAX_CHUNKS", 5)
    words = Words(VOCABULARY)
    assert split_rows(words.encode(texts)) == expected
    assert len(words._chunks) <= 5


def test_decoding_shows_ends_of_paragraphs():
    assert Words(VOCABULARY).decode([1, 4, 0]) == "the dog <eos>"
    with pytest.raises(ValueError, match="`ids` must lie between 0 and"):
        Words(VOCABULARY).decode([VOCABULARY.size])


def test_a_string_in_place_of_a_list_is_refused():
    with pytest.raises(ValueError, match=r"`texts` must be a sequence.*one str, 'the'"):
        Words(VOCABULARY).encode("the")


def test_an_unknown_way_of_splitting_is_refused():
    with pytest.raises(ValueError, match=r"one of words, whitespace.*'spaces'"):
        Words(VOCABULARY, "spaces")
