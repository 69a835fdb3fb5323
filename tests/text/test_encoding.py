"""Ways from text to ids by their names, and sentences of whole words."""

import pathlib
import subprocess
import sys

import pytest

from seg_tf.text import encoding
from seg_tf.text.exact_tokenizer import CASED, UNCASED
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from seg_tf.text.word_pieces import WordPieces
from seg_tf.text.word_vocabulary import WordVocabulary
from seg_tf.text.words import Words
from tests.sample_data import sample_data


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


def test_a_vocabulary_of_the_other_kind_is_refused(paths):
    with pytest.raises(ValueError, match=r"lacks \[PAD\]"):
        encoding.read_vocabulary("word_pieces", paths["words"])
    with pytest.raises(ValueError, match="<eos> on line 1"):
        encoding.read_vocabulary("words", paths["word_pieces"])


def test_an_unknown_tokenizer_is_refused(paths):
    for function in (
        lambda: encoding.read_vocabulary("bytes", paths["words"]),
        lambda: encoding.text_encoder("bytes", Vocabulary(SPECIAL_TOKENS), UNCASED),
        lambda: encoding.sentence_splitter("bytes", SentenceSplitter()),
    ):
        with pytest.raises(ValueError, match=r"`tokenizer` must be one of .*'bytes'"):
            function()


def test_punkt_cuts_words_of_tokenised_text_and_we_do_not():
    text = "It is 4 @.@ 5 m . He ran ! (so) It was U.S.@.@x then . End"
    assert "@.@" not in " ".join(SentenceSplitter().split(text)).split()
    sentences = encoding.sentence_splitter("whitespace", SentenceSplitter())(text)
    assert [word for one in sentences for word in one.split()] == text.split()
    assert sentences[0] == "It is 4 @.@ 5 m ."


def test_sentences_of_other_text_are_punkts():
    text = "He ran (fast!). It said \u201cyes.\u201dNo. Then...done."
    splitter = SentenceSplitter()
    for tokenizer in ("word_pieces", "words"):
        split = encoding.sentence_splitter(tokenizer, splitter)
        assert split(text) == splitter.split(text)


def test_sentences_of_wikitext_hold_its_words():
    path = sample_data("wikitext-2", "wiki.valid.tokens")
    split = encoding.sentence_splitter("whitespace", SentenceSplitter())
    lines = path.read_text(encoding="utf-8").split("\n")
    for line in lines:
        sentences = split(line)
        assert [w for one in sentences for w in one.split()] == line.split()
    assert sum(len(split(line)) for line in lines) > 8000


def test_tensorflow_waits_until_pieces_are_encoded():
    """Parent processes of a build never need it."""
    code = (
        "import sys; from seg_tf.text import encoding, words; "
        "sys.exit('tensorflow' in sys.modules)"
    )
    root = pathlib.Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root).returncode == 0
