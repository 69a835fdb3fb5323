"""Word pieces are those of `WordPieces`, and stand where they say."""

import functools
import json
import unicodedata

import hypothesis
import numpy as np
import pytest
import tokenizers
from hypothesis import strategies

from seg_tf.text.exact_tokenizer import UNCASED
from seg_tf.text.piece_offsets import PieceOffsets
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from seg_tf.text.word_pieces import WordPieces
from tests.sample_data import sample_data
from tests.text.test_word_pieces import TROUBLE, character_vocabulary
from tests.text.twelve_scripts import ALL_NORMALIZATIONS

CHARACTERS = character_vocabulary(TROUBLE)


@functools.cache
def encoders(normalization):
    return tuple(kind(CHARACTERS, normalization) for kind in (PieceOffsets, WordPieces))


@pytest.mark.parametrize("normalization", ALL_NORMALIZATIONS, ids=str)
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


@hypothesis.given(text=strategies.text("aBéÉß中! e\u0301\u200b\xa0İ한", max_size=30))
@hypothesis.settings(deadline=None, max_examples=150)
def test_a_piece_is_among_the_characters_it_stands_for(text):
    """Looked up without offsets: the characters alone, normalised, hold the piece."""
    offsets, _ = encoders(UNCASED)
    normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    for token_id, start, stop in zip(*offsets.encode(text), strict=True):
        token = CHARACTERS.tokens[token_id]
        if token != "[UNK]":
            normalised = normalizer.normalize_str(text[start:stop])
            assert token.removeprefix("##") in normalised


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


def test_a_mark_goes_with_the_character_before_it():
    assert unicodedata.category("\u0301") == "Mn"
    pieces = PieceOffsets(Vocabulary([*SPECIAL_TOKENS, "e", "##e"]))
    ids, starts, stops = pieces.encode("e\u0301\u0300e\u0301")
    assert ids.tolist() == [5, 6]
    assert (starts.tolist(), stops.tolist()) == ([0, 3], [3, 5])


def test_no_text_has_no_pieces():
    pieces = PieceOffsets(Vocabulary([*SPECIAL_TOKENS, "a"]))
    for text in ("", " \n", "\x00\ud800"):
        assert [len(part) for part in pieces.encode(text)] == [0, 0, 0]


def test_pieces_of_squad_are_those_of_word_pieces():
    path = sample_data("bert_vocab", "bert-base-uncased-vocab.txt")
    vocabulary = Vocabulary.from_file(path)
    data = json.loads(sample_data("squad", "dev-v1.1.reconstructed.json").read_text())
    texts = []
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            texts.append(paragraph["context"])
            texts += [asked["question"] for asked in paragraph["qas"]]
    offsets = PieceOffsets(vocabulary)
    ids, lengths = WordPieces(vocabulary).encode(texts)
    # Not one wrong among all: where pieces differ is told by the first one.
    ours = [offsets.encode(text)[0] for text in texts]
    expected = np.split(ids, np.cumsum(lengths)[:-1])
    differing = [
        text
        for text, one, other in zip(texts, ours, expected, strict=True)
        if one.tolist() != other.tolist()
    ]
    assert len(texts) > 12_000
    assert not differing
